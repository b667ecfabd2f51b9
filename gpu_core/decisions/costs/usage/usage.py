"""Use and cost in exact numbers: parts add up to the whole however it is cut.

Nothing is rounded here. A seventh of a GPU for an hour is exactly that, and so is its cost; whole
micro-dollars are made once, where people read them (`round_half_up`, `apportioned`).
"""

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from math import lcm

from gpu_core.decisions.model.units import SECONDS_PER_HOUR

US_PER_S = 1_000_000
US_PER_HOUR = SECONDS_PER_HOUR * US_PER_S

Exact = int | Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """GPU, CPU and memory time held, and what it cost."""

    gpu_us: Exact = 0
    """GPU-microseconds: a quarter of a GPU for a second is 250,000."""
    cpu_us: Exact = 0
    """Core-microseconds, as requested."""
    gib_us: Exact = 0
    """GiB-microseconds, as requested."""
    gpu_micro_usd: Exact = 0
    """The cost of the GPU time that has a price."""
    cpu_micro_usd: Exact = 0
    """The cost of the CPU time that has a price of its own."""
    gib_micro_usd: Exact = 0
    """The cost of the memory that has a price of its own."""
    unpriced_gpu_us: Exact = 0
    """The part of `gpu_us` without a price; its cost is unknown, not zero."""
    unpriced_us: Exact = 0
    """Microseconds of attempts without GPUs whose CPU or memory has no known amount or price."""

    def __add__(self, other: "Usage") -> "Usage":
        return self._with(operator.add, other)

    def __sub__(self, other: "Usage") -> "Usage":
        return self._with(operator.sub, other)

    def _with(self, combine: Callable[[Exact, Exact], Exact], other: "Usage") -> "Usage":
        return Usage(**{n: combine(getattr(self, n), getattr(other, n)) for n in _NAMES})

    def times(self, number: Exact) -> "Usage":
        """A multiple or a part of it."""
        return Usage(**{name: number * getattr(self, name) for name in _NAMES})

    @property
    def exact_micro_usd(self) -> Exact:
        """The cost of the part that has a price, to the last fraction of a micro-dollar."""
        return self.gpu_micro_usd + self.cpu_micro_usd + self.gib_micro_usd

    @property
    def micro_usd(self) -> int:
        """The cost of the part that has a price."""
        return round_half_up(self.exact_micro_usd)

    @property
    def is_unpriced(self) -> bool:
        """Has a part of it no price?"""
        return bool(self.unpriced_gpu_us or self.unpriced_us)

    @property
    def total_micro_usd(self) -> int | None:
        """The whole cost; None if a part of it has no price."""
        return None if self.is_unpriced else self.micro_usd

    @property
    def gpu_s(self) -> float:
        """GPU-seconds."""
        return float(self.gpu_us / Fraction(US_PER_S))

    @property
    def gpu_hours(self) -> float:
        """GPU-hours."""
        return float(self.gpu_us / Fraction(US_PER_HOUR))

    @property
    def cpu_hours(self) -> float:
        """Core-hours."""
        return float(self.cpu_us / Fraction(US_PER_HOUR))

    @property
    def gib_hours(self) -> float:
        """GiB-hours of memory."""
        return float(self.gib_us / Fraction(US_PER_HOUR))

    @property
    def unpriced_gpu_s(self) -> float:
        """GPU-seconds without a price."""
        return float(self.unpriced_gpu_us / Fraction(US_PER_S))


_NAMES = tuple(field.name for field in fields(Usage))
NO_USAGE = Usage()


def sum_usage(parts: Iterable[Usage]) -> Usage:
    """All parts together."""
    sums: list[Exact] = [0] * len(_NAMES)
    for part in parts:
        for place, name in enumerate(_NAMES):
            sums[place] += getattr(part, name) or 0
    return Usage(**dict(zip(_NAMES, sums, strict=True)))


def round_half_up(amount: Exact) -> int:
    """The amount in whole units.

    >>> round_half_up(Fraction(3, 2))
    2
    """
    return (2 * amount.numerator + amount.denominator) // (2 * amount.denominator)


def apportioned(amounts: Sequence[Exact], whole: int | None = None) -> list[int]:
    """The amounts in whole units that add up to their rounded sum: by largest remainder.

    Each is rounded down, and the units that are then missing go to the largest remainders, among
    equals to the first. (Hamilton's method; Balinski and Young, "Fair Representation", 1982.)

    >>> apportioned([Fraction(3_670_001, 4)] * 4)
    [917501, 917500, 917500, 917500]

    Args:
        amounts: The exact amounts.
        whole: See `apportioned_parts`.
    """
    common = lcm(*(amount.denominator for amount in amounts))
    numerators = [amount.numerator * (common // amount.denominator) for amount in amounts]
    return apportioned_parts(numerators, common, whole)


def apportioned_parts(
    numerators: Sequence[int], denominator: int, whole: int | None = None
) -> list[int]:
    """The same for amounts of one denominator, in whole numbers.

    Args:
        whole: What they add up to instead: their sum rounded down or up. None: rounded half up.
    """
    if whole is None:
        whole = (2 * sum(numerators) + denominator) // (2 * denominator)
    units = [numerator // denominator for numerator in numerators]
    missing = whole - sum(units)
    remainders = [numerator % denominator for numerator in numerators]
    by_remainder = sorted(range(len(units)), key=remainders.__getitem__, reverse=True)
    for place in by_remainder[:missing]:
        units[place] += 1
    return units
