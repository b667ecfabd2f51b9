"""The price of a kind of machine over time, as far as the ledger and the price book know it."""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fractions import Fraction
from typing import NamedTuple

from gpu_core.decisions.catalog.offerings import Catalog, combined
from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityInterval
from gpu_core.decisions.costs.prices.price_book import PriceBook, PricedCapacity
from gpu_core.decisions.costs.usage.usage import US_PER_HOUR
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.model.cluster import Machine

_MICROSECOND = timedelta(microseconds=1)


class MachineKind(NamedTuple):
    """Machines that could take each other's place, on whichever terms they are paid for."""

    gpu_type: str
    gpus: int
    instance_type: str | None
    region: str | None

    @classmethod
    def of(cls, interval: CapacityInterval) -> "MachineKind":
        """The kind of this machine."""
        return cls(interval.gpu_type, interval.gpus, interval.instance_type, interval.region)

    def __str__(self) -> str:
        """As people read it: `p4d.24xlarge us-east-1 (8 × a100-40gb)`."""
        names = [name for name in (self.instance_type, self.region) if name is not None]
        gpus = f"{self.gpus} × {self.gpu_type}"
        return f"{' '.join(names)} ({gpus})" if names else gpus


class PriceStep(NamedTuple):
    """The price of a whole machine from `since` on. None: unknown."""

    since: datetime
    micro_usd_per_hour: int | None


@dataclass(frozen=True, slots=True)
class PriceSteps:
    """A price over time. The first step counts for the time before it, too."""

    steps: tuple[PriceStep, ...]
    """In their order, one at least."""

    def within(self, window: Window) -> Iterator[tuple[Window, int | None]]:
        """The parts of the window, each with its price."""
        place = bisect_right(self.steps, window.start, key=lambda step: step.since)
        start = window.start
        while start < window.end:
            later = self.steps[place : place + 1]
            end = min([window.end, *(step.since for step in later)])
            if end > start:
                yield Window(start, end), self.steps[max(0, place - 1)].micro_usd_per_hour
            start, place = end, place + 1

    def cost(self, window: Window) -> Fraction:
        """The cost of a machine in this time. Exact; every price is known."""
        parts = (price_of(price or 0, part) for part, price in self.within(window))
        return sum(parts, Fraction(0))


def price_of(micro_usd_per_hour: int, window: Window) -> Fraction:
    """The cost of a machine at this price in this time."""
    return Fraction(duration_us(window) * micro_usd_per_hour, US_PER_HOUR)


def duration_us(window: Window) -> int:
    """How long is it, in microseconds?"""
    return (window.end - window.start) // _MICROSECOND


def known_steps(
    machines: Sequence[CapacityInterval], capacity_type: str, book: PriceBook, window: Window
) -> PriceSteps | None:
    """The price steps of a machine of this kind on these terms; None: no price is known.

    What the ledger has of such machines counts, else the price book at each time at which a price
    in it begins. The first known price counts for the time before it.

    Args:
        machines: All of one kind that have a time in the window, one at least.
        capacity_type: The terms, such as `on-demand`.
        book: Your rates, the catalog and the policy.
        window: The time that is asked about.
    """
    own = [
        PriceStep(interval.since, interval.micro_usd_per_hour)
        for interval in machines
        if interval.capacity_type == capacity_type and interval.micro_usd_per_hour is not None
    ]
    if own:
        return PriceSteps(_changes(sorted(own)))
    found = _of_book(machines[-1], [capacity_type], book, window)
    known = _changes(step for step in found.steps if step.micro_usd_per_hour is not None)
    return PriceSteps(known) if known else None


def lowest_steps(
    machines: Sequence[CapacityInterval],
    capacity_types: Iterable[str],
    book: PriceBook,
    window: Window,
) -> PriceSteps:
    """The lowest price of the price book at each time, on any of these terms in any zone.

    Args:
        machines: As for `known_steps`.
        capacity_types: The terms that count.
        book: As for `known_steps`.
        window: The time that is asked about.
    """
    return _of_book(machines[-1], capacity_types, book, window)


def _of_book(
    machine: CapacityInterval, capacity_types: Iterable[str], book: PriceBook, window: Window
) -> PriceSteps:
    terms = set(capacity_types)
    lists = [_offered(catalog, machine, terms) for catalog in (book.sheet, book.catalog)]
    small = replace(book, sheet=lists[0], catalog=lists[1])
    offered = combined(lists).offerings
    places: set[tuple[str | None, str | None, str]]
    places = {(key.region, key.zone, key.capacity_type) for key in offered}
    places |= {(machine.region, None, capacity_type) for capacity_type in terms}
    asked = [
        PricedCapacity(
            gpu_type=machine.gpu_type,
            capacity_type=capacity_type,
            instance_type=machine.instance_type,
            region=region,
            zone=zone,
        )
        for region, zone, capacity_type in places
    ]
    whole = Machine(gpus=machine.gpus, cpu_milli=machine.cpu_milli, memory_mib=machine.memory_mib)
    begins = {
        price.seen_from
        for catalog in lists
        for offering in catalog.offerings.values()
        for price in offering.prices
    }
    edges = sorted({window.start, *(at for at in begins if at in window)})
    steps = []
    for at in edges:
        prices = (small.machine_price(capacity, whole, at) for capacity in asked)
        known = [price.micro_usd_per_hour for price in prices if price is not None]
        steps.append(PriceStep(at, min(known, default=None)))
    return PriceSteps(_changes(steps))


def _offered(catalog: Catalog, machine: CapacityInterval, terms: Collection[str]) -> Catalog:
    """The offerings of such machines on these terms."""
    offerings = {
        key: offering
        for key, offering in catalog.offerings.items()
        if key.instance_type == machine.instance_type
        and key.capacity_type in terms
        and machine.region in (None, key.region)
    }
    return replace(catalog, offerings=offerings)


def _changes(steps: Iterable[PriceStep]) -> tuple[PriceStep, ...]:
    """The steps that change the price: a month has many machines at one price."""
    found: list[PriceStep] = []
    for step in steps:
        if not found or step.micro_usd_per_hour != found[-1].micro_usd_per_hour:
            found.append(step)
    return tuple(found)
