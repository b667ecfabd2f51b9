"""The time and cost of a GPU that attempts hold twice, where they overlap because clocks differed.

A worker that takes over may have a clock that is behind: the next attempt on a GPU then begins
before the last one has ended, and both pay for the time between. It is one time of one machine.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from fractions import Fraction
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityInterval
from gpu_core.decisions.costs.usage.time_use import spans_of_prices
from gpu_core.decisions.costs.usage.usage import NO_USAGE, Usage, sum_usage
from gpu_core.decisions.costs.usage.usage_cost import Held, Window, usage_for
from gpu_core.decisions.model.attempts import Attempt, held_gpus
from gpu_core.decisions.model.units import epoch_us


class GpuStay(NamedTuple):
    """A part of one GPU that an attempt holds at one price."""

    start_us: int
    end_us: int
    part: Fraction
    """Of the GPU; 1 is all of it."""
    unit: Usage
    """The use and cost of a microsecond of it."""


def twice_on(
    machine: CapacityInterval, attempts: Iterable[Attempt], counted: Window, now: datetime
) -> Usage:
    """The usage that these attempts hold and pay beyond the whole of each of the machine's GPUs.

    Args:
        machine: The machine.
        attempts: Those that may be on it.
        counted: The time of it that counts (`counted_in`).
        now: Attempts that hold their GPUs count up to here.
    """
    by_gpu: dict[str, list[GpuStay]] = defaultdict(list)
    for attempt in attempts:
        if attempt.host == machine.host and attempt.has_run and attempt.is_placed:
            for gpu_id, stay in _stays(attempt, machine.node, counted, now):
                by_gpu[gpu_id].append(stay)
    return sum_usage(held_twice(stays) for stays in by_gpu.values())


def held_twice(stays: Sequence[GpuStay]) -> Usage:
    """The usage that these attempts hold and pay beyond the whole of their GPU.

    While their parts are more than the GPU, each counts for less, all by the same factor.
    """
    begun = ((stay.start_us, 1, stay) for stay in stays if stay.start_us < stay.end_us)
    ended = ((stay.end_us, -1, stay) for stay in stays if stay.start_us < stay.end_us)
    turns = sorted((*begun, *ended), key=itemgetter(0))
    found: list[Usage] = []
    part, unit, since_us = Fraction(0), NO_USAGE, 0
    for at_us, of_moment in groupby(turns, key=itemgetter(0)):
        if part > 1:
            found.append(unit.times((at_us - since_us) * (1 - 1 / part)))
        for _, sign, stay in of_moment:
            part += sign * stay.part
            unit = unit + stay.unit.times(sign)
        since_us = at_us
    return sum_usage(found)


def _stays(
    attempt: Attempt, node: str, counted: Window, now: datetime
) -> Iterator[tuple[str, GpuStay]]:
    """The GPUs of this node that the attempt is on, each at each of its prices."""
    whole, changes = held_gpus(attempt.held), attempt.price_changes
    first_us = epoch_us(max(attempt.admitted_at, counted.start))
    last_us = epoch_us(min(attempt.freed_at or now, now, counted.end))
    since_us = [epoch_us(change.since) for change in changes[1:]]
    spans = list(spans_of_prices(first_us, last_us, since_us))
    if not whole:
        return
    for share in attempt.held:
        if share.node == node:
            of_attempt = share.part_of_gpu / whole
            part = min(Fraction(1), attempt.gpus * of_attempt)
            for change, (start_us, end_us) in zip(changes, spans, strict=True):
                unit = usage_for(Held.by(attempt), 1, change.rates).times(of_attempt)
                stay = GpuStay(start_us, end_us, part, unit)
                yield from ((gpu_id, stay) for gpu_id in share.gpu_ids)
