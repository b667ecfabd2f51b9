"""The actions that would bring a cost back to normal, with the cost that remains."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from heapq import heapify, heapreplace

from gpu_core.decisions.costs.anomalies.decomposition.decomposition import (
    Contribution,
    Decomposition,
)
from gpu_core.decisions.costs.anomalies.decomposition.drivers import Driver, Number
from gpu_core.decisions.costs.anomalies.decomposition.parts import Part
from gpu_core.decisions.costs.usage.usage import US_PER_HOUR, round_half_up
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.model.units import epoch_us, format_usd

_ENOUGH = Fraction(1, 2)
"""A limit is proposed where it takes away half of the cause or more."""
_FEW = Fraction(1, 3)
"""The part of the runs up to which a long run counts as a mistake of that run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A proposal for a person; nothing is changed by itself."""

    text: str
    """One sentence with the effect."""
    micro_usd_per_day: int
    """The cost of the day with it."""


def propose(
    found: Decomposition,
    now: Sequence[Part],
    before: Sequence[Part],
    earlier: Sequence[Part] | None = None,
) -> Action | None:
    """The action that would bring the cost back.

    None: it was not too high, or no setting changes its cause.

    Args:
        found: Why the day cost more than expected.
        now: What the day's cost is made of.
        before: The same of the days that it is compared with.
        earlier: The same of all known days before it: a limit stops none of their runs. None: of
            those that it is compared with.
    """
    if found.excess_micro_usd <= 0 or not found.contributions:
        return None
    first = found.contributions[0]
    if first.driver is Driver.RUNS:
        return _limit_runs(found, first, now)
    if first.driver is Driver.RUN_TIME:
        stopped = _limit_duration(found, first, now, before if earlier is None else earlier)
        if stopped is not None:
            return stopped
    said = _said(first)
    if said is None:
        return None
    return _action(said, found.cost_micro_usd - first.micro_usd)


def _action(said: str, micro_usd: int) -> Action:
    left = max(0, micro_usd)
    return Action(
        text=f"{said} to reduce the daily cost to {format_usd(left)}.",
        micro_usd_per_day=left,
    )


def _said(cause: Contribution) -> str | None:
    name, before = cause.subject, cause.before
    many = " and others" if len(cause.sources) > 1 else ""
    of = f"{cause.sources[0]}{many}" if cause.sources else ""
    match cause.driver:
        case Driver.NEW:
            return f"Pause {name} or set a budget for it"
        case Driver.RUN_TIME:
            return f"Investigate why the run duration of {name} has increased"
        case Driver.GPU_COUNT:
            return f"Set gpu_count of {name} back to {_number(before)}"
        case Driver.IDLE:
            return f"Stop the idle runs of {name}"
        case Driver.RETRIES:
            return f"Investigate the failures of {name} or reduce the number of retries"
        case Driver.FAULTS:
            return f"Investigate the failures of {name}"
        case Driver.INTERRUPTIONS:
            return f"Reduce the checkpoint interval of {name} or use on-demand capacity"
        case Driver.NODE_WAIT:
            return f"Pre-pull the container images of {name}"
        case Driver.PRICE:
            return f"Move {of} to offerings with the previous price"
        case Driver.GPU_TYPE:
            return f"Set gpu_type of {name} back to {before}"
        case Driver.CAPACITY_TYPE:
            return f"Move {of} back to {before}"
        case Driver.ZONE:
            return f"Move {of} back to {before}"
        case Driver.CPU_AND_MEMORY:
            return f"Reset the CPU and memory requests of {name} to their previous values"
    return None


def _limit_runs(found: Decomposition, cause: Contribution, now: Sequence[Part]) -> Action:
    """A limit that keeps the day near what was expected, else a budget."""
    parts = [part for part in now if part.source == cause.subject]
    of_source = sum(part.micro_usd for part in parts)
    others = found.cost_micro_usd - round_half_up(of_source)
    wanted = of_source - cause.micro_usd
    most = of_source - _ENOUGH * cause.micro_usd
    limited = [(limit, _limited_cost(parts, limit)) for limit in range(_peak(parts) - 1, 0, -1)]
    fits = [pair for pair in limited if pair[1] <= most]
    if not fits:
        said = f"Set a budget for {cause.subject} of {format_usd(round_half_up(wanted))} a day"
        return _action(said, found.cost_micro_usd - cause.micro_usd)
    limit, cost = min(fits, key=lambda pair: (pair[1] > wanted, -pair[0]))
    said = f"Set a concurrency limit of {limit} for {cause.subject}"
    return _action(said, others + round_half_up(cost))


def _limit_duration(
    found: Decomposition, cause: Contribution, now: Sequence[Part], earlier: Sequence[Part]
) -> Action | None:
    """A limit that none of the days before needed. None: it would stop more than few runs."""
    usual = _stays([part for part in earlier if part.source == cause.subject])
    stays = _stays([part for part in now if part.source == cause.subject])
    hours = max((-(-stay.length_us // US_PER_HOUR) for stay in usual), default=0)
    beyond = [(stay, stay.beyond_us(hours * US_PER_HOUR)) for stay in stays]
    longer = [(stay, beyond_us) for stay, beyond_us in beyond if beyond_us]
    saved = sum(
        (stay.micro_usd * Fraction(beyond_us, stay.held_us) for stay, beyond_us in longer),
        Fraction(0),
    )
    if len(longer) > _FEW * len(stays) or saved < _ENOUGH * cause.micro_usd:
        return None
    said = f"Set max_duration of {cause.subject} to {hours}h (longer than all previous runs)"
    return _action(said, found.cost_micro_usd - round_half_up(saved))


@dataclass(frozen=True, slots=True)
class _Stay:
    """The part of an attempt in a day. A limit of its duration counts from its admission."""

    admitted_us: int
    until_us: int
    """The end of its time in the day."""
    freed_us: int | None
    """Its own end, which may be on a later day; None: it holds its GPUs."""
    held_us: int
    """Its time in the day."""
    micro_usd: Number

    @property
    def length_us(self) -> int:
        """The time that the attempt took, as far as is known."""
        return max(self.until_us, self.freed_us or 0) - self.admitted_us

    def beyond_us(self, limit_us: int) -> int:
        """The part of its time in the day that is beyond this limit."""
        return max(0, min(self.held_us, self.until_us - self.admitted_us - limit_us))


def _stays(parts: Sequence[Part]) -> list[_Stay]:
    by_attempt: dict[tuple[date, str], list[Part]] = {}
    for part in parts:
        by_attempt.setdefault((part.day, part.attempt.attempt_id), []).append(part)
    return [_stay(of_attempt) for of_attempt in by_attempt.values()]


def _stay(parts: Sequence[Part]) -> _Stay:
    attempt, day = parts[0].attempt, epoch_us(Window.of_day(parts[0].day).start)
    admitted_us, held_us = epoch_us(attempt.admitted_at), round(sum(part.held_us for part in parts))
    return _Stay(
        admitted_us=admitted_us,
        until_us=max(admitted_us, day) + held_us,
        freed_us=None if attempt.freed_at is None else epoch_us(attempt.freed_at),
        held_us=held_us,
        micro_usd=sum(part.micro_usd for part in parts),
    )


def _runs(parts: Sequence[Part]) -> list[tuple[int, int, Number]]:
    """The start of each attempt and the time it held, in microseconds of the day; and its cost."""
    found: dict[tuple[date, str], tuple[int, Number, Number]] = {}
    for part in parts:
        day = epoch_us(Window.of_day(part.day).start)
        start = max(0, epoch_us(part.attempt.admitted_at) - day)
        key = (part.day, part.attempt.attempt_id)
        _, held, cost = found.get(key, (start, 0, 0))
        found[key] = (start, held + part.held_us, cost + part.micro_usd)
    return sorted((start, round(held), cost) for start, held, cost in found.values())


def _peak(parts: Sequence[Part]) -> int:
    """How many of them ran at the same time at most?"""
    runs = _runs(parts)
    moments = sorted(
        [(start, 1) for start, _, _ in runs] + [(start + held, -1) for start, held, _ in runs]
    )
    running = most = 0
    for _, step in moments:
        running += step
        most = max(most, running)
    return most


def _limited_cost(parts: Sequence[Part], limit: int) -> Number:
    """The cost of this day if no more than `limit` of its runs had run at the same time.

    What does not start or end on this day is work of the next one.
    """
    window = Window.of_day(parts[0].day)
    end = epoch_us(window.end) - epoch_us(window.start)
    free = [0] * limit
    heapify(free)
    total: Number = 0
    for start, held, cost in _runs(parts):
        begins = max(start, free[0])
        heapreplace(free, begins + held)
        if held and begins < end:
            total += cost * Fraction(min(held, end - begins), held)
    return total


def _number(value: object) -> str:
    return f"{float(value):.3g}" if isinstance(value, int | Fraction) else str(value)
