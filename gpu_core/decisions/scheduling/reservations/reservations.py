"""Reservations of future capacity, which backfill must not delay.

A reservation counts whole GPUs, CPU and memory of a node, not particular GPUs: those are chosen at
the start. A shared GPU counts as free at the expected end of its last workload. For runs on whole
GPUs that is exact; runs on parts of GPUs may start earlier than reserved, never later.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import merge
from typing import NamedTuple

from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.scheduling.state.allocations import Release


class Amount(NamedTuple):
    """An amount of resources of one node, in whole GPUs."""

    gpus: int
    cpu_milli: float = 0
    memory_mib: float = 0

    def covers(self, other: "Amount") -> bool:
        """Is the other amount no more than this, in each resource?"""
        return (
            self.gpus >= other.gpus
            and self.cpu_milli >= other.cpu_milli
            and self.memory_mib >= other.memory_mib
        )

    def plus(self, by: "Amount", sign: int) -> "Amount":
        """The sum, or with a sign of -1 the difference, which may be negative."""
        return Amount(
            self.gpus + sign * by.gpus,
            self.cpu_milli + sign * by.cpu_milli,
            self.memory_mib + sign * by.memory_mib,
        )


def amount_of(shape: Shape) -> Amount:
    """The resources that the shape needs on each of its nodes, in whole GPUs."""
    return Amount(shape.gpu_count, shape.cpu_milli, shape.memory_mib)


class _Request(NamedTuple):
    """Resources of a node that a team needs for a time."""

    wanted: Amount
    team: str | None
    duration_s: float
    open_for_s: float
    """How long the calendar must leave the node open; finite also for unknown run times."""


class _Change(NamedTuple):
    """An amount that is released or claimed at a time. Releases sort first."""

    at_s: float
    is_claim: bool
    amount: Amount


class _Limit(NamedTuple):
    """From this time on, a workload that starts now may use no more than this."""

    from_s: float
    spare: Amount


class _Closed(NamedTuple):
    """Between these times only one team may use the node; None: no team."""

    from_s: float
    until_s: float
    team: str | None


@dataclass(slots=True)
class _NodePlan:
    """The decisions of this cycle for one node."""

    changes: list[_Change] = field(default_factory=list)
    """Ends of the workloads it starts, and claims and releases of reservations."""
    limits: list[_Limit] = field(default_factory=list)
    """One for each reservation, at its start."""


class Reservations:
    """The reservations of one cycle.

    Args:
        free: The part of a node that is free after draining, and not assigned.
        releases: The expected releases of the node, in order of time.
    """

    def __init__(
        self, free: Callable[[str], Amount], releases: Callable[[str], Sequence[Release]]
    ) -> None:
        self._free = free
        self._releases = releases
        self._plans: dict[str, _NodePlan] = {}
        self._reserved: set[str] = set()
        self._closed: dict[str, list[_Closed]] = {}

    def __bool__(self) -> bool:
        """Is anything reserved or closed?"""
        return bool(self._reserved or self._closed)

    @property
    def has_closures(self) -> bool:
        """Does the calendar close any node?"""
        return bool(self._closed)

    def close(self, node: str, from_s: float, until_s: float, team: str | None) -> None:
        """Closes the node between these times for all teams but this one; None: for all."""
        closed = self._closed.setdefault(node, [])
        closed.append(_Closed(from_s, until_s, team))
        closed.sort(key=lambda c: c[:2])

    def is_open(self, node: str, team: str | None, from_s: float, until_s: float) -> bool:
        """Does the calendar leave the node open to the team all that time?"""
        return self._closed_during(node, team, from_s, until_s) is None

    def allows(self, node: str, wanted: Amount, until_s: float) -> bool:
        """May this much be used until then without delay to a reservation?"""
        if node not in self._reserved:
            return True
        return all(
            until_s <= limit.from_s or limit.spare.covers(wanted)
            for limit in self._plans[node].limits
        )

    def start(self, node: str, amount: Amount, until_s: float, *, is_whole: bool = True) -> None:
        """Counts a workload that starts now and uses this much until then.

        Args:
            node: One of its nodes.
            amount: What it uses there; of a shared GPU all of it.
            until_s: When it ends; infinity where unknown.
            is_whole: It has its GPUs to itself. Else `releases` has them, as others may use them.
        """
        plans = self._plans.setdefault(node, _NodePlan())
        if until_s < math.inf:
            released = amount if is_whole else amount._replace(gpus=0)
            plans.changes.append(_Change(until_s, False, released))
        plans.limits = [
            _Limit(p.from_s, p.spare.plus(amount, -1)) if until_s > p.from_s else p
            for p in plans.limits
        ]

    def earliest(
        self,
        shape: Shape,
        team: str | None,
        groups: Iterable[Sequence[str]],
        now_s: float,
        duration_s: float,
        open_for_s: float,
    ) -> tuple[float, tuple[str, ...]] | None:
        """The earliest moment at which the shape could start, with the nodes; None: unknown.

        Args:
            shape: What is to start.
            team: The team of the workload.
            groups: The nodes of each group that a gang may choose among.
            now_s: Not before this.
            duration_s: Its run time; infinity where unknown.
            open_for_s: How long the calendar must leave its nodes open.
        """
        request = _Request(amount_of(shape), team, duration_s, open_for_s)
        found = (self._earliest_in(nodes, shape.nodes, request, now_s) for nodes in groups)
        return min((f for f in found if f is not None), default=None)

    def reserve(
        self, nodes: Iterable[str], amount: Amount, from_s: float, duration_s: float
    ) -> None:
        """Reserves this much of each of these nodes from then on."""
        for node in nodes:
            plans = self._plans.setdefault(node, _NodePlan())
            plans.changes.append(_Change(from_s, True, amount))
            if duration_s < math.inf:
                plans.changes.append(_Change(from_s + duration_s, False, amount))
            plans.limits = self._limits(node)
            self._reserved.add(node)

    def _earliest_in(
        self, nodes: Sequence[str], count: int, request: _Request, now_s: float
    ) -> tuple[float, tuple[str, ...]] | None:
        moment_s = now_s
        # Each round advances to the time at which enough nodes are ready one by one. By then a
        # reservation may claim one of them again, hence the rounds; each passes a change.
        while True:
            ready = sorted(
                (start_s, node)
                for node in nodes
                if (start_s := self._open_s(node, request, moment_s)) is not None
            )
            if len(ready) < count:
                return None
            latest_s = ready[count - 1][0]
            if latest_s == moment_s or count == 1:
                return latest_s, tuple(node for _, node in ready[:count])
            moment_s = latest_s

    def _open_s(self, node: str, request: _Request, from_s: float) -> float | None:
        """The moment from `from_s` on at which the node is ready, and open for the whole time."""
        while True:
            start_s = self._ready_s(node, request, from_s)
            if start_s is None:
                return None
            closed = self._closed_during(node, request.team, start_s, start_s + request.open_for_s)
            if closed is None:
                return start_s
            from_s = closed.until_s

    def _closed_during(
        self, node: str, team: str | None, from_s: float, until_s: float
    ) -> _Closed | None:
        for closed in self._closed.get(node, ()):
            is_ours = closed.team is not None and closed.team == team
            if not is_ours and closed.from_s < until_s and from_s < closed.until_s:
                return closed
        return None

    def _ready_s(self, node: str, request: _Request, from_s: float) -> float | None:
        """The moment from `from_s` on at which the node has the resources for the whole time."""
        if node in self._reserved:
            return self._ready_between_reservations_s(node, request, from_s)
        wanted, free = request.wanted, self._free(node)
        if free.covers(wanted):
            return from_s
        # Without a reservation free resources only grow: the first time is the answer.
        gpus, cpu_milli, memory_mib = free
        for release in self._coming_back(node):
            gpus += release.gpus
            cpu_milli += release.cpu_milli
            memory_mib += release.memory_mib
            if (
                gpus >= wanted.gpus
                and cpu_milli >= wanted.cpu_milli
                and memory_mib >= wanted.memory_mib
            ):
                return max(from_s, release.at_s)
        return None

    def _ready_between_reservations_s(
        self, node: str, request: _Request, from_s: float
    ) -> float | None:
        wanted, free = request.wanted, self._free(node)
        start_s: float | None = None
        is_past = True
        for at_s, is_claim, amount in self._timeline(node):
            if is_past and at_s > from_s:
                is_past = False
                start_s = from_s if free.covers(wanted) else None
            if start_s is not None and at_s >= start_s + request.duration_s:
                return start_s
            free = free.plus(amount, -1 if is_claim else 1)
            if is_past:
                continue
            if not free.covers(wanted):
                start_s = None
            elif start_s is None:
                start_s = at_s
        if is_past and free.covers(wanted):
            return from_s
        return start_s

    def _limits(self, node: str) -> list[_Limit]:
        """How much is left at the start of each reservation?"""
        gpus, cpu_milli, memory_mib = self._free(node)
        releases, passed = self._releases(node), 0
        limits = []
        for at_s, is_claim, amount in sorted(self._plans[node].changes):
            while passed < len(releases) and releases[passed].at_s <= at_s:
                _, _, more_gpus, more_cpu_milli, more_memory_mib = releases[passed]
                gpus += more_gpus
                cpu_milli += more_cpu_milli
                memory_mib += more_memory_mib
                passed += 1
            free = Amount(gpus, cpu_milli, memory_mib).plus(amount, -1 if is_claim else 1)
            gpus, cpu_milli, memory_mib = free
            if is_claim:
                limits.append(_Limit(at_s, free))
        return limits

    def _coming_back(self, node: str) -> Iterable[Release]:
        plans = self._plans.get(node)
        if plans is None or not plans.changes:
            return self._releases(node)
        started = sorted(
            Release(at_s, "", *amount) for at_s, is_claim, amount in plans.changes if not is_claim
        )
        return merge(self._releases(node), started)

    def _timeline(self, node: str) -> list[_Change]:
        coming = [_Change(r.at_s, False, Amount(*r[2:])) for r in self._releases(node)]
        return sorted(coming + self._plans[node].changes)
