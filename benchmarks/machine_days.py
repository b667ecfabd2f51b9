"""Machines that come and go from day to day, and what a commitment for some of them saves.

Some are always there, some for a shift on weekdays, and as many more as a demand asks for that
changes slowly: the predictor draws days that do not depend on each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

import numpy as np
from numpy.typing import NDArray

from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityInterval
from gpu_core.decisions.costs.prices.price_book import PriceBook
from gpu_core.decisions.policy.policy import parse_policy

MEMORY = 0.8
"""How much of a day's demand the next day keeps."""
SPREAD = 0.25
"""The standard deviation of the logarithm of the demand."""
PRICE_USD = 2.0
_GPUS = 8
_TYPE = "h100-80gb"
_SLOTS = 96
"""Of a day, in which machines are counted."""
_LONG_DAYS = 1500


@dataclass(frozen=True, kw_only=True)
class Demand:
    """Which machines there are.

    Attributes:
        always: Machines that are there but for 1% of the time.
        shift: Those that are there on weekdays for about `shift_hours`.
        more: The mean of those that a slowly changing demand asks for, for whole days.
        ratio: What a commitment costs, as a part of the price on demand.
    """

    always: int
    shift: int
    shift_hours: float
    more: float
    ratio: float

    @property
    def book(self) -> PriceBook:
        """The price book with both prices."""
        prices = {_TYPE: {"on-demand": PRICE_USD, "reserved": round(PRICE_USD * self.ratio, 4)}}
        return PriceBook(policy=parse_policy({"version": 1, "prices": prices}, source="bench"))


DayOfMachines = list[tuple[float, float]]
"""From when to when, in hours of the day, each machine is there."""


class Machines:
    """Makes the machines of days in a row; one seed makes one history."""

    def __init__(self, demand: Demand, seed: Sequence[int]) -> None:
        self._demand = demand
        self._rng = np.random.default_rng(seed)
        self._level = float(SPREAD * self._rng.standard_normal())

    def day(self, day: date) -> DayOfMachines:
        """The machines of the next day."""
        rng, demand = self._rng, self._demand
        self._level = MEMORY * self._level + float(
            SPREAD * np.sqrt(1 - MEMORY**2) * rng.standard_normal()
        )
        found = [(0.0, 24.0) if rng.random() > 0.01 else (6.0, 24.0) for _ in range(demand.always)]
        found += [(0.0, 24.0)] * round(demand.more * float(np.exp(self._level)))
        if day.weekday() < 5:
            lengths = rng.normal(demand.shift_hours, 1.5, size=demand.shift).clip(1, 15)
            found += [(8.0, 8.0 + float(hours)) for hours in lengths]
        return found

    def days(self, first: date, days: int) -> list[DayOfMachines]:
        """The machines of so many days."""
        return [self.day(first + timedelta(days=offset)) for offset in range(days)]


def intervals(found: Sequence[DayOfMachines], first: date) -> list[CapacityInterval]:
    """The same as records of the ledger."""
    return [
        CapacityInterval(
            interval_id=f"{offset}-{number}",
            host="bench",
            pool="gpu",
            node=f"node-{offset}-{number}",
            capacity_type="on-demand",
            gpu_type=_TYPE,
            gpus=_GPUS,
            micro_usd_per_hour=round(_GPUS * PRICE_USD * 1e6),
            price_source="policy",
            since=_moment(first, offset, start),
            until=_moment(first, offset, end),
            seen_at=_moment(first, offset, end),
        )
        for offset, machines in enumerate(found)
        for number, (start, end) in enumerate(machines)
    ]


def saving(found: Sequence[DayOfMachines], committed: int, ratio: float) -> float:
    """What part of the cost does a commitment for so many machines save in these days?"""
    held = _held(found)
    if not held.sum():
        return 0.0
    gains = held[:, :committed].sum() - ratio * len(found) * committed
    return float(gains / held.sum())


def best_saving(demand: Demand) -> float:
    """What does the best number of commitments save in a long time? Not below zero."""
    found = Machines(demand, (99,)).days(date(2026, 1, 5), _LONG_DAYS)
    most = _held(found).shape[1]
    return max(saving(found, count, demand.ratio) for count in range(most + 1))


def _held(found: Sequence[DayOfMachines]) -> NDArray[np.float64]:
    """By day and number: the part of the day with at least that many machines."""
    hours = (np.arange(_SLOTS) + 0.5) * 24 / _SLOTS
    most = max((len(machines) for machines in found), default=0)
    held = np.zeros((len(found), most + 1))
    for number, machines in enumerate(found):
        there = np.zeros(_SLOTS, dtype=int)
        for start, end in machines:
            there += (hours >= start) & (hours < end)
        held[number] = [(there > count).mean() for count in range(most + 1)]
    return held


def _moment(first: date, offset: int, hours: float) -> datetime:
    return datetime.combine(first, time(), UTC) + timedelta(days=offset, hours=hours)
