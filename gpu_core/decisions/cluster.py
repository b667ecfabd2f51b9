"""What there is and who holds it: the frozen input of one planning cycle."""

from dataclasses import dataclass
from datetime import datetime

from gpu_core.decisions.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine with GPUs of one type."""

    name: str
    gpu_type: str
    gpu_ids: tuple[str, ...]
    gpu_memory_gib: int | None = None
    """Nominal memory of each GPU (24 for an A10G); None: unknown."""
    capacity_type: str = "on-demand"
    unhealthy_gpu_ids: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShare:
    """The GPUs that one workload has on one node."""

    node: str
    gpu_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Which GPUs a workload gets. Without shares: it needs none."""

    gpu_type: str | None
    capacity_type: str
    shares: tuple[NodeShare, ...]

    @property
    def gpu_ids(self) -> tuple[str, ...]:
        """All GPUs of the placement, in order."""
        return tuple(gpu_id for share in self.shares for gpu_id in share.gpu_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """A workload that holds GPUs, from its admission until the last process is gone."""

    workload: Workload
    attempt: int
    placement: Placement
    admitted_at: datetime
    checkpointed_at: datetime | None = None
    """When this attempt last made its progress safe; None: not yet."""
    is_draining: bool = False
    """It was told to end; its GPUs are on their way back, but not free yet."""
    drain_deadline_at: datetime | None = None
    """When a draining attempt is killed at the latest."""
    draining_for: str | None = None
    """The workload that its GPUs were taken for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything that one planning cycle looks at. A what-if is another snapshot."""

    nodes: tuple[Node, ...]
    allocations: tuple[Allocation, ...]
    pending: tuple[Workload, ...]
