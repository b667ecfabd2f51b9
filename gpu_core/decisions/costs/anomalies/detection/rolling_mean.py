"""The plain rule: a day is unusual when it is over 20% dearer than the mean of the 7 days before.

It expects the same of every weekday. Where weekends cost less than 41.7% of weekdays it flags all
five weekdays of every week: a weekday over the mean is then 7 / (5 + 2 × 0.417) = 1.2.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from gpu_core.decisions.costs.anomalies.decomposition.explanation import Explainer
from gpu_core.decisions.costs.anomalies.detection.causes import (
    EXPLAINED_PERCENT,
    MOST_CAUSES,
    Following,
    runs_behind,
)
from gpu_core.decisions.costs.anomalies.detection.detector import AnomalyKind
from gpu_core.decisions.costs.anomalies.detection.judgment import (
    AnomalyVerdict,
    Judgment,
    describe_change,
)
from gpu_core.decisions.costs.reports.cost_history import TOTAL, DailyCosts, Scope
from gpu_core.decisions.costs.usage.usage import sum_usage
from gpu_core.decisions.costs.usage.usage_cost import RunCost
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.units import format_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """The thresholds of an unusual day, and the depth to which its cause is followed up."""

    over_mean_percent: int = 20
    """More than this over the mean of the days before is unusual."""
    history_days: int = 7
    """How many days before make the mean: a week, so that weekends weigh the same every day."""
    explained_percent: int = EXPLAINED_PERCENT
    """Causes are named until they explain this much of the excess..."""
    most_causes: int = MOST_CAUSES
    """...but not more of them than this."""

    def __post_init__(self) -> None:
        _require_range("over_mean_percent", self.over_mean_percent, 0, 10_000)
        _require_range("history_days", self.history_days, 1, 365)
        _require_range("explained_percent", self.explained_percent, 1, 100)
        _require_range("most_causes", self.most_causes, 1, 1000)

    @property
    def following(self) -> Following:
        """The depth to which the cause is followed up."""
        return Following(explained_percent=self.explained_percent, most_causes=self.most_causes)


def judge_by_mean(
    day: date,
    costs: DailyCosts,
    thresholds: Thresholds | None = None,
    now: datetime | None = None,
) -> tuple[Judgment, ...]:
    """Was the day unusually dear, in total and for each team that cost anything on it?

    There is enough history when the first known cost is at least 7 days old; days without cost
    count as zero, so that a team that rests at weekends is judged too. Only priced usage counts.

    Args:
        day: The day to judge.
        costs: That day and the days before it. Give twice `history_days`, so that a history that
            begins with days of rest is seen to be long enough.
        thresholds: None: 20% over the mean of 7 days.
        now: Attempts that hold their GPUs are costed up to here; None: to the day's end.
    """
    limits = thresholds or Thresholds()
    explainer = Explainer(day, costs, now)
    teams = sorted({cost.run.team for cost in costs.get(day, ())}, key=lambda team: team or "")
    return (
        _judge(day, TOTAL, costs, limits, explainer),
        *(
            _judge(day, Scope("team", team), _only(costs, _of_team(team)), limits, explainer)
            for team in teams
        ),
    )


def _judge(
    day: date, scope: Scope, costs: DailyCosts, limits: Thresholds, explainer: Explainer
) -> Judgment:
    cost = _priced(costs.get(day, ()))
    history = [day - timedelta(days=back) for back in range(1, limits.history_days + 1)]
    if not _is_known_since(costs, history[-1]):
        return Judgment(
            day=day,
            part=scope,
            verdict=AnomalyVerdict.NOT_ENOUGH_HISTORY,
            cost_micro_usd=cost,
            expected_micro_usd=None,
            summary=f"{scope}: {format_usd(cost)}; not enough history to evaluate it "
            f"({limits.history_days} days required)",
        )
    before = sum(_priced(costs.get(past, ())) for past in history)
    mean = before // len(history)
    # Cross-multiplied: no rounding decides whether a day is over the line.
    is_over = cost * len(history) * 100 > before * (100 + limits.over_mean_percent)
    why, action = explainer.explain(scope, cost, mean) if is_over else (None, None)
    return Judgment(
        day=day,
        part=scope,
        verdict=AnomalyVerdict.ANOMALY if is_over else AnomalyVerdict.USUAL,
        cost_micro_usd=cost,
        expected_micro_usd=mean,
        kind=AnomalyKind.SPIKE if is_over else None,
        since=day if is_over else None,
        causes=runs_behind(day, costs, history, cost - mean, limits.following) if is_over else (),
        why=why,
        action=action,
        summary=f"{scope}: {format_usd(cost)}, {describe_change(cost, mean)} "
        f"({limits.history_days}-day mean {format_usd(mean)})",
    )


def _is_known_since(costs: DailyCosts, day: date) -> bool:
    return any(past <= day and _priced(on_day) > 0 for past, on_day in costs.items())


def _priced(costs: Sequence[RunCost]) -> int:
    return sum_usage(cost.usage for cost in costs).micro_usd


def _only(costs: DailyCosts, is_wanted: Callable[[RunCost], bool]) -> DailyCosts:
    return {day: [cost for cost in on_day if is_wanted(cost)] for day, on_day in costs.items()}


def _of_team(team: str | None) -> Callable[[RunCost], bool]:
    return lambda cost: cost.run.team == team


def _require_range(field: str, value: int, lowest: int, highest: int) -> None:
    if not lowest <= value <= highest:
        raise InvalidInput(field, "is out of range", got=value, allowed=f"{lowest} to {highest}")
