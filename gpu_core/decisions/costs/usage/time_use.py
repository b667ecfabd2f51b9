"""The uses of an attempt's time: each microsecond that it held has one use.

Waiting on a node, repeating a start and losing work cost as much as progress does.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import pairwise

from gpu_core.decisions.costs.usage.usage import Exact, Usage
from gpu_core.decisions.costs.usage.usage_cost import Held, Window, usage_for
from gpu_core.decisions.model.attempts import Attempt, EndReason
from gpu_core.decisions.model.prices import Rates
from gpu_core.decisions.model.units import epoch_us


class TimeUse(StrEnum):
    """A use of a part of the held time, in the order in which an attempt has them."""

    QUEUED_ON_NODE = "queued_on_node"
    """From admission until its process was created: a pod that waits, an image that is pulled."""
    RESTART = "restart"
    """From the process to the first new step, for attempts after the first: a start repeated."""
    USEFUL = "useful"
    """All other time, with the first start."""
    LOST = "lost"
    """The work after the last checkpoint of an attempt that did not complete."""


USES = tuple(TimeUse)
UsesUs = tuple[int, int, int, int]
"""Microseconds of each `TimeUse`, in its order."""


@dataclass(frozen=True, slots=True, eq=False)
class Tariff:
    """The held amounts and their rates. One object for equal amounts makes sums fast."""

    unit: Usage
    """The use and cost of a microsecond of it."""

    @classmethod
    def of(cls, held: Held, rates: Rates) -> "Tariff":
        """The use and cost of holding this at these rates."""
        return cls(usage_for(held, 1, rates))

    def usage(self, held_us: Exact) -> Usage:
        """The usage and cost in this time."""
        return self.unit.times(held_us)


def uses_of_attempt(
    attempt: Attempt, now: datetime, window: Window
) -> Iterator[tuple[Tariff, UsesUs]]:
    """The uses of the attempt's time in the window, at each of its prices.

    Its usage in the window is the sum of `tariff.usage` over all parts.

    Args:
        now: An attempt that still holds its GPUs counts up to here.
    """
    held, turns = Held.by(attempt), _turns_us(attempt, now)
    last_us = min(turns[-1], epoch_us(window.end), epoch_us(now))
    first_us = max(turns[0], epoch_us(window.start))
    changes = attempt.price_changes
    since_us = [epoch_us(change.since) for change in changes[1:]]
    parts = uses_by_price(turns, first_us, last_us, since_us)
    for change, uses_us in zip(changes, parts, strict=True):
        yield Tariff.of(held, change.rates), uses_us


def uses_by_price(
    turns_us: Sequence[int], first_us: int, last_us: int, since_us: Sequence[int]
) -> Iterator[UsesUs]:
    """The uses of the time from `first_us` to `last_us`, at each price.

    Args:
        turns_us: When its uses begin and when the last one ends, in microseconds since 1970; they
            grow.
        first_us: The first moment that counts.
        last_us: The end of the time that counts.
        since_us: When each price after the first begins; they grow.
    """
    for start, end in spans_of_prices(first_us, last_us, since_us):
        queued, restart, useful, lost = (
            min(max(later, start), end) - min(max(earlier, start), end)
            for earlier, later in pairwise(turns_us)
        )
        yield queued, restart, useful, lost


def spans_of_prices(
    first_us: int, last_us: int, since_us: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """The span in which each price counted. Spans may be empty; they cover the time, each once.

    Args:
        first_us: The first moment that counts.
        last_us: The end of the time that counts.
        since_us: When each price after the first begins; they grow.
    """
    begins, ends = (first_us, *since_us), (*since_us, last_us)
    for since, until in zip(begins, ends, strict=True):
        start = max(first_us, since)
        yield start, max(start, min(last_us, until))


def _turns_us(attempt: Attempt, now: datetime) -> tuple[int, int, int, int, int]:
    """The beginnings of its uses and the end of the last one, in microseconds since 1970; they
    grow."""
    start = epoch_us(attempt.admitted_at)
    end = max(start, epoch_us(attempt.freed_at or now))
    lost = end
    if attempt.released_at is not None and attempt.end_reason is not EndReason.COMPLETED:
        lost = start if attempt.checkpointed_at is None else epoch_us(attempt.checkpointed_at)
    begun = start if attempt.released_at is not None else end
    if attempt.started_at is not None:
        begun = epoch_us(attempt.started_at)
    working = begun
    if attempt.number > 1 and attempt.first_step_at is not None:
        working = max(begun, epoch_us(attempt.first_step_at))
    lost = min(max(lost, start), end)
    return start, min(max(begun, start), lost), min(max(working, start), lost), lost, end
