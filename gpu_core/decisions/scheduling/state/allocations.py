"""Allocations, indexed by workload and by node."""

import math
from bisect import bisect_left, insort
from collections.abc import Container, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from gpu_core.decisions.model.cluster import Allocation, Flavor
from gpu_core.decisions.model.units import epoch_s
from gpu_core.decisions.model.workload import RunTime, RunTimeSource, Shape, Workload, planned_s
from gpu_core.decisions.scheduling.forecasting.run_times import expected_end_s
from gpu_core.decisions.scheduling.queue.ordering import WorkloadOrder


class Account(NamedTuple):
    """The quota that a workload counts against: its team's, for one flavor."""

    team: str | None
    flavor: Flavor | None
    """The flavor of its GPUs. None: the workload holds no GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """An allocation with the values that every cycle reads."""

    workload_id: str
    """The workload that holds the GPUs."""
    allocation: Allocation
    shape: Shape
    points: float
    """Its points when it was admitted, with those that it had gained by waiting."""
    was_starving: bool
    """A long wait put it before runs of higher priority."""
    account: Account
    gpu_milli: int
    """Thousandths of GPUs that the workload holds."""
    submitted_s: float
    admitted_s: float
    protected_until_s: float
    """The workload is not preempted before: it starts, or has its minimum run time."""
    ends_s: float | None
    """The expected end, estimated at admission; None: unknown."""

    @property
    def was_put_first(self) -> bool:
        """A person, or a long wait, put it before runs of higher priority."""
        return self.was_starving or self.workload.priority_override > 0

    @property
    def flavor(self) -> Flavor | None:
        """The flavor of its GPUs; None: it holds none."""
        return self.account.flavor

    @property
    def workload(self) -> Workload:
        """The workload that holds the GPUs."""
        return self.allocation.workload

    def expected_end_s(self, now_s: float) -> float | None:
        """The moment at which the workload is expected to end; None: unknown.

        A run that outlives its estimate gets a new one.
        """
        if self.allocation.is_draining and self.allocation.drain_deadline_at is not None:
            return max(now_s, epoch_s(self.allocation.drain_deadline_at))
        if self.ends_s is None or self.ends_s > now_s:
            return self.ends_s
        rest_s = expected_end_s(self._run_time(), now_s - self.admitted_s)
        return None if rest_s is None else now_s + rest_s

    def _run_time(self) -> RunTime | None:
        workload, duration_s = self.workload, planned_s(self.workload)
        if workload.run_time is not None and workload.remaining_s is None:
            return workload.run_time
        if duration_s is None:
            return None
        return RunTime(median_s=duration_s, upper_s=duration_s, source=RunTimeSource.STATED)


def holding_of(allocation: Allocation, order: WorkloadOrder) -> Holding:
    """The values that follow from the allocation, and from the order that it was admitted in."""
    workload = allocation.workload
    submitted_s = epoch_s(workload.submitted_at)
    admitted_s = epoch_s(allocation.admitted_at)
    duration_s = planned_s(workload)
    return Holding(
        workload_id=workload.workload_id,
        allocation=allocation,
        shape=workload.shape,
        points=order.points(workload, submitted_s, admitted_s),
        was_starving=order.starves(workload, submitted_s, admitted_s),
        account=Account(workload.team, allocation.placement.flavor),
        gpu_milli=sum(len(s.gpu_ids) * s.share_milli for s in allocation.placement.shares),
        submitted_s=submitted_s,
        admitted_s=admitted_s,
        protected_until_s=epoch_s(allocation.protected_until),
        ends_s=None if duration_s is None else admitted_s + duration_s,
    )


class Release(NamedTuple):
    """Resources of one node that a workload is expected to release, and when."""

    at_s: float
    holder_id: str
    gpus: int
    cpu_milli: float
    memory_mib: float


class SharedUse(NamedTuple):
    """A shared GPU that a workload uses until an expected time."""

    gpu_id: str
    until_s: float
    """Infinity where it is unknown."""
    holder_id: str


class AllocationIndex:
    """All allocations."""

    def __init__(self) -> None:
        self._by_id: dict[str, Holding] = {}
        self._by_node: dict[str, dict[str, Holding]] = {}
        # Of workloads on whole GPUs with an expected end, in order of the end.
        self._releases: dict[str, list[Release]] = {}
        self._sharers: dict[str, set[str]] = {}

    def __contains__(self, workload_id: str) -> bool:
        return workload_id in self._by_id

    def __iter__(self) -> Iterator[Holding]:
        """All holdings, by workload id."""
        return (self._by_id[workload_id] for workload_id in sorted(self._by_id))

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def ids(self) -> Set[str]:
        """The ids of the workloads."""
        return self._by_id.keys()

    def get(self, workload_id: str) -> Holding | None:
        """Returns the holding of the workload; None: it has none."""
        return self._by_id.get(workload_id)

    def on(self, node: str) -> Iterable[Holding]:
        """The holdings on this node, in no order."""
        return self._by_node.get(node, {}).values()

    def add(self, holding: Holding) -> None:
        """Adds a holding."""
        self._by_id[holding.workload_id] = holding
        for share in holding.allocation.placement.shares:
            self._by_node.setdefault(share.node, {})[holding.workload_id] = holding
            if not holding.shape.is_whole:
                self._sharers.setdefault(share.node, set()).add(holding.workload_id)
        for node, release in _releases_of(holding):
            insort(self._releases.setdefault(node, []), release)

    def remove(self, workload_id: str) -> Holding:
        """Removes and returns the holding of the workload."""
        holding = self._by_id.pop(workload_id)
        for share in holding.allocation.placement.shares:
            del self._by_node[share.node][workload_id]
            if not holding.shape.is_whole:
                self._sharers[share.node].discard(workload_id)
        for node, release in _releases_of(holding):
            releases = self._releases[node]
            del releases[bisect_left(releases, release)]
        return holding

    def releases(
        self,
        node: str,
        now_s: float,
        draining: Container[str],
        started: Sequence[SharedUse] = (),
    ) -> Sequence[Release]:
        """The releases that are expected on the node, in order of time.

        A shared GPU is released by the last workload that shares it. Draining workloads are left
        out.

        Args:
            node: The node.
            now_s: The cycle's moment.
            draining: Ids of draining workloads.
            started: Shared GPUs of workloads that the plan starts on the node.
        """
        known: Sequence[Release] = self._releases.get(node, ())
        sharers = self._sharers.get(node)
        is_as_planned = not known or known[0].at_s > now_s
        if is_as_planned and not draining and not sharers and not started:
            return known
        again = []
        for release in known:
            if release.holder_id in draining:
                continue
            if release.at_s <= now_s:
                end_s = self._by_id[release.holder_id].expected_end_s(now_s) or now_s
                release = release._replace(at_s=end_s)
            again.append(release)
        staying = [self._by_id[i] for i in sorted(sharers or ()) if i not in draining]
        again += _shared_releases(staying, node, now_s, started)
        return sorted(again)


def _releases_of(holding: Holding) -> Iterator[tuple[str, Release]]:
    if holding.ends_s is None or holding.allocation.is_draining or not holding.shape.is_whole:
        return
    shape = holding.shape
    for share in holding.allocation.placement.shares:
        yield (
            share.node,
            Release(
                holding.ends_s,
                holding.workload_id,
                len(share.gpu_ids),
                shape.cpu_milli,
                shape.memory_mib,
            ),
        )


def _shared_releases(
    sharers: Iterable[Holding], node: str, now_s: float, started: Iterable[SharedUse]
) -> list[Release]:
    """Releases of shared GPUs: each is free when the last workload on it ends."""
    last: dict[str, tuple[float, str]] = {}
    releases = []
    for holding in sharers:
        end_s = holding.expected_end_s(now_s)
        ends = (math.inf if end_s is None else end_s, holding.workload_id)
        for share in holding.allocation.placement.shares:
            if share.node == node:
                for gpu in share.gpu_ids:
                    last[gpu] = max(last.get(gpu, ends), ends)
        if end_s is not None:
            shape = holding.shape
            releases.append(
                Release(end_s, holding.workload_id, 0, shape.cpu_milli, shape.memory_mib)
            )
    for gpu, end_s, holder_id in started:
        last[gpu] = max(last.get(gpu, (end_s, holder_id)), (end_s, holder_id))
    releases += [Release(end_s, who, 1, 0, 0) for end_s, who in last.values() if end_s < math.inf]
    return releases
