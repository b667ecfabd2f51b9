"""The cost of each day: in total and by team, project, deployment, GPU type and more."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from fractions import Fraction
from functools import cached_property

from gpu_core.decisions.costs.reports.cost_report import COLUMNS_OF_RUNS, CostSlice
from gpu_core.decisions.costs.usage.scale import Scale
from gpu_core.decisions.costs.usage.usage import round_half_up
from gpu_core.decisions.costs.usage.usage_cost import RunCost, Window
from gpu_core.decisions.model.attempts import Attempt, RunRecord

DailyCosts = Mapping[date, Sequence[RunCost]]
"""The cost of each run on each UTC day; a missing day cost nothing."""

DIMENSIONS = ("team", "project", "deployment", "gpu_type", "capacity_type", "zone")
"""The keys of a history's slices, in this order."""

MONTHS = 6
"""Enough for every weekday's and every month end's habit; older days say little of the present."""

_WORDS = {
    "team": "team",
    "project": "project",
    "deployment": "deployment",
    "gpu_type": "GPU type",
    "capacity_type": "capacity type",
    "zone": "zone",
}


@dataclass(frozen=True, slots=True, order=True)
class Scope:
    """A part of the cost.

    Attributes:
        dimension: One of `DIMENSIONS`; empty: the total.
        value: Its value; None where runs have none.
    """

    dimension: str = ""
    value: str | None = None

    def __str__(self) -> str:
        if not self.dimension:
            return "total"
        noun = _WORDS[self.dimension]
        return f"no {noun}" if self.value is None else f"{noun} {self.value}"

    def costs_of(self, costs: Iterable[RunCost]) -> list[RunCost]:
        """The runs that are in this part, with all that they cost."""
        return [c for c in costs if any(self.has(c.run, attempt) for attempt in c.attempts)]

    def has(self, run: RunRecord, attempt: Attempt) -> bool:
        """Is the attempt in this part?"""
        if not self.dimension:
            return True
        value: str | None = getattr(
            run if self.dimension in COLUMNS_OF_RUNS else attempt, self.dimension
        )
        return value == self.value


TOTAL = Scope()


@dataclass(frozen=True)
class CostHistory:
    """The cost of each of a row of days.

    Attributes:
        first_day: The first UTC day.
        days: The slices of each day, with the keys of `DIMENSIONS`.
    """

    first_day: date
    days: tuple[tuple[CostSlice, ...], ...]

    def day_at(self, index: int) -> date:
        """The date of the day at this index."""
        return self.first_day + timedelta(days=index)

    def scopes(self, dimension: str) -> list[Scope]:
        """All values of a dimension that ever cost anything, in order."""
        return sorted(
            (scope for scope in self._costs if scope.dimension == dimension),
            key=lambda scope: scope.value or "",
        )

    def costs(self, scope: Scope) -> Sequence[int]:
        """The cost of this part on each day, in micro-USD. Only what has a price counts."""
        return self._costs.get(scope, (0,) * len(self.days))

    @cached_property
    def _costs(self) -> dict[Scope, list[int]]:
        scale = Scale(part.tariff for slices in self.days for part in slices)
        exact: dict[Scope, list[int]] = {}
        for index, slices in enumerate(self.days):
            for part in slices:
                amount = scale.cost([(part.tariff, part.held_us)])
                for scope in (TOTAL, *_scopes_of(part)):
                    exact.setdefault(scope, [0] * len(self.days))[index] += amount
        whole = scale.cost_denominator
        return {
            scope: [round_half_up(Fraction(amount, whole)) for amount in row]
            for scope, row in exact.items()
        }


def _scopes_of(part: CostSlice) -> list[Scope]:
    values = (None if value is None else str(value) for value in part.keys)
    return [Scope(dimension, value) for dimension, value in zip(DIMENSIONS, values, strict=True)]


def window_of_history(day: date) -> Window:
    """The window that must be read from the ledger to judge this day.

    It begins with a month: while that lasts, a day is judged every night by the same days, so that
    an anomaly keeps its first day.
    """
    months = day.year * 12 + day.month - 1 - MONTHS
    first = date(months // 12, months % 12 + 1, 1)
    return Window(Window.of_day(first).start, Window.of_day(day).end)


def history_until(day: date, slices: Iterable[Sequence[CostSlice]]) -> CostHistory:
    """The history of the window that ends with this day, from the slices of each of its days."""
    days = tuple(tuple(of_day) for of_day in slices)
    return CostHistory(day - timedelta(days=len(days) - 1), days)
