"""The report of a finished month's cost, for people."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction

from gpu_core.decisions.costs.reports.cost_report import (
    CostReport,
    CostRow,
    period_window,
    together,
)
from gpu_core.decisions.costs.usage.time_use import TimeUse
from gpu_core.decisions.costs.usage.usage_cost import Window, format_cost, without_price
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.markdown import cell, table
from gpu_core.decisions.model.units import count, format_usd, require_aware

KEYS = ("team", "project", "deployment", "gpu_type", "capacity_type")
"""A table for each, in this order."""

_MOST_ROWS = 10
_HEADS = {
    "team": "Team",
    "project": "Project",
    "deployment": "Deployment",
    "gpu_type": "GPU type",
    "capacity_type": "Capacity",
}
_TITLES = {
    "team": "By team",
    "project": "By project",
    "deployment": "By deployment",
    "gpu_type": "By GPU type",
    "capacity_type": "By capacity type",
}
_USES = {
    TimeUse.USEFUL: "progress",
    TimeUse.LOST: "lost work",
    TimeUse.RESTART: "restarts",
    TimeUse.QUEUED_ON_NODE: "waiting on nodes",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthReport:
    """All that is said about one month."""

    first_day: date
    is_over: bool
    """False: the numbers will still grow."""
    reports: Mapping[str, CostReport]
    """By each of `KEYS`."""
    before: CostReport
    """The month before, by team."""
    with_generated: bool = False

    @property
    def total(self) -> CostRow:
        """All runs of the month."""
        return self.reports[KEYS[0]].total

    @property
    def artifact_key(self) -> str:
        """The key under which it is published. Each month has its own."""
        suffix = "-with-generated" if self.with_generated else ""
        return f"gpu-cost-{self.first_day:%Y-%m}{suffix}"


def month_before(moment: datetime) -> date:
    """The first day of the month that was over when this moment came: what a close is about."""
    first = require_aware(moment, "moment").date().replace(day=1)
    return (first - timedelta(days=1)).replace(day=1)


def month_windows(month: date, now: datetime) -> tuple[Window, Window]:
    """The month that this day is in, and the one before.

    Raises:
        InvalidInput: The month has not started.
    """
    window = period_window("month", month)
    if window.start > now:
        raise InvalidInput(
            "month", "has not started yet", got=f"{month:%Y-%m}", allowed=f"up to {now:%Y-%m}"
        )
    return window, period_window("month", month_before(window.start))


def month_markdown(report: MonthReport) -> str:
    """The report as a page of Markdown. The same report always gives the same page."""
    total, idle = report.total, report.reports[KEYS[0]]
    parts = [f"# GPU cost in {report.first_day:%B %Y}", f"**{_headline(report)}**"]
    if report.with_generated:
        parts.append("> **With generated data.** This report contains generated sample data.")
    if not report.is_over:
        parts.append("> The month is not over yet, so these numbers are incomplete.")
    if total.runs:
        parts.append(_uses(total))
        parts += [_table(key, report.reports[key]) for key in KEYS]
    if idle.idle_micro_usd:
        parts.append(
            f"The cost of idle capacity was {format_usd(idle.idle_micro_usd)} "
            f"({idle.idle.gpu_hours:,.2f} GPU-hours)."
        )
    if idle.faults_micro_usd:
        parts.append(
            f"Of these, {idle.faults.gpu_hours:,.2f} GPU-hours for "
            f"{format_usd(idle.faults_micro_usd)} were caused by unhealthy GPUs."
        )
    return "\n\n".join(parts) + "\n"


def _headline(report: MonthReport) -> str:
    total = report.total
    if not total.runs:
        return "No GPU usage found."
    usage = total.usage
    return (
        f"{format_usd(total.micro_usd)} for {usage.gpu_hours:,.2f} GPU-hours in "
        f"{count(total.runs, 'run')}{without_price(usage)}{_compared(report)}."
    )


def _compared(report: MonthReport) -> str:
    earlier, now = report.before.total.micro_usd, report.total.micro_usd
    if not earlier:
        return ""
    percent = round(Fraction(100 * (now - earlier), earlier))
    if not percent:
        return f", as much as in the month before ({format_usd(earlier)})"
    word = "more" if percent > 0 else "less"
    return f", {abs(percent)}% {word} than in the month before ({format_usd(earlier)})"


def _uses(total: CostRow) -> str:
    parts = [
        f"{format_usd(micro_usd)} for {_USES[use]}"
        for use, micro_usd in total.micro_usd_by_use().items()
        if micro_usd
    ]
    return f"Of that: {', '.join(parts)}." if parts else "No prices are available for this usage."


def _table(key: str, report: CostReport) -> str:
    shown, others = report.rows[:_MOST_ROWS], report.rows[_MOST_ROWS:]
    rows = [_row(str(row.keys[0] or "(none)"), row) for row in shown]
    if others:
        rows.append(_row(f"{len(others)} others", together(others)))
    head = (_HEADS[key], "Cost", "GPU-h", "Runs")
    return f"## {_TITLES[key]}\n\n{table(head, rows)}"


def _row(name: str, row: CostRow) -> Sequence[str]:
    cost = format_cost(row.usage) if row.usage.is_unpriced else format_usd(row.micro_usd)
    return cell(name), cost, f"{row.usage.gpu_hours:,.2f}", f"{row.runs:,}"
