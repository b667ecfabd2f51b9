"""Mutable scheduler state between cycles."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from gpu_core.decisions.model.cluster import Allocation, Flavor
from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.scheduling.queue.ordering import WorkloadOrder
from gpu_core.decisions.scheduling.queue.queue import PendingQueue
from gpu_core.decisions.scheduling.state.allocations import AllocationIndex, Holding, holding_of
from gpu_core.decisions.scheduling.state.quota_usage import Entitlements, Owner, owner_of


@dataclass(slots=True, kw_only=True)
class View:
    """Free resources and quota at one point: now, or after draining."""

    cluster: ClusterInfo
    entitlements: Entitlements

    def allocate(self, holding: Holding) -> None:
        """Counts a holding."""
        self.cluster.observe(holding.shape, holding.allocation.placement)
        self.entitlements.allocate_holding(holding)

    def allocate_all(self, holdings: Iterable[Holding]) -> None:
        """Counts holdings: quota once for each owner and flavor."""
        milli: Counter[tuple[Owner, Flavor | None]] = Counter()
        for holding in holdings:
            self.cluster.observe(holding.shape, holding.allocation.placement)
            milli[owner_of(holding.workload), holding.flavor] += holding.gpu_milli
        for (owner, flavor), held_milli in milli.items():
            self.entitlements.allocate(owner, flavor, held_milli)

    def release(self, holding: Holding) -> None:
        """Stops counting a holding."""
        self.cluster.release(holding.shape, holding.allocation.placement)
        self.entitlements.release_holding(holding)


@dataclass(slots=True, kw_only=True)
class SchedulerState:
    """Pending workloads, allocations and free resources. A cycle undoes its changes."""

    order: WorkloadOrder
    pending: PendingQueue
    holdings: AllocationIndex
    current: View
    """Free resources now."""
    after_draining: View
    """Free resources once the draining workloads have ended."""
    draining: set[str]
    """Ids of draining workloads."""
    gpu_milli_by_group: dict[str, int]
    """Thousandths of GPUs that the runs of each sweep hold."""

    def add_all(self, allocations: Iterable[Allocation]) -> None:
        """Adds allocations of different workloads, of which none has one."""
        holdings = [holding_of(allocation, self.order) for allocation in allocations]
        for holding in holdings:
            self.holdings.add(holding)
            self._count(holding, 1)
            if holding.allocation.is_draining:
                self.draining.add(holding.workload_id)
        self.current.allocate_all(holdings)
        self.after_draining.allocate_all(h for h in holdings if not h.allocation.is_draining)

    def add(self, allocation: Allocation) -> None:
        """Adds or replaces the allocation of a workload."""
        if allocation.workload.workload_id in self.holdings:
            self.remove(allocation.workload.workload_id)
        holding = holding_of(allocation, self.order)
        self.holdings.add(holding)
        self._count(holding, 1)
        self.current.allocate(holding)
        if allocation.is_draining:
            self.draining.add(holding.workload_id)
        else:
            self.after_draining.allocate(holding)

    def remove(self, workload_id: str) -> None:
        """Removes the allocation of a workload."""
        holding = self.holdings.remove(workload_id)
        self._count(holding, -1)
        self.current.release(holding)
        if workload_id in self.draining:
            self.draining.discard(workload_id)
        else:
            self.after_draining.release(holding)

    def shapes(self) -> Counter[Shape]:
        """How many workloads of each shape run, or wait without being held?"""
        counts = Counter(holding.shape for holding in self.holdings)
        for queue in self.pending.queues:
            if not queue.group.is_held:
                counts[queue.group.shape] += len(queue.entries)
        return counts

    def _count(self, holding: Holding, sign: int) -> None:
        group = holding.workload.group
        if group is not None:
            milli = self.gpu_milli_by_group.get(group, 0)
            self.gpu_milli_by_group[group] = milli + sign * holding.gpu_milli
