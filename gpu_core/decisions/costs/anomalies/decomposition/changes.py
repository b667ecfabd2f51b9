"""How much of a deployment's change is each driver's? The drivers add up to the change, exactly.

The cost is the mean price of a GPU-hour times the GPU-hours. Bennet's indicator splits the change
in price and quantity; `price_changes` splits the price. Quantities of different purposes add up.
Work is runs times hours a run times GPUs a run, whose changes have their Shapley values (Shorrocks,
"Decomposition procedures for distributional analysis", Journal of Economic Inequality 11, 2013).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from gpu_core.decisions.costs.anomalies.decomposition.drivers import CostDriver, Driver, Number
from gpu_core.decisions.costs.anomalies.decomposition.parts import Part, Purpose, with_idle_apart
from gpu_core.decisions.costs.anomalies.decomposition.price_changes import (
    PricedPlace,
    PricedUnits,
    price_changes,
    sum_held,
)
from gpu_core.decisions.costs.usage.usage import US_PER_HOUR

_OVERHEADS = {
    Purpose.IDLE: Driver.IDLE,
    Purpose.NODE_WAIT: Driver.NODE_WAIT,
    Purpose.RETRY: Driver.RETRIES,
    Purpose.FAULT: Driver.FAULTS,
    Purpose.INTERRUPTION: Driver.INTERRUPTIONS,
}
_WORK = (Driver.RUNS, Driver.RUN_TIME, Driver.GPU_COUNT)


@dataclass(frozen=True, slots=True)
class Side:
    """The GPUs that one deployment held before, or holds now.

    Attributes:
        parts: What it is made of.
        weight: What each part counts: that of days before makes their sum what was expected.
    """

    parts: Sequence[Part]
    weight: Number = 1

    @property
    def micro_usd(self) -> Number:
        """The cost of all its parts."""
        return self.weight * sum(part.micro_usd for part in self.parts)

    def places(self) -> dict[PricedPlace, PricedUnits]:
        """The held resources by place."""
        found: dict[PricedPlace, PricedUnits] = {}
        for part in self.parts:
            attempt = part.attempt
            place = (attempt.gpu_type, attempt.capacity_type, attempt.zone)
            held = PricedUnits(part.units, part.gpu_micro_usd, part.other_micro_usd)
            found[place] = found.get(place, PricedUnits()) + held
        return {
            place: PricedUnits(
                self.weight * each.units, self.weight * each.gpu, self.weight * each.other
            )
            for place, each in found.items()
        }

    def units(self, purpose: Purpose) -> Number:
        """GPU-microseconds of one purpose."""
        return self.weight * sum(part.units for part in self.parts if part.purpose is purpose)

    def work(self) -> tuple[Number, Fraction, Fraction] | None:
        """The number of runs, the hours that one works, and its GPUs; None: it did no work."""
        parts = [part for part in self.parts if part.purpose is Purpose.WORK]
        held_us = sum(part.held_us for part in parts)
        if not held_us:
            return None
        # A day is a part of the run's id here: a run over midnight is one run on both days.
        runs = len({(part.run.flow_run_id, part.day) for part in parts})
        return (
            self.weight * runs,
            Fraction(held_us, US_PER_HOUR * runs),
            Fraction(sum(part.units for part in parts)) / held_us,
        )


def changes_of(source: str, before: Sequence[Part], now: Sequence[Part], weight: Number
               ) -> Iterator[CostDriver]:  # fmt: skip
    """The changes that make this deployment cost more or less than before.

    Args:
        source: The deployment.
        before: Its parts on the days before.
        now: Its parts on the day.
        weight: What a part before counts.
    """
    if not before or not now:
        yield _come_or_gone(source, Side(before, weight), Side(now))
        return
    if all(part.idle is not None for part in (*before, *now) if part.purpose is Purpose.WORK):
        before, now = tuple(with_idle_apart(before)), tuple(with_idle_apart(now))
    earlier, later = Side(before, weight), Side(now)
    was, is_now = earlier.places(), later.places()
    all_before, all_now = sum_held(was), sum_held(is_now)
    mean_units = Fraction(all_before.units + all_now.units) / 2
    for change in price_changes(source, was, is_now):
        yield change.times(mean_units)
    mean_price = (all_before.price + all_now.price) / 2
    for change in (*_overheads(source, earlier, later), *_work(source, earlier, later)):
        yield change.times(mean_price)


def _come_or_gone(source: str, before: Side, now: Side) -> CostDriver:
    return CostDriver(
        driver=Driver.NEW if now.parts else Driver.STOPPED,
        subject=source,
        exact_micro_usd=now.micro_usd - before.micro_usd,
        source=source,
        before=before.micro_usd,
        now=now.micro_usd,
    )


def _overheads(source: str, before: Side, now: Side) -> Iterator[CostDriver]:
    for purpose, driver in _OVERHEADS.items():
        earlier, later = before.units(purpose), now.units(purpose)
        if earlier != later:
            yield _change(driver, source, later - earlier, _hours(earlier), _hours(later))


def _work(source: str, before: Side, now: Side) -> Iterable[CostDriver]:
    earlier, later = before.work(), now.work()
    if earlier is None or later is None:
        units = now.units(Purpose.WORK) - before.units(Purpose.WORK)
        runs = [None if each is None else each[0] for each in (earlier, later)]
        return [_change(Driver.RUNS, source, units, runs[0] or 0, runs[1] or 0)] if units else []
    amounts = _shapley(earlier, later)
    return [
        _change(driver, source, amount * US_PER_HOUR, was, is_now)
        for driver, amount, was, is_now in zip(_WORK, amounts, earlier, later, strict=True)
        if was != is_now
    ]


def _change(driver: Driver, source: str, amount: Number, before: Number, now: Number) -> CostDriver:
    return CostDriver(
        driver=driver, subject=source, exact_micro_usd=amount, source=source, before=before, now=now
    )


def _hours(us: Number) -> Fraction:
    return Fraction(us) / US_PER_HOUR


def _shapley(before: Sequence[Number], now: Sequence[Number]) -> list[Number]:
    """How much of the change of a product of three is that of each factor?"""
    found: list[Number] = []
    for place in range(3):
        (a0, b0), (a1, b1) = (
            [side[other] for other in range(3) if other != place] for side in (before, now)
        )
        mean = (2 * a0 * b0 + a1 * b0 + a0 * b1 + 2 * a1 * b1) * Fraction(1, 6)
        found.append((now[place] - before[place]) * mean)
    return found
