"""The hours of a day that were unusually expensive, in total and for each team."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import groupby

from gpu_core.decisions.costs.anomalies.decomposition.decomposition import REFERENCE_DAYS
from gpu_core.decisions.costs.anomalies.detection.detector import JudgedPoint, detect
from gpu_core.decisions.costs.anomalies.detection.judgment import describe_change
from gpu_core.decisions.costs.anomalies.detection.planned import PlannedActivity, planned_on
from gpu_core.decisions.costs.anomalies.detection.rhythm import HOURLY
from gpu_core.decisions.costs.reports.cost_history import TOTAL, DailyCosts, Scope
from gpu_core.decisions.costs.usage.usage import Exact, round_half_up
from gpu_core.decisions.costs.usage.usage_cost import RunCost, Window, attempt_usage
from gpu_core.decisions.model.units import MICRO_USD_PER_USD, format_usd

_HOURS = 24
_FLOOR_MICRO_USD = MICRO_USD_PER_USD // _HOURS
"""A dollar a day, in an hour."""
_LEAST_EXCESS_MICRO_USD = MICRO_USD_PER_USD
"""Hours that cost no more than a dollar too much together are worth no attention."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusualHours:
    """Hours in a row that cost more than the same hours usually do."""

    part: Scope
    first: datetime
    until: datetime
    cost_micro_usd: int
    expected_micro_usd: int

    @property
    def summary(self) -> str:
        """One sentence with the numbers."""
        change = describe_change(self.cost_micro_usd, self.expected_micro_usd)
        until = "24:00" if self.until.date() > self.first.date() else f"{self.until:%H:%M}"
        return (
            f"{self.part} from {self.first:%H:%M} to {until} UTC: expected "
            f"{format_usd(self.expected_micro_usd)}, actual {format_usd(self.cost_micro_usd)} "
            f"({change})"
        )


def unusual_hours(
    day: date,
    costs: DailyCosts,
    now: datetime,
    planned: Sequence[PlannedActivity] = (),
) -> tuple[UnusualHours, ...]:
    """The hours of this day that were unusually expensive.

    They are judged by the same hours of the week in the four weeks before, the hours of less known
    days by those of all days. Only what has a price counts.

    Args:
        day: A UTC day.
        costs: That day and the 28 days before it, run by run.
        now: Hours that are not over are not judged.
        planned: Activity that was announced.
    """
    first = max(min(costs, default=day), day - timedelta(days=REFERENCE_DAYS))
    if first >= day:
        return ()
    days = [first + timedelta(days=n) for n in range((day - first).days + 1)]
    series: dict[Scope, list[Exact]] = {TOTAL: [0] * (_HOURS * len(days))}
    for place, each in enumerate(days):
        for cost in costs.get(each, ()):
            of_team = series.setdefault(Scope("team", cost.run.team), [0] * (_HOURS * len(days)))
            for hour, micro_usd in _hours(each, cost, now):
                series[TOTAL][_HOURS * place + hour] += micro_usd
                of_team[_HOURS * place + hour] += micro_usd
    whole = min(_HOURS, max(0, int((now - Window.of_day(day).start) / timedelta(hours=1))))
    return tuple(
        found
        for scope, exact in sorted(series.items())
        if planned_on(day, scope, planned) is None
        for found in _of_scope(scope, exact[: len(exact) - _HOURS + whole], days, planned)
    )


def _hours(day: date, cost: RunCost, now: datetime) -> Iterator[tuple[int, Exact]]:
    """The cost of a run in each hour of the day."""
    window = Window.of_day(day)
    for attempt in cost.attempts:
        start = max(attempt.admitted_at, window.start)
        end = min(attempt.freed_at or now, window.end)
        begin = window.start + timedelta(hours=(start - window.start) // timedelta(hours=1))
        while begin < end:
            until = begin + timedelta(hours=1)
            usage = attempt_usage(attempt, now, Window(begin, until))
            yield (begin - window.start) // timedelta(hours=1), usage.exact_micro_usd
            begin = until


def _of_scope(
    scope: Scope, exact: Sequence[Exact], days: Sequence[date], planned: Sequence[PlannedActivity]
) -> Iterator[UnusualHours]:
    values = [round_half_up(amount) for amount in exact]
    skipped = [
        place
        for place in range(len(values))
        if planned_on(days[place // _HOURS], scope, planned) is not None
    ]
    points = detect(values, HOURLY, floor=_FLOOR_MICRO_USD, planned=skipped)
    today = _HOURS * (len(days) - 1)
    least = _least(values[:today])
    flagged = [
        (hour, point)
        for hour, point in enumerate(points[today:])
        if point.kind and (point.value or 0) > least
    ]
    for _, row in groupby(enumerate(flagged), key=lambda item: item[1][0] - item[0]):
        found = _together(scope, days[-1], [each for _, each in row])
        if found.cost_micro_usd - found.expected_micro_usd > _LEAST_EXCESS_MICRO_USD:
            yield found


def _least(before: Sequence[int]) -> int:
    """The highest of these amounts, if most are 0: there work at another hour is usual."""
    is_sparse = 2 * sum(amount > 0 for amount in before) < len(before)
    return max(before, default=0) if is_sparse else 0


def _together(scope: Scope, day: date, row: Sequence[tuple[int, JudgedPoint]]) -> UnusualHours:
    start = Window.of_day(day).start
    return UnusualHours(
        part=scope,
        first=start + timedelta(hours=row[0][0]),
        until=start + timedelta(hours=row[-1][0] + 1),
        cost_micro_usd=sum(point.value or 0 for _, point in row),
        expected_micro_usd=sum(point.expected or 0 for _, point in row),
    )
