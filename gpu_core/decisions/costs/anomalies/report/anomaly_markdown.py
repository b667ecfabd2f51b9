"""An anomaly as people read it: what it is, why, which runs are behind it, and what would help."""

from itertools import takewhile

from gpu_core.decisions.costs.anomalies.decomposition.decomposition import (
    Contribution,
    Decomposition,
)
from gpu_core.decisions.costs.anomalies.decomposition.sentences import (
    contribution_text,
    signed_usd,
)
from gpu_core.decisions.costs.anomalies.detection.judgment import Judgment, RootCause
from gpu_core.decisions.costs.reports.cost_history import Scope
from gpu_core.decisions.model.attempts import Provenance, RunRecord
from gpu_core.decisions.model.markdown import escaped, flow_run_link
from gpu_core.decisions.model.units import count, format_usd

MOST_ROWS = 3
_NAMED_PERCENT = 5
"""A contribution of less than 5% of the excess is not worth a row of its own."""
_MOST_OF_IT_PERCENT = 50


def anomaly_markdown(judgment: Judgment, named: set[str]) -> str:
    """The sentence, why, and the runs behind it except those that are named already.

    A part of the cost whose runs are all named says the same again: it is an item of a list.

    Args:
        judgment: An anomaly.
        named: The ids of runs that other anomalies of the page name; those of this one are added.
    """
    causes = [cause for cause in judgment.causes if cause.run.flow_run_id not in named]
    if judgment.causes and not causes:
        return f"- {escaped(judgment.summary)}"
    named.update(cause.run.flow_run_id for cause in causes)
    why = judgment.why
    paragraphs = [f"**{escaped(judgment.summary)}**"]
    if why is not None and why.contributions:
        paragraphs += [_why(why), *_where(why)]
    if causes:
        paragraphs.append("\n".join(["Contributing runs:", "", *map(_behind, causes)]))
    if judgment.action is not None:
        paragraphs.append(f"Recommended action: {escaped(judgment.action.text)}")
    return "\n\n".join(paragraphs)


def named_contributions(
    why: Decomposition,
) -> tuple[tuple[Contribution, ...], tuple[Contribution, ...]]:
    """The contributions that have a row of their own, and those that are added up."""
    least = abs(why.excess_micro_usd) * _NAMED_PERCENT
    first = why.contributions[:MOST_ROWS]
    large = tuple(takewhile(lambda each: abs(each.micro_usd) * 100 >= least, first)) or first[:1]
    return large, why.contributions[len(large) :]


def where_most(why: Decomposition) -> list[tuple[Scope, int]]:
    """The values with half of the excess or more, and their part in percent."""
    excess = why.excess_micro_usd
    found = []
    for dimension, values in why.where.items():
        value, micro_usd = values[0] if values else (None, 0)
        percent = 100 * micro_usd // excess if excess else 0
        if value is not None and len(values) > 1 and percent >= _MOST_OF_IT_PERCENT:
            found.append((Scope(dimension, value), percent))
    return found


def _why(why: Decomposition) -> str:
    named, others = named_contributions(why)
    lines = [
        f"- {signed_usd(each.micro_usd)}: {escaped(contribution_text(each))}" for each in named
    ]
    if others:
        rest = sum(each.micro_usd for each in others)
        lines.append(f"- {signed_usd(rest)}: {count(len(others), 'smaller change')}")
    return "\n".join(["Why:", "", *lines])


def _where(why: Decomposition) -> list[str]:
    places = [f"{escaped(str(scope))} ({percent}%)" for scope, percent in where_most(why)]
    return [f"Affected: {', '.join(places)}."] if places else []


def _behind(cause: RootCause) -> str:
    source = cause.run.deployment or cause.run.flow_name
    return (
        f"- {_run(cause.run)} of {escaped(source)} ({escaped(cause.run.team or 'no team')}): "
        f"{format_usd(cause.cost_micro_usd)}, of which {format_usd(cause.excess_micro_usd)} "
        "above the typical daily cost of its deployment"
    )


def _run(run: RunRecord) -> str:
    """Its name, with a link to its page; a generated run has no page."""
    if run.provenance is Provenance.GENERATED:
        return escaped(run.name)
    return flow_run_link(run.name, run.flow_run_id)
