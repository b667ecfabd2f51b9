"""What is so between two cycles."""

from collections import Counter
from dataclasses import dataclass

from gpu_core.decisions.model.cluster import Allocation
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI, Shape
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.scheduling.allocations import AllocationIndex, Holding, holding_of
from gpu_core.decisions.scheduling.ordering import WorkloadOrder
from gpu_core.decisions.scheduling.queue import PendingQueue
from gpu_core.decisions.scheduling.quota_usage import Entitlements, owner_of


@dataclass(slots=True, kw_only=True)
class View:
    """Nodes and quotas as they are for somebody: what is left of them."""

    cluster: ClusterInfo
    entitlements: Entitlements

    def allocate(self, holding: Holding) -> None:
        """The holder has what it holds."""
        self.cluster.observe(holding.shape, holding.allocation.placement)
        owner = owner_of(holding.workload)
        self.entitlements.allocate(owner, holding.flavor, holding.gpu_milli)

    def release(self, holding: Holding) -> None:
        """The holder has given it back."""
        self.cluster.release(holding.shape, holding.allocation.placement)
        owner = owner_of(holding.workload)
        self.entitlements.release(owner, holding.flavor, holding.gpu_milli)


@dataclass(slots=True, kw_only=True)
class SchedulerState:
    """Who waits, who holds what, and what is left. A cycle puts back whatever it changes here."""

    order: WorkloadOrder
    pending: PendingQueue
    holdings: AllocationIndex
    current: View
    """What is left at this moment."""
    after_draining: View
    """What is left when those have ended who were told to."""
    draining: set[str]
    """Who was told to end."""
    gpus_by_group: dict[str, float]
    """What the runs of each sweep hold."""

    def add(self, allocation: Allocation) -> None:
        """A workload holds GPUs, or holds them in another way than before."""
        if allocation.workload.workload_id in self.holdings:
            self.remove(allocation.workload.workload_id)
        holding = holding_of(allocation)
        self.holdings.add(holding)
        self._count(holding, 1)
        self.current.allocate(holding)
        if allocation.is_draining:
            self.draining.add(holding.workload_id)
        else:
            self.after_draining.allocate(holding)

    def remove(self, workload_id: str) -> None:
        """A workload holds nothing any more."""
        holding = self.holdings.remove(workload_id)
        self._count(holding, -1)
        self.current.release(holding)
        if workload_id in self.draining:
            self.draining.discard(workload_id)
        else:
            self.after_draining.release(holding)

    def shapes(self) -> Counter[Shape]:
        """How many of each shape wait, unless they are held back, or run?"""
        counts = Counter(holding.shape for holding in self.holdings)
        for queue in self.pending.queues:
            if not queue.group.is_held:
                counts[queue.group.shape] += len(queue.entries)
        return counts

    def _count(self, holding: Holding, sign: int) -> None:
        group = holding.workload.group
        if group is not None:
            gpus = sign * holding.gpu_milli / WHOLE_GPU_MILLI
            self.gpus_by_group[group] = self.gpus_by_group.get(group, 0.0) + gpus
