"""One device that serves interactive requests first, and a backlog while none of them waits.

A simulation of events without a random number: arrivals are given, and each batch takes as long as
one that was measured.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle

import numpy as np

from gpu_core.decisions.optimization.experiments.trial import p99_of

ServiceTimes = Mapping[int, Sequence[float]]
"""How long batches of each size took, in seconds over 0, in the order in which they ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The work of a device until the last interactive request was answered."""

    latencies_s: tuple[float, ...]
    """Of each interactive request, from its arrival to the end of its batch."""
    interactive_busy_s: float
    low_priority: int
    """How many low-priority requests were answered."""
    low_priority_busy_s: float
    makespan_s: float
    """From the start to the last answer."""

    @property
    def p99_s(self) -> float:
        """The latency that 99 of 100 interactive requests do not exceed."""
        return p99_of(self.latencies_s)

    @property
    def low_priority_per_s(self) -> float:
        """Answers to low-priority requests."""
        return self.low_priority / self.makespan_s

    @property
    def busy_part(self) -> float:
        """Of the time, 0 to 1."""
        return min(1.0, (self.interactive_busy_s + self.low_priority_busy_s) / self.makespan_s)


def poisson_arrivals(per_s: float, count: int, seed: int) -> tuple[float, ...]:
    """The arrivals of requests that are independent of each other.

    Args:
        per_s: How many, over 0, in the long run.
        count: How many in all, 1 or more.
        seed: The same seed gives the same arrivals.

    Returns:
        Seconds from the start, in order.
    """
    gaps = np.random.default_rng(seed).exponential(1 / per_s, count)
    return tuple(np.cumsum(gaps).tolist())


def simulate_serving(
    arrivals_s: Sequence[float],
    service_s: ServiceTimes,
    *,
    interactive_batch: int,
    low_priority_batch: int | None,
) -> Served:
    """How long do interactive requests take, and how much of a backlog is answered meanwhile?

    The device takes the interactive requests that wait, the first ones first, in the largest
    measured batch that they fill. While none waits it takes a batch of the backlog, which has no
    end. A batch that has started is not interrupted.

    Args:
        arrivals_s: Of the interactive requests, one at least, in order.
        service_s: Of batches of 1, and of `low_priority_batch`, at least. The times of a size are
            used one after the other, and again from the first one: a slow minute stays one.
        interactive_batch: Interactive requests that are answered together, at most; 1 or more.
        low_priority_batch: How many of the backlog are answered together; None: it waits.
    """
    sizes = sorted(size for size in service_s if size <= interactive_batch)
    own = {size: cycle(service_s[size]) for size in sizes}
    backlog = _backlog(service_s, low_priority_batch)
    latencies: list[float] = []
    interactive_s: list[float] = []
    low_priority_s: list[float] = []
    at_s, total = 0.0, len(arrivals_s)
    while len(latencies) < total:
        first = len(latencies)
        most = min(total, first + interactive_batch)
        waiting = bisect_right(arrivals_s, at_s, first, most) - first
        if waiting:
            size = sizes[bisect_right(sizes, waiting) - 1]
            interactive_s.append(next(own[size]))
            at_s += interactive_s[-1]
            latencies += [at_s - arrival for arrival in arrivals_s[first : first + size]]
        elif backlog is not None:
            low_priority_s.append(next(backlog))
            at_s += low_priority_s[-1]
        else:
            at_s = arrivals_s[first]
    return Served(
        latencies_s=tuple(latencies),
        interactive_busy_s=math.fsum(interactive_s),
        low_priority=len(low_priority_s) * (low_priority_batch or 0),
        low_priority_busy_s=math.fsum(low_priority_s),
        makespan_s=at_s,
    )


def _backlog(service_s: ServiceTimes, batch_size: int | None) -> Iterator[float] | None:
    return None if batch_size is None else cycle(service_s[batch_size])
