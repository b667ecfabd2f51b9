"""The default rule: a day against earlier same weekdays, in total and by part of the cost."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta

from gpu_core.decisions.costs.anomalies.decomposition.decomposition import (
    REFERENCE_DAYS,
    Decomposition,
)
from gpu_core.decisions.costs.anomalies.decomposition.explanation import Explainer
from gpu_core.decisions.costs.anomalies.detection.causes import runs_behind, source_of
from gpu_core.decisions.costs.anomalies.detection.detector import AnomalyKind, JudgedPoint, detect
from gpu_core.decisions.costs.anomalies.detection.judgment import (
    AnomalyVerdict,
    Judgment,
    RootCause,
)
from gpu_core.decisions.costs.anomalies.detection.known import Known
from gpu_core.decisions.costs.anomalies.detection.new_series import DailyAllowance, allowance_of_new
from gpu_core.decisions.costs.anomalies.detection.planned import planned_on
from gpu_core.decisions.costs.anomalies.detection.rhythm import DAILY
from gpu_core.decisions.costs.anomalies.detection.sentences import (
    describe_anomaly,
    describe_new,
    describe_usual,
)
from gpu_core.decisions.costs.reports.cost_history import TOTAL, CostHistory, DailyCosts, Scope
from gpu_core.decisions.model.units import MICRO_USD_PER_USD, format_usd

FLOOR_MICRO_USD = MICRO_USD_PER_USD
"""A difference of up to a dollar a day is worth no attention."""

JUDGED = ("team", "project", "deployment", "gpu_type")
"""The parts that are judged in addition to the total."""

_ACTIVE = replace(DAILY, seasons=(1,), judges_drops=False)
"""Days with any cost of a part that rests on most days: a day of rest says nothing of the next."""
_CAUSE_DAYS = 7
DAYS_NEEDED = DAILY.first_forecast + DAILY.fewest_errors
"""Days before the first that can be judged."""


def judge_by_season(
    day: date,
    history: CostHistory,
    costs: DailyCosts,
    known: Known | None = None,
    now: datetime | None = None,
) -> tuple[Judgment, ...]:
    """Was the day's cost unusual, in total and for each team, project, deployment and GPU type?

    The total and the teams always come first; other parts only where they are unusual.

    Args:
        day: The day to judge, the last one of the history.
        history: That day and those of `window_of_history` before it.
        costs: That day and the 28 days before it, run by run, for the causes.
        known: Announced activity, and what budgets allow.
        now: Attempts that hold their GPUs are costed up to here; None: to the day's end.
    """
    judge = _Judge(day, history, costs, known or Known(), now)
    found = [judge.total()]
    for dimension in JUDGED:
        of_parts = [judge.part(scope) for scope in history.scopes(dimension)]
        found += [j for j in of_parts if j and (dimension == "team" or j.is_anomaly)]
    return tuple(found)


class _Judge:
    def __init__(
        self,
        day: date,
        history: CostHistory,
        costs: DailyCosts,
        known: Known,
        now: datetime | None,
    ) -> None:
        self._day = day
        self._history = history
        self._costs = costs
        self._planned = known.planned
        self._budgets = known.budgets_micro_usd_per_day
        self._explainer = Explainer(day, costs, now)

    def total(self) -> Judgment:
        return self._judge(TOTAL, self._history.costs(TOTAL))

    def part(self, scope: Scope) -> Judgment | None:
        """The judgment of one part; None if it had no cost recently and has none now."""
        costs = self._history.costs(scope)
        return self._judge(scope, costs) if any(costs[-DAILY.level_memory :]) else None

    def _judge(self, scope: Scope, costs: Sequence[int]) -> Judgment:
        cost = costs[-1]
        activity = planned_on(self._day, scope, self._planned)
        if activity is not None:
            return self._said(
                scope, cost, None, AnomalyVerdict.PLANNED,
                f"{scope}: {format_usd(cost)}; not evaluated because of {activity.name}",
            )  # fmt: skip
        first = next((i for i, amount in enumerate(costs) if amount > 0), len(costs))
        days = [i for i in range(first, len(costs)) if not _rests(costs[first:]) or costs[i]]
        if not days or days[-1] != len(costs) - 1:
            return self._said(scope, cost, None, AnomalyVerdict.USUAL, f"{scope}: no cost")
        is_every_day = len(days) == len(costs) - first
        points = detect(
            [costs[i] for i in days],
            DAILY if is_every_day else _ACTIVE,
            floor=FLOOR_MICRO_USD,
            first_day=self._history.day_at(first) if is_every_day else None,
            planned=[
                place
                for place, i in enumerate(days)
                if planned_on(self._history.day_at(i), scope, self._planned)
            ],
        )
        if points[-1].expected is None:
            return self._judge_new(scope, costs, len(days))
        return self._judge_known(scope, cost, points[-1], [self._history.day_at(i) for i in days])

    def _judge_known(
        self, scope: Scope, cost: int, point: JudgedPoint, days: Sequence[date]
    ) -> Judgment:
        expected, sigmas = point.expected or 0, point.sigmas or 0.0
        if point.kind is None or point.since is None:
            return self._said(
                scope, cost, expected, AnomalyVerdict.USUAL, describe_usual(scope, cost, expected)
            )
        since = days[point.since]
        why, action = self._explainer.explain(scope, cost, expected, self._left_out(scope), since)
        return Judgment(
            day=self._day,
            part=scope,
            verdict=AnomalyVerdict.ANOMALY,
            cost_micro_usd=cost,
            expected_micro_usd=expected,
            kind=point.kind,
            sigmas=sigmas,
            since=since,
            is_new=point.is_new,
            causes=self._causes(scope, cost - expected, why),
            why=why,
            action=action,
            summary=describe_anomaly(
                scope, point.kind, cost, expected, sigmas, since=since, day=self._day
            ),
        )

    def _judge_new(self, scope: Scope, costs: Sequence[int], days_known: int) -> Judgment:
        allowance = allowance_of_new(scope, self._history, self._budgets)
        cost = costs[-1]
        if allowance is None or cost <= allowance.micro_usd or cost <= FLOOR_MICRO_USD:
            return self._said(
                scope, cost, None, AnomalyVerdict.NOT_ENOUGH_HISTORY,
                f"{scope}: {format_usd(cost)}; not enough history to evaluate it ({days_known} "
                f"of {DAYS_NEEDED} days available)",
            )  # fmt: skip
        since = _dear_since(costs, allowance)
        first = self._history.day_at(since)
        why, action = self._explainer.explain(scope, cost, 0, self._left_out(scope), first)
        return Judgment(
            day=self._day,
            part=scope,
            verdict=AnomalyVerdict.ANOMALY,
            cost_micro_usd=cost,
            expected_micro_usd=None,
            kind=AnomalyKind.NEW_SERIES,
            since=first,
            is_new=since == len(costs) - 1,
            causes=self._causes(scope, cost, why),
            why=why,
            action=action,
            summary=describe_new(scope, cost, allowance),
        )

    def _left_out(self, scope: Scope) -> frozenset[date]:
        """The planned days, which are no examples of a usual one."""
        before = (self._day - timedelta(days=back) for back in range(1, REFERENCE_DAYS + 1))
        return frozenset(day for day in before if planned_on(day, scope, self._planned))

    def _causes(
        self, scope: Scope, excess_micro_usd: int, why: Decomposition | None
    ) -> tuple[RootCause, ...]:
        """The runs of the largest contribution; all runs where it is not known."""
        before = [self._day - timedelta(days=back) for back in range(1, _CAUSE_DAYS + 1)]
        wanted = {day: scope.costs_of(self._costs.get(day, ())) for day in (*before, self._day)}
        if why is not None and why.contributions and why.contributions[0].sources:
            sources = why.contributions[0].sources
            wanted = {
                day: [cost for cost in costs if source_of(cost.run) in sources]
                for day, costs in wanted.items()
            }
        return runs_behind(self._day, wanted, before, excess_micro_usd)

    def _said(
        self, scope: Scope, cost: int, expected: int | None, verdict: AnomalyVerdict, summary: str
    ) -> Judgment:
        return Judgment(
            day=self._day,
            part=scope,
            verdict=verdict,
            cost_micro_usd=cost,
            expected_micro_usd=expected,
            summary=summary,
        )


def _rests(costs: Sequence[int]) -> bool:
    """Did it cost nothing on most days before this one?"""
    before = costs[:-1][-DAILY.memory :]
    return 2 * sum(amount > 0 for amount in before) < len(before)


def _dear_since(costs: Sequence[int], allowance: DailyAllowance) -> int:
    first = len(costs) - 1
    while first > 0 and costs[first - 1] > allowance.micro_usd:
        first -= 1
    return first
