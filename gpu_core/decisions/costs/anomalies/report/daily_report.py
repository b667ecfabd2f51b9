"""The report about a day's cost: the judgments, and the values that they compare."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from gpu_core.decisions.costs.anomalies.decomposition.decomposition import REFERENCE_DAYS
from gpu_core.decisions.costs.anomalies.detection.hourly import UnusualHours, unusual_hours
from gpu_core.decisions.costs.anomalies.detection.judgment import (
    AnomalyVerdict,
    Judgment,
)
from gpu_core.decisions.costs.anomalies.detection.known import Known
from gpu_core.decisions.costs.anomalies.detection.rolling_mean import Thresholds, judge_by_mean
from gpu_core.decisions.costs.anomalies.detection.seasonal import judge_by_season
from gpu_core.decisions.costs.anomalies.report.cost_outlook import cost_outlook
from gpu_core.decisions.costs.capacity.idle import CapacityCost
from gpu_core.decisions.costs.reports.budget_use import BudgetUse
from gpu_core.decisions.costs.reports.cost_history import CostHistory, DailyCosts
from gpu_core.decisions.costs.reports.cost_plot import DayCost
from gpu_core.decisions.costs.savings.month_savings import MonthSavings
from gpu_core.decisions.costs.usage.usage_cost import (
    GroupCost,
    RunCost,
    Window,
    total,
)
from gpu_core.decisions.model.attempts import Provenance
from gpu_core.decisions.model.units import (
    require_aware,
)

_PLOTTED_DAYS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class DayReport:
    """All that is said about one day."""

    day: date
    is_day_over: bool
    """False: the numbers will still grow."""
    costs: tuple[RunCost, ...]
    judgments: tuple[Judgment, ...]
    """The first is the total's; then one for each team; then parts that were unusual."""
    days: tuple[DayCost, ...] = ()
    """The cost of this day and of those before it, in order."""
    outlook: str | None = None
    """The last 7 days against the 7 before, and the month; None: too little is known."""
    hours: tuple[UnusualHours, ...] = ()
    """Hours of the day that cost more than usual, the total's first."""
    capacity: CapacityCost | None = None
    """The cost of machines on that day; None: not read."""
    budgets: tuple[BudgetUse, ...] = ()
    """The use of the policy's budgets at the end of that day."""
    savings: MonthSavings | None = None
    """The savings of the month up to that day; None: not read."""
    generated_before: int = 0
    """How many generated runs the day is compared with, where those were asked for."""

    @property
    def total(self) -> GroupCost:
        """The cost of all runs together on that day."""
        return total(self.costs)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactKeys:
    """Under which keys a report is published in Prefect."""

    report: str
    teams: str


def artifact_keys(*, with_generated: bool) -> ArtifactKeys:
    """Where is a report published? One with generated runs never takes a measured one's place."""
    suffix = "-with-generated" if with_generated else ""
    return ArtifactKeys(report=f"gpu-cost-report{suffix}", teams=f"gpu-cost-by-team{suffix}")


def day_before(moment: datetime) -> date:
    """Which UTC day was over when this moment came? What a nightly report is about."""
    return require_aware(moment, "moment").date() - timedelta(days=1)


def window_to_read(day: date) -> Window:
    """Whose runs must be read from the ledger to report on this day?

    Those of the day, of the days that explain it (see `reference_days`), and of its month.
    """
    history = timedelta(days=max(REFERENCE_DAYS, 2 * Thresholds().history_days))
    window = Window.of_day(day)
    month = Window.of_day(day.replace(day=1))
    return Window(min(window.start - history, month.start), window.end)


def report_day(
    day: date,
    costs: DailyCosts,
    now: datetime,
    *,
    history: CostHistory | None = None,
    known: Known | None = None,
    capacity: CapacityCost | None = None,
    savings: MonthSavings | None = None,
    budgets: Sequence[BudgetUse] = (),
) -> DayReport:
    """What is to be said about this day's cost?

    Args:
        day: A UTC day.
        costs: What each run cost on that day and on those of `window_to_read` before it.
        now: Decides whether the day is over.
        history: The days that it is judged by, with their seasons; None: by the mean of 7 days.
        known: Announced activity and budgets; the mean of 7 days takes no notice of them.
        capacity: What machines cost on that day; None: not known.
        savings: What was saved in the month up to that day; None: not known.
        budgets: What the policy's budgets had used at the end of that day.
    """
    judgments = (
        judge_by_mean(day, costs, now=now)
        if history is None
        else judge_by_season(day, history, costs, known, now)
    )
    is_day_over = Window.of_day(day).end <= now
    return DayReport(
        day=day,
        is_day_over=is_day_over,
        costs=tuple(costs.get(day, ())),
        judgments=judgments if is_day_over else tuple(map(_so_far, judgments)),
        days=_days(day, costs),
        outlook=cost_outlook(day, costs),
        hours=() if history is None else unusual_hours(day, costs, now, (known or Known()).planned),
        capacity=capacity,
        savings=savings,
        budgets=tuple(budgets),
        generated_before=sum(
            cost.run.provenance is Provenance.GENERATED
            for earlier, of_day in costs.items()
            if earlier < day
            for cost in of_day
        ),
    )


def _so_far(judgment: Judgment) -> Judgment:
    """A day that is not over is never too cheap."""
    if judgment.cost_micro_usd >= (judgment.expected_micro_usd or 0):
        return judgment
    return replace(judgment, verdict=AnomalyVerdict.USUAL, kind=None, since=None, causes=())


def _days(day: date, costs: DailyCosts) -> tuple[DayCost, ...]:
    plotted = [day - timedelta(days=before) for before in reversed(range(_PLOTTED_DAYS))]
    first = min(costs, default=day)
    return tuple(
        DayCost(each, total(costs.get(each, ())).usage.micro_usd)
        for each in plotted
        if each >= first
    )
