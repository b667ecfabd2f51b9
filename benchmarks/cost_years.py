"""Generated years of daily cost, with anomalies whose days are known.

Weekends cost 0.4 of weekdays, the last day of a month 1.4 of another one, costs grow by 30% in the
year, and nine days are announced holidays. Twelve weeks before the year are for learning.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
from numpy.typing import NDArray

FIRST_DAY = date(2025, 1, 6)
LEARNING_DAYS = 84
DAYS = LEARNING_DAYS + 364
WEEKEND = 0.4
MONTH_END = 1.4
GROWTH = 1.3
HOLIDAYS = 9
USUAL_USD = 100.0

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Injected:
    """An anomaly: it counts as found from `first` to `in_time`; alerts up to `last` are its own."""

    first: int
    in_time: int
    last: int


@dataclass(frozen=True)
class CostYear:
    """A year of daily costs.

    Attributes:
        micro_usd: One for each day from `FIRST_DAY`.
        holidays: Indexes of announced days.
        injected: The anomalies, in order.
    """

    micro_usd: tuple[int, ...]
    holidays: frozenset[int]
    injected: tuple[Injected, ...]


def make_year(kind: str, noise_cv: float, seed: int) -> CostYear:
    """A year with anomalies of one kind.

    Args:
        kind: A name of `KINDS`.
        noise_cv: The coefficient of variation of a day's cost.
        seed: Another number gives another year.
    """
    chance = np.random.default_rng(seed)
    days = np.arange(DAYS)
    dates = [FIRST_DAY + timedelta(days=int(n)) for n in days]
    usd = USUAL_USD * GROWTH ** (days / 365)
    usd *= [WEEKEND if day.weekday() >= 5 else 1.0 for day in dates]
    usd *= [MONTH_END if (day + timedelta(days=1)).day == 1 else 1.0 for day in dates]
    holidays = chance.choice(np.arange(LEARNING_DAYS, DAYS), HOLIDAYS, replace=False)
    usd[[n for n in holidays if dates[n].weekday() < 5]] *= WEEKEND
    sigma = float(np.sqrt(np.log1p(noise_cv**2)))
    usd *= np.exp(sigma * chance.standard_normal(DAYS) - sigma**2 / 2)
    announced = frozenset(int(n) for n in holidays)
    injected = KINDS[kind](usd, announced, chance)
    return CostYear(tuple(round(x * 1e6) for x in usd), announced, injected)


def _none(*_: object) -> tuple[Injected, ...]:
    return ()


def _spikes(
    usd: Floats, holidays: frozenset[int], chance: np.random.Generator
) -> tuple[Injected, ...]:
    """Twelve days in the year that cost twice as much, one in every thirty."""
    found = []
    for month in range(12):
        free = [
            n
            for n in range(LEARNING_DAYS + 30 * month, LEARNING_DAYS + 30 * month + 25)
            if n not in holidays
        ]
        at = int(chance.choice(free))
        usd[at] *= 2
        found.append(Injected(at, at, at))
    return tuple(found)


def _step(usd: Floats, _: frozenset[int], chance: np.random.Generator) -> tuple[Injected, ...]:
    """From some day on everything costs 40% more."""
    at = int(chance.integers(LEARNING_DAYS, DAYS - 30))
    usd[at:] *= 1.4
    return (Injected(at, at + 6, at + 20),)


def _leak(usd: Floats, _: frozenset[int], chance: np.random.Generator) -> tuple[Injected, ...]:
    """Costs rise by 4% a day for three weeks, and stay there."""
    at = int(chance.integers(LEARNING_DAYS, DAYS - 60))
    usd[at:] *= 1.04 ** np.minimum(np.arange(1, DAYS - at + 1), 21)
    return (Injected(at, at + 13, at + 41),)


def _weekends(
    usd: Floats, holidays: frozenset[int], chance: np.random.Generator
) -> tuple[Injected, ...]:
    """Eight weekends that cost as much as weekdays."""
    saturdays = [n for n in range(LEARNING_DAYS, DAYS - 2) if n % 7 == 5
                 and holidays.isdisjoint((n, n + 1))]  # fmt: skip
    found = []
    for at in sorted(int(n) for n in chance.choice(saturdays, 8, replace=False)):
        usd[at : at + 2] /= WEEKEND
        found.append(Injected(at, at + 1, at + 1))
    return tuple(found)


KINDS: dict[str, Callable[[Floats, frozenset[int], np.random.Generator], tuple[Injected, ...]]] = {
    "none": _none,
    "2x spikes": _spikes,
    "+40% step": _step,
    "+4% a day": _leak,
    "weekend runaway": _weekends,
}
