"""Was a day unusually dear, and which runs made it so?"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from fractions import Fraction

from gpu_core.decisions.costs.usage import sum_usage
from gpu_core.decisions.costs.usage_cost import RunCost
from gpu_core.decisions.model.attempts import RunRecord
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.units import format_usd

DailyCosts = Mapping[date, Sequence[RunCost]]
"""What each run cost on each UTC day; a day that is not there cost nothing."""


class AnomalyVerdict(StrEnum):
    """What can be said about a day's cost. Stable: alerts match on it."""

    ANOMALY = "Anomaly"
    USUAL = "Usual"
    NOT_ENOUGH_HISTORY = "NotEnoughHistory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """When a day is unusual, and how far its cause is followed up."""

    over_mean_percent: int = 20
    """More than this over the mean of the days before is unusual."""
    history_days: int = 7
    """How many days before make the mean: a week, so that weekends weigh the same every day."""
    explained_percent: int = 80
    """Causes are named until they explain this much of the excess..."""
    most_causes: int = 5
    """...but not more of them than this."""

    def __post_init__(self) -> None:
        _require_range("over_mean_percent", self.over_mean_percent, 0, 10_000)
        _require_range("history_days", self.history_days, 1, 365)
        _require_range("explained_percent", self.explained_percent, 1, 100)
        _require_range("most_causes", self.most_causes, 1, 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A run that made the day dearer than usual."""

    run: RunRecord
    cost_micro_usd: int
    excess_micro_usd: int
    """The part of its cost that its deployment does not usually spend in a day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Whether a day was unusually dear, for everyone or for one team."""

    day: date
    scope: str
    """`total`, or the team in words: `team vision`, `no team`."""
    verdict: AnomalyVerdict
    cost_micro_usd: int
    mean_micro_usd: int | None
    """The mean of the days before; None without enough history."""
    causes: tuple[Cause, ...] = ()
    """The dearest excess first; only for an anomaly."""
    summary: str
    """One sentence with the numbers."""


def judge_day(
    day: date, costs: DailyCosts, thresholds: Thresholds | None = None
) -> tuple[Judgement, ...]:
    """Was the day unusually dear, in total and for each team that cost anything on it?

    The rule: dearer than the mean of the 7 days before by more than 20 %. There is enough history
    when the first known cost is at least that many days old; days without cost count as zero, so
    that a team that rests at weekends can be judged too. Only what has a price is judged.

    Args:
        day: The day to judge.
        costs: That day and the days before it. Give twice `history_days`, so that a history that
            begins with days of rest is seen to be long enough.
        thresholds: None: 20 % over the mean of 7 days.
    """
    limits = thresholds or Thresholds()
    teams = sorted({cost.run.team for cost in costs.get(day, ())}, key=lambda team: team or "")
    return (
        _judge(day, "total", costs, limits),
        *(_judge(day, _team_scope(team), _only(costs, _of_team(team)), limits) for team in teams),
    )


def _judge(day: date, scope: str, costs: DailyCosts, limits: Thresholds) -> Judgement:
    cost = _priced(costs.get(day, ()))
    history = [day - timedelta(days=back) for back in range(1, limits.history_days + 1)]
    if not _is_known_since(costs, history[-1]):
        return Judgement(
            day=day,
            scope=scope,
            verdict=AnomalyVerdict.NOT_ENOUGH_HISTORY,
            cost_micro_usd=cost,
            mean_micro_usd=None,
            summary=f"{scope}: {format_usd(cost)}; not enough history to judge it "
            f"({limits.history_days} days are needed)",
        )
    before = sum(_priced(costs.get(past, ())) for past in history)
    mean = before // len(history)
    # Cross-multiplied: no rounding decides whether a day is over the line.
    is_over = cost * len(history) * 100 > before * (100 + limits.over_mean_percent)
    return Judgement(
        day=day,
        scope=scope,
        verdict=AnomalyVerdict.ANOMALY if is_over else AnomalyVerdict.USUAL,
        cost_micro_usd=cost,
        mean_micro_usd=mean,
        causes=_causes(day, costs, history, cost - mean, limits) if is_over else (),
        summary=f"{scope}: {format_usd(cost)}, "
        f"{describe_change(cost, mean)} ({limits.history_days}-day mean {format_usd(mean)})",
    )


def describe_change(cost_micro_usd: int, mean_micro_usd: int) -> str:
    """How a cost compares with its mean, in words: `35 % over the mean`."""
    if cost_micro_usd == 0:
        return "nothing was spent" if mean_micro_usd else "nothing was spent, as before"
    if mean_micro_usd == 0:
        return "nothing was spent before"
    percent = round(Fraction(100 * (cost_micro_usd - mean_micro_usd), mean_micro_usd))
    if percent == 0:
        return "as usual"
    return f"{abs(percent)} % {'over' if percent > 0 else 'under'} the mean"


def _causes(
    day: date, costs: DailyCosts, history: Sequence[date], excess: int, limits: Thresholds
) -> tuple[Cause, ...]:
    usual = _by_source([cost for past in history for cost in costs.get(past, ())])
    ranked = sorted(
        _excesses(costs.get(day, ()), {name: sum_ // len(history) for name, sum_ in usual.items()}),
        key=lambda cause: (-cause.excess_micro_usd, cause.run.flow_run_id),
    )
    named: list[Cause] = []
    explained = 0
    for cause in ranked[: limits.most_causes]:
        if cause.excess_micro_usd <= 0 or explained * 100 >= excess * limits.explained_percent:
            break
        named.append(cause)
        explained += cause.excess_micro_usd
    return tuple(named)


def _excesses(today: Sequence[RunCost], usual: Mapping[str, int]) -> list[Cause]:
    """What each run of the day cost over its deployment's usual day.

    A deployment's usual day is used up by its cheapest runs first. So a single dear run stands
    out among ordinary ones, and of a hundred ordinary ones where one is usual, all but one count.
    """
    left = dict(usual)
    causes = []
    for cost in sorted(today, key=lambda cost: (cost.usage.micro_usd, cost.run.flow_run_id)):
        spent, source = cost.usage.micro_usd, _source(cost.run)
        covered = min(spent, left.get(source, 0))
        left[source] = left.get(source, 0) - covered
        causes.append(Cause(run=cost.run, cost_micro_usd=spent, excess_micro_usd=spent - covered))
    return causes


def _by_source(costs: Sequence[RunCost]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for cost in costs:
        source = _source(cost.run)
        sums[source] = sums.get(source, 0) + cost.usage.micro_usd
    return sums


def _source(run: RunRecord) -> str:
    return run.deployment or run.flow_name


def _is_known_since(costs: DailyCosts, day: date) -> bool:
    return any(past <= day and _priced(on_day) > 0 for past, on_day in costs.items())


def _priced(costs: Sequence[RunCost]) -> int:
    return sum_usage(cost.usage for cost in costs).micro_usd


def _only(costs: DailyCosts, is_wanted: Callable[[RunCost], bool]) -> DailyCosts:
    return {day: [cost for cost in on_day if is_wanted(cost)] for day, on_day in costs.items()}


def _of_team(team: str | None) -> Callable[[RunCost], bool]:
    return lambda cost: cost.run.team == team


def _team_scope(team: str | None) -> str:
    return "no team" if team is None else f"team {team}"


def _require_range(field: str, value: int, lowest: int, highest: int) -> None:
    if not lowest <= value <= highest:
        raise InvalidInput(field, "is out of range", got=value, allowed=f"{lowest} to {highest}")
