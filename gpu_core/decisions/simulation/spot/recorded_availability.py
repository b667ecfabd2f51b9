"""The times at which spot was available, as far as a ledger's attempts show it.

In one zone, for one GPU type: up from the admission of an attempt on spot until one is interrupted
there while no other holds any, away from then until the next admission. What happened before the
first admission is unknown: it counts as away. That an attempt ended in another way says nothing
about spot.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from gpu_core.decisions.model.attempts import Attempt
from gpu_core.decisions.model.cluster import SPOT
from gpu_core.decisions.simulation.spot.trace import SpotTrace


class Place(NamedTuple):
    """A place whose spot comes and goes together."""

    gpu_type: str
    zone: str | None
    """None: not stated."""

    def __str__(self) -> str:
        """As people write it: `a10g in use1-az4`."""
        return f"{self.gpu_type} in {self.zone or 'an unknown zone'}"


class Span(NamedTuple):
    """A time in which spot was up."""

    since: datetime
    until: datetime


def spot_spans(attempts: Iterable[Attempt], until: datetime) -> dict[Place, tuple[Span, ...]]:
    """The times at which spot was up, in each place that was tried.

    Args:
        attempts: Of all runs, in any order; those that are not on spot are left out.
    """
    by_place: dict[Place, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        if attempt.capacity_type == SPOT and attempt.gpu_type is not None:
            by_place[Place(attempt.gpu_type, attempt.zone)].append(attempt)
    return {
        place: tuple(_spans(of_place, until))
        for place, of_place in sorted(by_place.items(), key=lambda item: str(item[0]))
    }


def sampled(spans: Sequence[Span], since: datetime, ticks: int, tick_s: int) -> tuple[bool, ...]:
    """Was spot up in the middle of each of these ticks?"""
    is_up = [False] * ticks
    for span in spans:
        # A tick whose middle is the very beginning of a span is in it, one at its end is not.
        first = -(-((span.since - since).total_seconds() - tick_s / 2) // tick_s)
        after = -(-((span.until - since).total_seconds() - tick_s / 2) // tick_s)
        for tick in range(max(0, int(first)), min(ticks, int(after))):
            is_up[tick] = True
    return tuple(is_up)


def spot_traces(
    attempts: Iterable[Attempt], until: datetime, tick_s: int = 600
) -> tuple[SpotTrace, ...]:
    """The same as traces that a task can be replayed on, each from its first admission on."""
    return tuple(
        SpotTrace(name=str(place), tick_s=tick_s, nodes_up=_ticks(spans, until, tick_s))
        for place, spans in spot_spans(attempts, until).items()
    )


def _ticks(spans: Sequence[Span], until: datetime, tick_s: int) -> tuple[int, ...]:
    since = spans[0].since
    ticks = int((until - since) / timedelta(seconds=tick_s))
    return tuple(int(is_up) for is_up in sampled(spans, since, ticks, tick_s))


def _spans(attempts: Sequence[Attempt], until: datetime) -> Iterable[Span]:
    """The attempts are of one place, one at least."""
    # At one moment who leaves comes before who is admitted.
    changes = sorted(
        change
        for attempt in attempts
        for change in (
            (attempt.admitted_at, 1, False),
            (
                attempt.released_at or until,
                -1,
                attempt.lost_capacity,
            ),
        )
    )
    holders, up_since = 0, None
    for at, more_holders, is_interrupted in changes:
        holders += more_holders
        if more_holders > 0 and up_since is None:
            up_since = at
        if is_interrupted and holders == 0 and up_since is not None:
            yield Span(up_since, at)
            up_since = None
    if up_since is not None:
        yield Span(up_since, until)
