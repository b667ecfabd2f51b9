"""Anomalies as people read them on a terminal."""

from collections.abc import Iterator, Sequence
from datetime import date

from gpu_core.cli.shared.terminal import wrapped
from gpu_core.decisions.costs.anomalies.decomposition.decomposition import Decomposition
from gpu_core.decisions.costs.anomalies.decomposition.sentences import contribution_text, signed_usd
from gpu_core.decisions.costs.anomalies.detection.judgment import AnomalyVerdict, Judgment
from gpu_core.decisions.costs.anomalies.report.anomaly_markdown import (
    named_contributions,
    where_most,
)
from gpu_core.decisions.model.units import count, format_usd


def anomalies_text(
    first: date, last: date, found: Sequence[Judgment], *, has_runs: bool, with_generated: bool
) -> str:
    """Each anomaly with why, where, which runs, and what would help; then what was not judged.

    Args:
        first: The first day.
        last: The last day.
        found: What was judged on these days.
        has_runs: A run cost something on one of these days, or of those that they are judged by.
        with_generated: Generated runs count.
    """
    if not has_runs:
        hint = "" if with_generated else " Use --with-generated to include generated runs."
        return f"No GPU usage found in the ledger up to {last.isoformat()}.{hint}"
    flagged = [judgment for judgment in found if judgment.is_anomaly]
    lines = [_headline(first, last, flagged), *_not_judged(found)]
    named: set[str] = set()
    for judgment in flagged:
        text = list(_anomaly(judgment, named))
        # One line is a part of the anomaly above it: its runs are named there.
        lines += ["", *text] if len(text) > 1 or not named else text
    return "\n".join(lines)


def _headline(first: date, last: date, flagged: Sequence[Judgment]) -> str:
    days = first.isoformat() if first == last else f"{first.isoformat()} to {last.isoformat()}"
    if not flagged:
        return f"No anomalies detected: {days}, UTC."
    new = sum(judgment.is_new for judgment in flagged)
    return f"{_anomalies(len(flagged))}, of which {new} new: {days}, UTC."


def _anomalies(number: int) -> str:
    return "1 anomaly" if number == 1 else f"{number} anomalies"


def _not_judged(found: Sequence[Judgment]) -> Iterator[str]:
    for verdict, why in (
        (AnomalyVerdict.NOT_ENOUGH_HISTORY, "there is not enough history"),
        (AnomalyVerdict.PLANNED, "of planned activity"),
    ):
        scopes = list(dict.fromkeys(j.scope for j in found if j.verdict is verdict))
        if scopes:
            yield wrapped(f"Not evaluated because {why}: {', '.join(scopes)}.", "  ")


def _anomaly(judgment: Judgment, named: set[str]) -> Iterator[str]:
    yield wrapped(f"{judgment.day.isoformat()}  {judgment.summary}", " " * 12)
    causes = [cause for cause in judgment.causes if cause.run.flow_run_id not in named]
    if judgment.causes and not causes:
        return  # the runs are named above: it is a part of that anomaly
    named.update(cause.run.flow_run_id for cause in causes)
    if judgment.why is not None:
        yield from _why(judgment.why)
    for cause in causes:
        text = (
            f"Run {cause.run.name}: {format_usd(cause.cost_micro_usd)}, "
            f"{format_usd(cause.excess_micro_usd)} above the typical daily cost of its deployment"
        )
        yield wrapped(f"  {text}", "    ")
    if judgment.action is not None:
        yield wrapped(f"  Recommended action: {judgment.action.text}", "    ")


def _why(why: Decomposition) -> Iterator[str]:
    large, others = named_contributions(why)
    rows = [(signed_usd(each.micro_usd), contribution_text(each)) for each in large]
    if others:
        rest = sum(each.micro_usd for each in others)
        rows.append((signed_usd(rest), count(len(others), "smaller change")))
    width = max((len(amount) for amount, _ in rows), default=0)
    for amount, text in rows:
        yield wrapped(f"  {amount:>{width}}  {text}", " " * (width + 4))
    places = [f"{scope} ({percent}%)" for scope, percent in where_most(why)]
    if places:
        yield wrapped(f"  Affected: {', '.join(places)}", "    ")
