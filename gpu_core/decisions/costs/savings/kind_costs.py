"""The cost of the machines of one kind, and what they would have cost on other terms."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityInterval
from gpu_core.decisions.costs.capacity.idle import counted_in
from gpu_core.decisions.costs.prices.price_book import PriceBook
from gpu_core.decisions.costs.savings.duration_curve import machines_at_once, time_with_at_least
from gpu_core.decisions.costs.savings.price_steps import (
    MachineKind,
    PriceSteps,
    duration_us,
    known_steps,
    lowest_steps,
    price_of,
)
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.model.cluster import ON_DEMAND, RESERVED, SPOT

Stay = tuple[CapacityInterval, Window]
"""A machine, and the time of it that counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindCost:
    """All machines of one kind in a window. Exact micro-USD; None: a price is unknown."""

    kind: MachineKind
    machine_us: int
    """Machine-microseconds that were paid for."""
    spot_us: int
    """Of these on spot."""
    spot_on_demand: Fraction | None
    """Their cost on demand."""
    actual: Fraction | None
    """Their cost."""
    saved_by: Mapping[str, Fraction | None]
    """By capacity type: the on-demand price of the same machine-hours, less what was paid. Spot is
    always there, and 0 where no machine was on spot."""
    best: Fraction | None
    """The same machine-hours, each at the lowest known price of its time, without interruptions."""
    peak_machines: int
    """The most that were there at once."""
    peak_on_demand: Fraction | None
    """That many for the whole window, on demand."""
    peak_committed: Fraction | None
    """The same at the price of a commitment."""
    on_demand_curve_us: tuple[int, ...]
    """How long at least 1, 2, … machines were there on demand: what a commitment could replace."""
    on_demand_price: Fraction | None
    """An on-demand machine for the whole window."""
    committed_price: Fraction | None
    """The same at the price of a commitment."""

    @property
    def on_demand(self) -> Fraction | None:
        """The same machine-hours on demand; None: a price is unknown."""
        parts = [self.actual, *self.saved_by.values()]
        return None if None in parts else sum((p for p in parts if p is not None), Fraction(0))


def kind_costs(
    intervals: Iterable[CapacityInterval],
    book: PriceBook,
    window: Window,
    now: datetime,
    committed_ratio: Fraction | None = None,
) -> tuple[KindCost, ...]:
    """The cost of each kind of machine, and its cost on other terms.

    Args:
        intervals: Those with a time in the window.
        book: Your rates, the catalog and the policy.
        window: The time that counts. It is the time of the fixed clusters, too.
        now: Machines that are there are counted up to here.
        committed_ratio: The price of a commitment by the on-demand price, 0 to 1. None: that of
            `reserved` in the price book or the ledger counts.
    """
    by_kind: dict[MachineKind, list[Stay]] = {}
    for interval in intervals:
        counted = counted_in(interval, window, now)
        if counted is not None:
            by_kind.setdefault(MachineKind.of(interval), []).append((interval, counted))
    ranked = sorted(by_kind, key=str)
    return tuple(_of_kind(kind, by_kind[kind], book, window, committed_ratio) for kind in ranked)


def _of_kind(
    kind: MachineKind,
    stays: Sequence[Stay],
    book: PriceBook,
    window: Window,
    committed_ratio: Fraction | None,
) -> KindCost:
    machines = [interval for interval, _ in stays]
    on_demand = known_steps(machines, ON_DEMAND, book, window)
    whole = None if on_demand is None else on_demand.cost(window)
    committed = _committed(machines, book, window, whole, committed_ratio)
    peak = max(machines_at_once(counted for _, counted in stays), default=0)
    terms = sorted({SPOT, *(m.capacity_type for m in machines)} - {ON_DEMAND})
    on_spot = [counted for interval, counted in stays if interval.capacity_type == SPOT]
    return KindCost(
        kind=kind,
        machine_us=sum(duration_us(counted) for _, counted in stays),
        spot_us=sum(map(duration_us, on_spot)),
        spot_on_demand=None
        if on_demand is None
        else sum((on_demand.cost(counted) for counted in on_spot), Fraction(0)),
        actual=_paid(stays),
        saved_by={each: _saved(stays, each, on_demand) for each in terms},
        best=_best(stays, book, window),
        peak_machines=peak,
        peak_on_demand=None if whole is None else peak * whole,
        peak_committed=None if committed is None else peak * committed,
        on_demand_curve_us=time_with_at_least(
            counted for interval, counted in stays if interval.capacity_type == ON_DEMAND
        ),
        on_demand_price=whole,
        committed_price=committed,
    )


def _paid(stays: Iterable[Stay]) -> Fraction | None:
    costs = [
        None if i.micro_usd_per_hour is None else price_of(i.micro_usd_per_hour, counted)
        for i, counted in stays
    ]
    return None if None in costs else sum((c for c in costs if c is not None), Fraction(0))


def _saved(
    stays: Iterable[Stay], capacity_type: str, on_demand: PriceSteps | None
) -> Fraction | None:
    on_these = [stay for stay in stays if stay[0].capacity_type == capacity_type]
    if not on_these:
        return Fraction(0)
    paid = _paid(on_these)
    if paid is None or on_demand is None:
        return None
    return sum((on_demand.cost(counted) for _, counted in on_these), Fraction(0)) - paid


def _best(stays: Sequence[Stay], book: PriceBook, window: Window) -> Fraction | None:
    """Each machine-hour at the lowest price of its time; None: no price of spot is known."""
    machines = [interval for interval, _ in stays]
    spot = known_steps(machines, SPOT, book, window)
    if spot is None:
        return None
    lowest = lowest_steps(machines, (ON_DEMAND, SPOT), book, window)
    found = Fraction(0)
    for interval, counted in stays:
        if interval.micro_usd_per_hour is None:
            return None
        for part, of_book in lowest.within(counted):
            for piece, of_spot in spot.within(part):
                prices = (interval.micro_usd_per_hour, of_book, of_spot)
                found += price_of(min(p for p in prices if p is not None), piece)
    return found


def _committed(
    machines: Sequence[CapacityInterval],
    book: PriceBook,
    window: Window,
    on_demand: Fraction | None,
    ratio: Fraction | None,
) -> Fraction | None:
    """The cost of a machine for the whole window at the price of a commitment."""
    if ratio is not None:
        return None if on_demand is None else on_demand * ratio
    reserved = known_steps(machines, RESERVED, book, window)
    return None if reserved is None else reserved.cost(window)
