"""Replicas that answer one queue of requests, while more of them start.

All requests take the same time, so that the next replica that is free is always the one that began
longest ago: a queue of any length is then a few sums over arrays (Lindley, Proc. Cambridge Philos.
Soc. 48, 1952, for each replica).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_core.decisions.model.units import SECONDS_PER_HOUR

Floats = npt.NDArray[np.float64]


class HourLatencies(NamedTuple):
    """Of the requests of an hour, or of a sample of them."""

    latencies_s: Floats
    weights: Floats
    """How many requests each of them stands for."""


def answered_s(arrivals_s: Floats, service_s: float, free_s: Sequence[float]) -> Floats:
    """The moment at which each request is answered, first come, first served.

    Args:
        arrivals_s: In order.
        service_s: What each request takes, over 0.
        free_s: When each replica is free for the first time; one replica at least.
    """
    ends = np.empty(len(arrivals_s))
    replicas = len(free_s)
    for turn, free in enumerate(sorted(free_s)):
        own = arrivals_s[turn::replicas]
        before = service_s * np.arange(len(own))
        starts = np.maximum.accumulate(np.maximum(own, free) - before) + before
        ends[turn::replicas] = starts + service_s
    return ends


def with_starting_replicas(
    arrivals_s: Floats, service_s: float, *, before: int, after: int, startup_s: float
) -> Floats:
    """The moment at which each request is answered while replicas start.

    Args:
        arrivals_s: From the moment at which they begin to start, in order.
        before: Replicas that are free at that moment, 1 or more.
        after: Replicas once the others have started. Fewer: the others are gone at once.
        startup_s: How long that takes.
    """
    if after <= before:
        return answered_s(arrivals_s, service_s, [0.0] * after)
    ends = answered_s(arrivals_s, service_s, [0.0] * before)
    begun = int(np.searchsorted(ends - service_s, startup_s))
    busy_until = [0.0] * before + ends[:begun].tolist()[-before:]
    free_s = [*busy_until[-before:], *([startup_s] * (after - before))]
    rest = answered_s(arrivals_s[begun:], service_s, free_s)
    return np.concatenate([ends[:begun], rest])


def settled_after_s(load: float, *, before: int, after: int, startup_s: float) -> float:
    """The time after which the queue that grows while replicas start is gone again, about.

    Args:
        load: Requests, in what one replica answers; less than `after`.
    """
    if after <= before:
        return 0.0
    grown = max(0.0, load - before) * startup_s
    return startup_s + 2 * grown / (after - load)


def hour_latencies(
    load: float,
    service_s: float,
    *,
    before: int,
    after: int,
    startup_s: float,
    sampled: int,
    seed: Sequence[int],
) -> HourLatencies:
    """How long do requests of an hour take that begins without a queue?

    All of them until the queue of the start is gone, and a sample of those that follow, which
    stands for the rest of the hour.

    Args:
        load: Requests, in what one replica answers; over 0, and less than `after`.
        service_s: What each request takes, over 0.
        before: Replicas of the hour before, 1 or more.
        after: Replicas of this hour, 1 or more.
        startup_s: How long a replica takes to start.
        sampled: Requests of the sample, about; 1 or more.
        seed: Of the arrivals, a Poisson process.
    """
    rate = load / service_s
    settled_s = settled_after_s(load, before=before, after=after, startup_s=startup_s)
    end_s = min(SECONDS_PER_HOUR, settled_s + sampled / rate)
    rng = np.random.default_rng(seed)
    # One more at the end: the hour is not without requests.
    arrivals_s = np.append(np.sort(rng.uniform(0, end_s, rng.poisson(rate * end_s))), end_s)
    ends_s = with_starting_replicas(
        arrivals_s, service_s, before=before, after=after, startup_s=startup_s
    )
    settled_s = min(settled_s, end_s)
    stands_for = (SECONDS_PER_HOUR - settled_s) / (end_s - settled_s) if end_s > settled_s else 1.0
    weights = np.where(arrivals_s < settled_s, 1.0, stands_for)
    return HourLatencies(ends_s - arrivals_s, weights)


def weighted_p99_s(hour: HourLatencies) -> float:
    """The latency that 99 of 100 requests of the hour do not exceed."""
    order = np.argsort(hour.latencies_s)
    weights = np.cumsum(hour.weights[order])
    return float(hour.latencies_s[order[np.searchsorted(weights, 0.99 * weights[-1])]])
