"""The causes of unusual parts of one day's cost, from the runs of that day and of those before."""

from collections.abc import Collection
from datetime import date, datetime
from functools import cached_property

from gpu_core.decisions.costs.anomalies.decomposition.actions import Action, propose
from gpu_core.decisions.costs.anomalies.decomposition.decomposition import (
    Decomposition,
    decompose,
    in_scope,
    reference_days,
)
from gpu_core.decisions.costs.anomalies.decomposition.parts import Part, parts_of_day
from gpu_core.decisions.costs.reports.cost_history import DailyCosts, Scope
from gpu_core.decisions.costs.usage.usage_cost import Window


class Explainer:
    """Explains anomalies of one day.

    Args:
        day: The day.
        costs: That day and days before it, run by run.
        now: Attempts that hold their GPUs are costed up to here; None: to the day's end.
    """

    def __init__(self, day: date, costs: DailyCosts, now: datetime | None) -> None:
        self._day = day
        self._costs = costs
        self._now = now or Window.of_day(day).end

    def explain(
        self,
        scope: Scope,
        cost_micro_usd: int,
        expected_micro_usd: int,
        left_out: Collection[date] = (),
        since: date | None = None,
    ) -> tuple[Decomposition | None, Action | None]:
        """The causes for which this part of the cost was not as expected, and the remedy.

        Args:
            scope: The part.
            cost_micro_usd: What it cost.
            expected_micro_usd: What was expected of it.
            left_out: Days that are no examples of a usual one.
            since: The anomaly's first day; None: the day.

        Returns:
            Twice None: the runs of the day are not known.
        """
        if not self._costs.get(self._day):
            return None, None
        parts = {
            day: in_scope(scope, of_day)
            for day, of_day in self._parts.items()
            if day not in left_out
        }
        cost_of = {day: sum(part.micro_usd for part in of_day) for day, of_day in parts.items()}
        days = reference_days(self._day, cost_of, expected_micro_usd, since)
        now = parts.get(self._day, ())
        before = [part for day in days for part in parts[day]]
        found = decompose(now, before, cost_micro_usd, expected_micro_usd)
        known = (self._parts[each] for each in self._parts if each < (since or self._day))
        return found, propose(found, now, before, [part for of_day in known for part in of_day])

    @cached_property
    def _parts(self) -> dict[date, tuple[Part, ...]]:
        return {day: parts_of_day(day, costs, self._now) for day, costs in self._costs.items()}
