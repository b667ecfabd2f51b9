"""The charges of a period: one charge for each resource that an attempt held at one price.

A reserved machine is a commitment: it is bought for its time, its runs' charges use it up, and what
they leave is unused. Used and unused make its cost, to the micro-dollar.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from fractions import Fraction

from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityInterval
from gpu_core.decisions.costs.capacity.idle import counted_in, held_part
from gpu_core.decisions.costs.reports.cost_report import period_window
from gpu_core.decisions.costs.usage.usage import (
    US_PER_HOUR,
    Exact,
    Usage,
    apportioned,
)
from gpu_core.decisions.costs.usage.usage_cost import Held, Window, usage_for
from gpu_core.decisions.model.attempts import Attempt, RunRecord
from gpu_core.decisions.model.cluster import RESERVED
from gpu_core.decisions.model.prices import PriceChange, Rates

_MICROSECOND = timedelta(microseconds=1)


class Resource(StrEnum):
    """The resource that a charge is for."""

    GPU = "GPU"
    CPU = "CPU"
    MEMORY = "Memory"


@dataclass(frozen=True, slots=True)
class CommittedTime:
    """A reserved machine with a known price, in one month."""

    interval: CapacityInterval
    period: Window

    @property
    def unit_micro_usd(self) -> int:
        """The price of one hour of the machine; over 0."""
        return self.interval.micro_usd_per_hour or 0

    @property
    def exact_micro_usd(self) -> Fraction:
        """The cost of its time, used or not."""
        held_us = (self.period.end - self.period.start) // _MICROSECOND
        return Fraction(held_us * self.unit_micro_usd, US_PER_HOUR)

    def hours(self, micro_usd: Exact) -> Fraction:
        """How many hours of the machine are this much of its cost?"""
        return Fraction(micro_usd) / self.unit_micro_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """The use of one resource by an attempt at one price in one month. Its cost is exact."""

    run: RunRecord
    attempt: Attempt
    resource: Resource
    period: Window
    rates: Rates
    hours: Exact
    """GPU-hours, core-hours or GiB-hours."""
    unit_micro_usd: int
    """The price of one hour."""
    exact_micro_usd: Exact
    commitment: CommittedTime | None = None
    """The reserved machine that it uses up; None: it is billed by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unused:
    """The unused time of a reserved machine."""

    commitment: CommittedTime
    exact_micro_usd: Exact


class ChargedAmounts:
    """The cost of charges and unused times in whole micro-USD, when all are known.

    Without reserved machines they add up to the report of the same window. The charges and the rest
    of a reserved machine add up to what it costs, rounded with all others.
    """

    def __init__(self) -> None:
        self._groups: dict[CommittedTime | None, list[Exact]] = defaultdict(list)
        self._order: list[CommittedTime | None] = []

    def add(self, each: Charge | Unused) -> None:
        """Take note of the next one; charges come first."""
        self._groups[each.commitment].append(each.exact_micro_usd)
        self._order.append(each.commitment)

    def micro_usd(self) -> Iterator[int]:
        """Their amounts, in the same order."""
        sums = apportioned([sum(parts, Fraction(0)) for parts in self._groups.values()])
        whole = {
            commitment: iter(apportioned(parts, of_group))
            for (commitment, parts), of_group in zip(self._groups.items(), sums, strict=True)
        }
        return (next(whole[commitment]) for commitment in self._order)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """The use of an attempt at one price in one month, and its part on reserved machines."""

    run: RunRecord
    attempt: Attempt
    period: Window
    rates: Rates
    amounts: "_Amounts"
    covered: Mapping[CommittedTime, "_Amounts"] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Amounts:
    usage: Usage
    priced_gpu_us: Exact
    """GPUs that are paid for, times microseconds. An older version kept the price of the part that
    was held, and that is paid once."""

    @classmethod
    def of(cls, held: Held, held_us: int, rates: Rates) -> "_Amounts":
        return cls(usage_for(held, held_us, rates), held_us * held.priced_gpus)

    def times(self, part: Exact) -> "_Amounts":
        return _Amounts(self.usage.times(part), self.priced_gpu_us * part)

    def __sub__(self, other: "_Amounts") -> "_Amounts":
        return _Amounts(self.usage - other.usage, self.priced_gpu_us - other.priced_gpu_us)


Record = tuple[RunRecord, Sequence[Attempt]]
"""A run with all its attempts."""


class Charges:
    """The charges of a window, record by record: none is kept when its charges are made.

    A charge never crosses the turn of a month, so that it is in one billing period.

    Args:
        records: Runs with all their attempts. They are read once, or twice if there are `machines`.
        window: The time that counts.
        now: Attempts that still hold their GPUs are charged up to here.
        machines: Those with a time in the window; the reserved ones with a price are commitments.
        pool: Only what this pool's runs held, and what others used of these machines; None: all.
    """

    def __init__(
        self,
        records: Iterable[Record],
        window: Window,
        now: datetime,
        machines: Iterable[CapacityInterval] = (),
        pool: str | None = None,
    ) -> None:
        self.window = window
        self.unpriced_gpu_us: Exact = 0
        """GPU-microseconds of the charges so far that none is made for, for want of a price."""
        self.unpriced_us: Exact = 0
        """The same for attempts without GPUs: their time."""
        self._records, self._now, self._pool = records, now, pool
        self._by_node: dict[tuple[str, str], list[CommittedTime]] = defaultdict(list)
        self._times = _committed_times(machines, window, now)
        for time in self._times:
            self._by_node[time.interval.host, time.interval.node].append(time)
        self._paid = self._paid_by_time() if self._times else {}

    def __iter__(self) -> Iterator[Charge]:
        """The charges, in the order of the records."""
        self.unpriced_gpu_us = self.unpriced_us = 0
        fits = self._fits()
        for part in self._held():
            is_of_pool = self._pool in (None, part.run.pool)
            if is_of_pool:
                self.unpriced_gpu_us += part.amounts.usage.unpriced_gpu_us
                self.unpriced_us += part.amounts.usage.unpriced_us
            for charge in _charges(part, fits):
                if is_of_pool or charge.commitment is not None:
                    yield charge

    def unused(self) -> Iterator[Unused]:
        """One for each reserved machine and month, also where nothing is left."""
        for time in self._times:
            left = max(Fraction(0), time.exact_micro_usd - self._paid.get(time, 0))
            yield Unused(commitment=time, exact_micro_usd=left)

    def _held(self) -> Iterator["_Held"]:
        return (
            _with_covered(part, self._by_node)
            for run, attempts in self._records
            for attempt in attempts
            if attempt.has_run
            for part in _held_parts(run, attempt, self.window, self._now)
        )

    def _paid_by_time(self) -> dict[CommittedTime, Exact]:
        paid: dict[CommittedTime, Exact] = defaultdict(int)
        for part in self._held():
            for time, amounts in part.covered.items():
                paid[time] += amounts.usage.exact_micro_usd
        return paid

    def _fits(self) -> dict[CommittedTime, Fraction]:
        # Attempts that overlap because clocks or prices differ pay more than the machine costs.
        return {
            time: min(Fraction(1), time.exact_micro_usd / of_runs) if of_runs else Fraction(1)
            for time, of_runs in self._paid.items()
        }


def _committed_times(
    machines: Iterable[CapacityInterval], window: Window, now: datetime
) -> list[CommittedTime]:
    found = []
    for interval in machines:
        if interval.capacity_type == RESERVED and interval.micro_usd_per_hour:
            counted = counted_in(interval, window, now)
            found += [
                CommittedTime(interval, month)
                for month in ([] if counted is None else months(counted.start, counted.end))
            ]
    return found


def _held_parts(run: RunRecord, attempt: Attempt, window: Window, now: datetime) -> Iterator[_Held]:
    held = Held.by(attempt)
    for period, change in _periods(attempt, window, now):
        held_us = (period.end - period.start) // _MICROSECOND
        yield _Held(
            run=run,
            attempt=attempt,
            period=period,
            rates=change.rates,
            amounts=_Amounts.of(held, held_us, change.rates),
        )


def _with_covered(part: _Held, by_node: Mapping[tuple[str, str], Sequence[CommittedTime]]) -> _Held:
    attempt = part.attempt
    if not by_node or not attempt.is_placed:
        return part
    covered = {}
    for node in {share.node for share in attempt.held} or {attempt.node}:
        for time in by_node.get((attempt.host, node), ()):
            start = max(time.period.start, part.period.start)
            held_us = (min(time.period.end, part.period.end) - start) // _MICROSECOND
            if held_us > 0:
                covered[time] = _Amounts.of(held_part(attempt, node), held_us, part.rates)
    return replace(part, covered=covered)


def _charges(part: _Held, fits: Mapping[CommittedTime, Fraction]) -> Iterator[Charge]:
    rest = part.amounts
    for time, amounts in part.covered.items():
        fitting = amounts.times(fits[time])
        rest = rest - fitting
        yield from _of_amounts(part, fitting, time)
    yield from _of_amounts(part, rest, None)


def _of_amounts(
    part: _Held, amounts: _Amounts, commitment: CommittedTime | None
) -> Iterator[Charge]:
    for resource, amount_us, price, micro_usd in _priced(
        amounts.usage, amounts.priced_gpu_us, part.rates
    ):
        if price is not None and amount_us:
            yield Charge(
                run=part.run,
                attempt=part.attempt,
                resource=resource,
                period=part.period if commitment is None else _both(part, commitment),
                rates=part.rates,
                hours=Fraction(amount_us, US_PER_HOUR),
                unit_micro_usd=price,
                exact_micro_usd=micro_usd,
                commitment=commitment,
            )


def _both(part: _Held, commitment: CommittedTime) -> Window:
    first, second = part.period, commitment.period
    return Window(max(first.start, second.start), min(first.end, second.end))


def _priced(
    usage: Usage, priced_gpu_us: Exact, rates: Rates
) -> tuple[tuple[Resource, Exact, int | None, Exact], ...]:
    """Each resource with its amount, its price and its cost."""
    return (
        (Resource.GPU, priced_gpu_us, rates.gpu_micro_usd_per_hour, usage.gpu_micro_usd),
        (Resource.CPU, usage.cpu_us, rates.cpu_micro_usd_per_hour, usage.cpu_micro_usd),
        (Resource.MEMORY, usage.gib_us, rates.gib_micro_usd_per_hour, usage.gib_micro_usd),
    )


def billing_period(moment: datetime) -> Window:
    """The month in which a charge is billed that starts at this moment."""
    return period_window("month", moment.astimezone(UTC).date())


def _periods(
    attempt: Attempt, window: Window, now: datetime
) -> Iterable[tuple[Window, PriceChange]]:
    """The times in the window that the attempt had one price in one month."""
    changes = attempt.price_changes
    held_until = min(attempt.freed_at or now, now)
    ends = [*(change.since for change in changes[1:]), held_until]
    for change, until in zip(changes, ends, strict=True):
        start = max(change.since, attempt.admitted_at, window.start).astimezone(UTC)
        end = min(until, held_until, window.end).astimezone(UTC)
        for month in months(start, end):
            yield month, change


def months(start: datetime, end: datetime) -> Iterator[Window]:
    """This time, cut at the turns of UTC months."""
    while start < end:
        turn = min(end, billing_period(start).end)
        yield Window(start, turn)
        start = turn
