"""The report of a day's cost as people read it: a headline, tables, and what to look at."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from gpu_core.decisions.costs.anomalies.detection.judgment import (
    AnomalyVerdict,
    Judgment,
    describe_change,
)
from gpu_core.decisions.costs.anomalies.report.anomaly_markdown import anomaly_markdown
from gpu_core.decisions.costs.anomalies.report.daily_report import DayReport
from gpu_core.decisions.costs.anomalies.report.use_section import use_section
from gpu_core.decisions.costs.capacity.idle import CapacityCost
from gpu_core.decisions.costs.reports.budget_use import budgets_section
from gpu_core.decisions.costs.reports.cost_history import Scope
from gpu_core.decisions.costs.reports.cost_plot import cost_plot
from gpu_core.decisions.costs.savings.markdown import savings_section
from gpu_core.decisions.costs.usage.usage import Usage, sum_usage
from gpu_core.decisions.costs.usage.usage_cost import (
    GroupCost,
    RunCost,
    Setback,
    Window,
    format_cost,
    group_by,
    total,
    without_price,
)
from gpu_core.decisions.model.attempts import Attempt, EndReason, Provenance, RunRecord
from gpu_core.decisions.model.markdown import cell, escaped, flow_run_cell, table
from gpu_core.decisions.model.units import SECONDS_PER_HOUR, format_usd

_MOST_ROWS = 10
# What has no price is judged by no rule.
_UNJUDGED = AnomalyVerdict.NOT_ENOUGH_HISTORY.value


def to_markdown(report: DayReport, *more: str) -> str:
    """The report as a page of Markdown. The same report always gives the same page.

    Args:
        report: The report.
        more: Sections that follow, as Markdown.
    """
    parts = [
        f"# GPU cost on {report.day.isoformat()}",
        f"**{_headline(report)}**",
        *([report.outlook] if report.outlook else []),
        *_notes(report),
        *_anomalies(report),
        *_unusual_hours(report),
    ]
    parts += budgets_section(report.budgets)
    if len(report.days) > 1:
        parts.append(f"## Cost per day\n\n{cost_plot(report.days)}")
    if report.costs:
        parts += [
            _group_table("By team", "Team", report.costs, lambda run: run.team),
            _group_table("By project", "Project", report.costs, lambda run: run.project),
            _group_table("By experiment", "Experiment", report.costs, lambda run: run.experiment),
            *_named_table("By model", "Model", report.costs, lambda run: run.model),
            *_named_table("By workload type", "Type", report.costs, lambda run: run.workload_type),
            _dearest_runs(report.costs),
            *_setbacks(report.costs),
            *use_section(report.costs, Window.of_day(report.day)),
        ]
    parts += _idle(report.capacity)
    parts += savings_section(report.savings)
    parts += more
    return "\n\n".join(parts) + "\n"


def team_rows(report: DayReport) -> list[dict[str, str]]:
    """One row for each team, the dearest first, and one for the total: for a table in the UI.

    With one team there is no total, which would say the same again.
    """
    verdicts = {judgment.scope: judgment.verdict.value for judgment in report.judgments}
    groups = group_by(report.costs, lambda run: run.team)
    rows = [
        _team_row(name or "no team", group, verdicts.get(str(Scope("team", name)), _UNJUDGED))
        for name, group in groups.items()
    ]
    if len(rows) == 1:
        return rows
    return [*rows, _team_row("total", report.total, verdicts["total"])]


def _team_row(name: str, group: GroupCost, verdict: str) -> dict[str, str]:
    return {
        "team": name,
        "runs": str(group.runs),
        "gpu_hours": _hours(group.usage),
        "cost": format_cost(group.usage),
        "lost": format_cost(group.lost),
        "saved_by_checkpoints": format_cost(group.saved),
        "verdict": verdict,
    }


def _headline(report: DayReport) -> str:
    if not report.costs:
        return "No GPU usage found."
    usage = report.total.usage
    expected = report.judgments[0].expected_micro_usd
    said = (
        f"{format_usd(usage.micro_usd)} for {_hours(usage)} GPU-hours in "
        f"{_count(len(report.costs), 'run')}{without_price(usage)}"
    )
    if expected is None:
        return f"{said}; {_why_not_compared(report.judgments[0])}."
    if not report.is_day_over:
        return f"{said} so far. The expected cost for the entire day is {format_usd(expected)}."
    change = describe_change(usage.micro_usd, expected)
    return f"{said}: {change} ({format_usd(expected)} expected)."


def _why_not_compared(judgment: Judgment) -> str:
    if judgment.verdict is AnomalyVerdict.PLANNED:
        return "the day was not evaluated because of planned activity"
    return "not enough history for a comparison"


def _notes(report: DayReport) -> list[str]:
    notes = []
    generated = [c for c in report.costs if c.run.provenance is Provenance.GENERATED]
    if generated and len(generated) == len(report.costs):
        notes.append(
            "> **Generated data.** This report is a demonstration and does not contain "
            "any measured data."
        )
    elif generated:
        usage = total(generated).usage
        notes.append(
            f"> **Partly generated data.** {format_cost(usage)} of the total, in "
            f"{_count(len(generated), 'run')}, is generated sample data."
        )
    if report.generated_before:
        runs = _count(report.generated_before, "generated run")
        notes.append(f"> **Generated history.** The previous days contain {runs}.")
    if not report.is_day_over:
        notes.append("> The day is not over yet, so these numbers are incomplete.")
    unpriced = report.total.usage.unpriced_gpu_s
    if unpriced:
        types = sorted({a.gpu_type or "no type" for a in _unpriced_attempts(report.costs)})
        notes.append(
            f"> **Unpriced: {unpriced / SECONDS_PER_HOUR:.2f} GPU-hours** ({', '.join(types)}) "
            "do not have a price and are not included in any cost. Please set a price for these "
            "GPU types."
        )
    return notes


def _unpriced_attempts(costs: Iterable[RunCost]) -> list[Attempt]:
    return [
        attempt
        for cost in costs
        for attempt in cost.attempts
        if attempt.price_micro_usd_per_gpu_hour is None and attempt.gpu_count
    ]


def _anomalies(report: DayReport) -> list[str]:
    flagged = [j for j in report.judgments if j.is_anomaly and not _is_total_again(j, report)]
    if not flagged:
        is_judged = report.judgments[0].verdict is AnomalyVerdict.USUAL
        return ["No anomalies detected."] if is_judged else []
    named: set[str] = set()
    new = [anomaly_markdown(j, named) for j in flagged if j.is_new]
    known = [anomaly_markdown(j, named) for j in flagged if not j.is_new]
    return [
        *(["## Unusual cost", *new] if new else []),
        *(["## Previously reported cost anomalies", *known] if known else []),
    ]


def _unusual_hours(report: DayReport) -> list[str]:
    lines = [f"- {escaped(hours.summary)}" for hours in report.hours]
    return ["\n".join(["## Unusual hours", "", *lines])] if lines else []


def _is_total_again(judgment: Judgment, report: DayReport) -> bool:
    """Is it that of the only team, which says the same as that of the total?"""
    scopes = {str(Scope("team", cost.run.team)) for cost in report.costs}
    return scopes == {judgment.scope} and report.judgments[0].is_anomaly


def _named_table(
    title: str, head: str, costs: Sequence[RunCost], key: Callable[[RunRecord], str | None]
) -> list[str]:
    """The table, if a run has a name of this kind."""
    is_named = any(key(cost.run) is not None for cost in costs)
    return [_group_table(title, head, costs, key)] if is_named else []


def _group_table(
    title: str, head: str, costs: Sequence[RunCost], key: Callable[[RunRecord], str | None]
) -> str:
    groups = group_by(costs, key)
    named = [(name or "(none)", group) for name, group in groups.items()]
    rows = [_group_row(name, group) for name, group in _with_others(named)]
    return _table(title, (head, "Cost", "Lost", "GPU-h"), rows)


def _with_others(groups: list[tuple[str, GroupCost]]) -> list[tuple[str, GroupCost]]:
    # The table stays short, and still adds up to the total.
    if len(groups) <= _MOST_ROWS:
        return groups
    rest = [group for _, group in groups[_MOST_ROWS:]]
    others = GroupCost(
        runs=sum(group.runs for group in rest),
        usage=sum_usage(group.usage for group in rest),
        lost=sum_usage(group.lost for group in rest),
        saved=sum_usage(group.saved for group in rest),
    )
    return [*groups[:_MOST_ROWS], (f"{len(rest)} others", others)]


def _group_row(name: str, group: GroupCost) -> tuple[str, ...]:
    return (
        cell(name),
        format_cost(group.usage),
        format_cost(group.lost),
        _hours(group.usage),
    )


def _dearest_runs(costs: Sequence[RunCost]) -> str:
    ranked = sorted(
        costs, key=lambda c: (-c.usage.exact_micro_usd, -c.usage.gpu_us, c.run.flow_run_id)
    )
    rows = [
        (
            _run_cell(cost.run),
            format_cost(cost.usage),
            cell(cost.run.team or "(none)"),
        )
        for cost in ranked[:_MOST_ROWS]
    ]
    head = ("Run", "Cost", "Team")
    return _table("Most expensive runs", head, rows)


def _run_cell(run: RunRecord) -> str:
    """Its name, with a link to its page; a generated run has no page."""
    if run.provenance is Provenance.GENERATED:
        return cell(run.name)
    return flow_run_cell(run.name, run.flow_run_id)


def _setbacks(costs: Iterable[RunCost]) -> list[str]:
    by_reason: dict[EndReason | None, list[Setback]] = {}
    for cost in costs:
        for setback in cost.setbacks:
            by_reason.setdefault(setback.attempt.end_reason, []).append(setback)
    if not by_reason:
        return []
    rows = [
        (
            reason.value if reason else "(unknown)",
            format_cost(sum_usage(s.lost for s in setbacks)),
            format_cost(sum_usage(s.saved for s in setbacks)),
            str(len(setbacks)),
        )
        for reason, setbacks in sorted(by_reason.items(), key=lambda item: item[0] or "")
    ]
    head = ("Ended by", "Lost", "Saved", "Attempts")
    return [_preemption_sentence(by_reason), _table("Incomplete attempts", head, rows)]


def _idle(capacity: CapacityCost | None) -> list[str]:
    """The cost of machines beyond what runs paid for them, by node."""
    if capacity is None or not capacity.machines:
        return []
    by_node = list(capacity.by_node().items())
    rest = CapacityCost(
        machines=tuple(m for _, node in by_node[_MOST_ROWS:] for m in node.machines)
    )
    shown = [(escaped(name), node) for name, node in by_node[:_MOST_ROWS]]
    if rest.machines:
        shown.append((f"{len(by_node) - _MOST_ROWS} others", rest))
    rows = [
        (
            name,
            format_cost(node.capacity),
            format_cost(node.idle),
            _hours(node.idle),
            _hours(node.capacity),
        )
        for name, node in (*shown, ("all machines", capacity))
    ]
    head = ("Node", "Cost", "Idle", "Idle GPU-hours", "GPU-hours")
    beyond = capacity.beyond_micro_usd
    note = (
        f"The cost charged to runs exceeds the cost of the machines by {format_usd(beyond)}, "
        "because of overlapping attempts or price differences."
    )
    return [_table("Machines and idle GPUs", head, rows), *([note] if beyond else [])]


def _preemption_sentence(by_reason: Mapping[EndReason | None, list[Setback]]) -> str:
    taken = [
        setback
        for reason in (EndReason.PREEMPTED, EndReason.INTERRUPTED)
        for setback in by_reason.get(reason, ())
    ]
    if not taken:
        return "No preemptions or interruptions occurred."
    lost = sum_usage(s.lost for s in taken)
    saved = sum_usage(s.saved for s in taken)
    return (
        f"{_count(len(taken), 'attempt')} ended because of preemption or interruption, with "
        f"{format_cost(lost)} of lost work. Checkpoints preserved {format_cost(saved)} of work."
    )


def _table(title: str, head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    return f"## {title}\n\n{table(head, rows)}"


def _hours(usage: Usage) -> str:
    return f"{usage.gpu_hours:.2f}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
