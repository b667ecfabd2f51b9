"""The causes of a change in the price of an hour: prices, GPU types, capacity types and zones.

The mean price of a GPU-hour is a mean over GPU types; that of a type one over capacity types; that
of these one over zones. At each level Bennet's indicator splits the change in two ("The Theory of
Measurement of Changes in Cost of Living", 1920): changes of shares at mean prices, and changes of
prices at mean shares, which the next level splits. The two always add up.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from gpu_core.decisions.costs.anomalies.decomposition.drivers import CostDriver, Driver, Number

PricedPlace = tuple[str | None, str, str | None]
"""GPU type, capacity type, zone."""

_LEVELS = (Driver.GPU_TYPE, Driver.CAPACITY_TYPE, Driver.ZONE)


@dataclass(frozen=True, slots=True)
class PricedUnits:
    """The resources held at a place, and their cost: GPUs, and CPU and memory."""

    units: Number = 0
    gpu: Number = 0
    other: Number = 0

    def __add__(self, more: "PricedUnits") -> "PricedUnits":
        return PricedUnits(self.units + more.units, self.gpu + more.gpu, self.other + more.other)

    @property
    def price(self) -> Fraction:
        """The cost of a unit."""
        return Fraction(self.gpu + self.other) / self.units


PricedPlaces = Mapping[PricedPlace, PricedUnits]


def sum_held(places: PricedPlaces) -> PricedUnits:
    """All places together."""
    return sum(places.values(), PricedUnits())


def price_changes(source: str, before: PricedPlaces, now: PricedPlaces) -> Iterator[CostDriver]:
    """The cost of changed prices and places, for one unit. Both sides hold something."""
    yield from _split(source, before, now, ())


def _split(
    source: str, before: PricedPlaces, now: PricedPlaces, path: tuple[str, ...]
) -> Iterator[CostDriver]:
    if len(path) == len(_LEVELS):
        yield from _rates(source, sum_held(before), sum_held(now), path)
        return
    level = len(path)
    groups = [(_groups(side, level), sum_held(side).units) for side in (before, now)]
    (was, units_before), (is_now, units_now) = groups
    moved: Number = 0
    shifts: dict[str, Fraction] = {}
    for name in dict.fromkeys((*was, *is_now)):
        # A place without a side has no price there, so that its price has not changed.
        earlier, later = was.get(name) or is_now[name], is_now.get(name) or was[name]
        share_before = Fraction(sum_held(was.get(name, {})).units) / units_before
        share_now = Fraction(sum_held(is_now.get(name, {})).units) / units_now
        mean_price = (sum_held(earlier).price + sum_held(later).price) / 2
        shifts[name] = share_now - share_before
        moved += shifts[name] * mean_price
        mean_share = (share_before + share_now) / 2
        for change in _split(source, earlier, later, (*path, name)):
            yield change.times(mean_share)
    if moved:
        yield _move(_LEVELS[level], source, moved, shifts, path)


def _move(
    driver: Driver,
    source: str,
    micro_usd: Number,
    shifts: Mapping[str, Fraction],
    path: Sequence[str],
) -> CostDriver:
    return CostDriver(
        driver=driver,
        subject=source if driver is Driver.GPU_TYPE else ", ".join(path),
        exact_micro_usd=micro_usd,
        source=source,
        before=min(shifts, key=lambda name: (shifts[name], name)),
        now=max(shifts, key=lambda name: (shifts[name], name)),
    )


def _rates(
    source: str, before: PricedUnits, now: PricedUnits, path: Sequence[str]
) -> Iterator[CostDriver]:
    for driver, subject, was, is_now in (
        (Driver.PRICE, ", ".join(path[:2]), before.gpu, now.gpu),
        (Driver.CPU_AND_MEMORY, source, before.other, now.other),
    ):
        earlier, later = Fraction(was) / before.units, Fraction(is_now) / now.units
        if earlier != later:
            yield CostDriver(
                driver=driver,
                subject=subject,
                exact_micro_usd=later - earlier,
                source=source,
                before=earlier,
                now=later,
            )


def _groups(places: PricedPlaces, level: int) -> dict[str, dict[PricedPlace, PricedUnits]]:
    nouns = ("no GPU type", "no capacity type", "no zone")
    found: dict[str, dict[PricedPlace, PricedUnits]] = {}
    for place, held in places.items():
        found.setdefault(place[level] or nouns[level], {})[place] = held
    return found
