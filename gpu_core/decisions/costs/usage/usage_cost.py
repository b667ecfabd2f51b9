"""The cost of runs: their use times its price, in sums that always add up.

Cost is allocated: a GPU is paid for from admission until it is free again, busy or not.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from fractions import Fraction
from itertools import pairwise

from gpu_core.decisions.costs.usage.usage import (
    NO_USAGE,
    US_PER_HOUR,
    US_PER_S,
    Exact,
    Usage,
    sum_usage,
)
from gpu_core.decisions.model.attempts import Attempt, EndReason, RunRecord
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.prices import Rates
from gpu_core.decisions.model.units import (
    SECONDS_PER_HOUR,
    format_duration,
    format_usd,
    require_aware,
)

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Window:
    """The time from `start` up to, but without, `end`. Both are aware, and kept in UTC."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        # Python subtracts and compares two moments of one zone by the clock on the wall.
        start = require_aware(self.start, "window.start").astimezone(UTC)
        end = require_aware(self.end, "window.end").astimezone(UTC)
        if end < start:
            raise InvalidInput("window.end", "is before its start", got=self.end.isoformat())
        object.__setattr__(self, "start", start)
        object.__setattr__(self, "end", end)

    @classmethod
    def of_day(cls, day: date) -> "Window":
        """The day in UTC, from midnight to midnight."""
        start = datetime.combine(day, time(), UTC)
        return cls(start, start + timedelta(days=1))

    def __contains__(self, moment: datetime) -> bool:
        return self.start <= moment < self.end


@dataclass(frozen=True, slots=True, kw_only=True)
class Setback:
    """An attempt that ended before its work was complete, and what became of the work."""

    attempt: Attempt
    lost: Usage
    """Work after the last checkpoint: it was done for nothing."""
    saved: Usage
    """Work up to a checkpoint that a later attempt went on from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCost:
    """The cost of one run, in all or in one window."""

    run: RunRecord
    attempts: tuple[Attempt, ...]
    """The attempts that held GPUs in the window."""
    usage: Usage
    setbacks: tuple[Setback, ...]
    """The attempts that gave their GPUs back in the window without being complete."""
    wait_s: float | None
    """All its waits: from submission to the first admission, and from the end of each attempt to
    the admission of the next. A flow that suspended itself waits for a person, which is not
    counted. None for a run that was never admitted."""
    rewaits: int
    """The number of times that the run went back into the line after its first admission."""

    @property
    def held_gpus(self) -> bool:
        """Did it hold GPUs at all? A run that needs none costs nothing here."""
        return any(attempt.gpu_ids for attempt in self.attempts)

    @property
    def total_micro_usd(self) -> int | None:
        """The run's cost; None if a part of it has no price."""
        return self.usage.total_micro_usd

    @property
    def gpu_s(self) -> float:
        """GPU-seconds."""
        return self.usage.gpu_s

    @property
    def unpriced_gpu_s(self) -> float:
        """GPU-seconds without a price."""
        return self.usage.unpriced_gpu_s

    @property
    def lost(self) -> Usage:
        """Work that was done for nothing."""
        return sum_usage(setback.lost for setback in self.setbacks)

    @property
    def saved(self) -> Usage:
        """Work that would have been done for nothing without checkpoints."""
        return sum_usage(setback.saved for setback in self.setbacks)

    @property
    def lost_gpu_s(self) -> float:
        """GPU-seconds of work that was lost."""
        return self.lost.gpu_s

    @property
    def lost_micro_usd(self) -> int | None:
        """The cost of the work that was lost; None if a part of it has no price."""
        return self.lost.total_micro_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCost:
    """The cost of several runs together."""

    runs: int = 0
    usage: Usage = NO_USAGE
    lost: Usage = NO_USAGE
    saved: Usage = NO_USAGE

    def with_run(self, cost: RunCost) -> "GroupCost":
        """The same group with one more run in it."""
        return GroupCost(
            runs=self.runs + 1,
            usage=self.usage + cost.usage,
            lost=self.lost + cost.lost,
            saved=self.saved + cost.saved,
        )


def usage_until(attempt: Attempt, until: datetime) -> Usage:
    """The usage and cost of the attempt from its admission to `until`."""
    return _usage_between(attempt, attempt.admitted_at, until)


def attempt_usage(attempt: Attempt, now: datetime, window: Window | None = None) -> Usage:
    """The usage and cost of the attempt, in all or in one window.

    Args:
        now: An attempt that still holds its GPUs is costed up to here.
        window: None: from its admission on.
    """
    if window is None:
        return usage_until(attempt, now)
    return held_usage(attempt, Held.by(attempt), window, now)


def held_usage(attempt: Attempt, held: "Held", window: Window, now: datetime) -> Usage:
    """The usage and cost of the attempt in one window if it holds this.

    Args:
        held: A part of what it holds, such as that on one of its nodes.
        window: The time that counts.
        now: An attempt that still holds its GPUs is costed up to here.
    """
    start, end = max(window.start, attempt.admitted_at), min(window.end, now)
    return _held_between(attempt, held, start, end)


def _usage_between(attempt: Attempt, start: datetime, end: datetime) -> Usage:
    return _held_between(attempt, Held.by(attempt), start, end)


def _held_between(attempt: Attempt, held: "Held", start: datetime, end: datetime) -> Usage:
    """Its use in [start, end), with each of its prices for the time that it held."""
    if attempt.freed_at is not None:
        end = min(end, attempt.freed_at)
    changes = attempt.price_changes
    ends = [*(change.since for change in changes[1:]), end]
    parts = [
        usage_for(held, _held_us(max(start, change.since), min(end, until)), change.rates)
        for change, until in zip(changes, ends, strict=True)
    ]
    return parts[0] if len(parts) == 1 else sum_usage(parts)


def _held_us(start: datetime, end: datetime) -> int:
    # Python subtracts two moments of one zone by the clock on the wall: an hour too much or too
    # little across a clock change. In UTC there is none.
    return max(0, (end.astimezone(UTC) - start.astimezone(UTC)) // _MICROSECOND)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The resources that are paid for. CPU and memory as requested; None: unknown."""

    gpus: Fraction
    priced_gpus: Fraction
    """The number of GPU prices that it pays."""
    cpu_milli: Exact | None
    memory_mib: Exact | None

    @classmethod
    def by(cls, attempt: Attempt) -> "Held":
        """The resources that an attempt holds."""
        return cls(
            gpus=attempt.gpus,
            priced_gpus=attempt.priced_gpus,
            cpu_milli=attempt.cpu_milli,
            memory_mib=attempt.memory_mib,
        )


def usage_for(held: Held, held_us: int, rates: Rates) -> Usage:
    """The usage and cost of holding this for some time at these rates.

    With GPUs, CPU and memory cost what their rates say, and nothing of their own without rates:
    the price of a GPU then includes the machine around it. Without GPUs they are all that there
    is, and unpriced if a rate or an amount is unknown.
    """
    gpus = held.gpus
    cores, gib = _amount(held.cpu_milli, 1000), _amount(held.memory_mib, 1024)
    price, cpu_rate, gib_rate = (
        rates.gpu_micro_usd_per_hour,
        rates.cpu_micro_usd_per_hour,
        rates.gib_micro_usd_per_hour,
    )
    is_unpriced = not gpus and None in (cores, gib, cpu_rate, gib_rate)
    return Usage(
        gpu_us=_tidy(held_us * gpus),
        cpu_us=_tidy(held_us * (cores or 0)),
        gib_us=_tidy(held_us * (gib or 0)),
        gpu_micro_usd=_cost(held_us * held.priced_gpus, price),
        cpu_micro_usd=_cost(held_us * (cores or 0), cpu_rate),
        gib_micro_usd=_cost(held_us * (gib or 0), gib_rate),
        unpriced_gpu_us=0 if price is not None else _tidy(held_us * gpus),
        unpriced_us=held_us if is_unpriced else 0,
    )


def _amount(thousandths: Exact | None, whole: int) -> Exact | None:
    return None if thousandths is None else Fraction(thousandths, whole)


def _cost(amount_us: Exact, micro_usd_per_hour: int | None) -> Exact:
    return _tidy(Fraction(amount_us * (micro_usd_per_hour or 0), US_PER_HOUR))


def _tidy(amount: Exact) -> Exact:
    # Whole numbers are the rule, and added ten times as fast as fractions.
    return amount.numerator if amount.denominator == 1 else amount


def lost_usage(attempt: Attempt) -> Usage:
    """The lost usage of the attempt: the work after its last checkpoint.

    Nothing, if it completed or still runs. All of it, if it saved nothing.
    """
    if attempt.released_at is None or attempt.end_reason is EndReason.COMPLETED:
        return NO_USAGE
    return usage_until(attempt, attempt.released_at) - _usage_until_checkpoint(attempt)


def saved_usage(attempt: Attempt, all_attempts: Iterable[Attempt]) -> Usage:
    """The part of an attempt that did not complete, but from which a later one resumed.

    Args:
        all_attempts: All attempts of the same run.
    """
    if attempt.released_at is None or attempt.end_reason is EndReason.COMPLETED:
        return NO_USAGE
    is_restored = attempt.checkpoint is not None and any(
        later.number > attempt.number and later.restored_from == attempt.checkpoint
        for later in all_attempts
    )
    return _usage_until_checkpoint(attempt) if is_restored else NO_USAGE


def run_cost(
    run: RunRecord, attempts: Sequence[Attempt], now: datetime, window: Window | None = None
) -> RunCost:
    """The cost of the run, in all or in one window.

    What was lost or saved counts in the window in which the attempt gave its GPUs back, so that
    windows add up here too.

    Args:
        attempts: All attempts of the run, in any order.
        now: Attempts that still hold their GPUs are costed up to here.
        window: None: the run's whole life.
    """
    # One that was postponed held nothing, and the run waited all the same.
    taken = (a for a in attempts if a.has_run)
    in_order = sorted(taken, key=lambda attempt: attempt.number)
    counted = [a for a in in_order if window is None or _overlaps(a, window, now)]
    set_back = [a for a in in_order if _is_set_back(a, window)]
    return RunCost(
        run=run,
        attempts=tuple(counted),
        usage=sum_usage(attempt_usage(a, now, window) for a in in_order),
        setbacks=tuple(
            Setback(attempt=a, lost=lost_usage(a), saved=saved_usage(a, in_order)) for a in set_back
        ),
        wait_s=_wait_s(run, in_order),
        rewaits=max(0, len(in_order) - 1),
    )


def daily_costs(
    usage: Iterable[tuple[RunRecord, Sequence[Attempt]]], window: Window, now: datetime
) -> dict[date, list[RunCost]]:
    """The cost of each run on each UTC day that starts in this window.

    Days without any attempt, and on a day the runs without one, are left out.

    Args:
        usage: Runs with all their attempts.
        now: Attempts that still hold their GPUs are costed up to here.
    """
    days: dict[date, list[RunCost]] = {}
    for run, attempts in usage:
        for day in _days_touched(attempts, window, now):
            cost = run_cost(run, attempts, now, Window.of_day(day))
            if cost.attempts:
                days.setdefault(day, []).append(cost)
    return days


def group_by(
    costs: Iterable[RunCost], key: Callable[[RunRecord], str | None]
) -> Mapping[str | None, GroupCost]:
    """The cost of each group of runs, the most expensive first. The groups add up to the whole.

    Args:
        key: A run's group, such as its team; None is a group of its own.
    """
    groups: dict[str | None, GroupCost] = {}
    for cost in costs:
        name = key(cost.run)
        groups[name] = groups.get(name, GroupCost()).with_run(cost)
    return dict(sorted(groups.items(), key=_dearest_first))


def total(costs: Iterable[RunCost]) -> GroupCost:
    """The cost of all these runs together."""
    together = GroupCost()
    for cost in costs:
        together = together.with_run(cost)
    return together


def format_cost(usage: Usage) -> str:
    """The cost as people read it: the priced part, and in words what has no price."""
    if usage.is_unpriced and not usage.exact_micro_usd and usage.unpriced_gpu_us == usage.gpu_us:
        return "unpriced"
    return f"{format_usd(usage.micro_usd)}{without_price(usage)}"


def without_price(usage: Usage) -> str:
    """The use without a price, in parentheses behind a sum of money; empty: all of it has a
    price."""
    parts = []
    if usage.unpriced_gpu_us:
        parts.append(f"{usage.unpriced_gpu_s / SECONDS_PER_HOUR:.2f} GPU-hours")
    if usage.unpriced_us:
        parts.append(f"{format_duration(float(usage.unpriced_us / US_PER_S))} without GPUs")
    return f" (unpriced: {', '.join(parts)})" if parts else ""


def price_book(attempts: Iterable[Attempt]) -> str:
    """The id of the prices by which this was costed.

    Equal for equal prices, so that costs can be compared.
    """
    prices = sorted(
        {
            f"{a.gpu_type}|{a.capacity_type}|{change.rates.gpu_micro_usd_per_hour}"
            for a in attempts
            for change in a.price_changes
        }
    )
    return hashlib.sha256("\n".join(prices).encode()).hexdigest()[:12]


def _usage_until_checkpoint(attempt: Attempt) -> Usage:
    if attempt.checkpointed_at is None:
        return NO_USAGE
    return usage_until(attempt, attempt.checkpointed_at)


def _days_touched(attempts: Sequence[Attempt], window: Window, now: datetime) -> list[date]:
    if not attempts:
        return []
    start = max(window.start, min(a.admitted_at for a in attempts))
    end = min(window.end, max(a.freed_at or max(now, a.admitted_at) for a in attempts))
    first = start.astimezone(UTC).date()
    count = (end.astimezone(UTC).date() - first).days + 1
    days = [first + timedelta(days=offset) for offset in range(count)]
    return [day for day in days if Window.of_day(day).start in window]


def _is_set_back(attempt: Attempt, window: Window | None) -> bool:
    if attempt.released_at is None or attempt.end_reason is EndReason.COMPLETED:
        return False
    return window is None or attempt.released_at in window


def _overlaps(attempt: Attempt, window: Window, now: datetime) -> bool:
    end = attempt.freed_at or max(now, attempt.admitted_at + _MICROSECOND)
    return attempt.admitted_at < window.end and end > window.start


def _wait_s(run: RunRecord, in_order: Sequence[Attempt]) -> float | None:
    if not in_order:
        return None
    waits = [in_order[0].admitted_at - run.submitted_at]
    waits += [
        later.admitted_at - earlier.released_at
        for earlier, later in pairwise(in_order)
        if earlier.released_at is not None and earlier.end_reason is not EndReason.SUSPENDED
    ]
    # Submission is stamped by Prefect's server, admission by the worker: clocks differ.
    return sum(max(0.0, wait.total_seconds()) for wait in waits)


def _dearest_first(item: tuple[str | None, GroupCost]) -> tuple[Exact, Exact, str]:
    name, group = item
    return (-group.usage.exact_micro_usd, -group.usage.gpu_us, name or "")
