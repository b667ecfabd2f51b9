"""The unit of admission: what wants GPUs, how many, and how urgently."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Why a workload may not be considered at all for now, in the words of an explanation."""

    reason: str
    """A member of `plan.Reason`."""
    summary: str
    resolution: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One pending or running flow run, as the scheduler sees it. Admitted whole or not at all."""

    workload_id: str
    """The flow run id."""
    name: str
    priority: int
    """Points; more is more urgent (critical 1,000,000, high 10,000, medium 1,000, low 100)."""
    submitted_at: datetime
    """When the run first wanted to start. It keeps its place in line over all its attempts."""
    gpu_count: int = 1
    """GPUs on each node. 0: the run needs no GPU and starts at once."""
    nodes: int = 1
    """How many different nodes, all at once: more than 1 is a gang."""
    gpu_types: tuple[str, ...] = ()
    """Acceptable GPU types, most wanted first; empty: any."""
    gpu_memory_gib: int | None = None
    """Nominal memory that each GPU must have at least; None: any."""
    capacity_type: str | None = None
    """`on-demand`, `spot` or `reserved`; None: any."""
    is_preemptible: bool = True
    min_runtime_s: int = 0
    """How long an attempt is left alone before it may be preempted."""
    expected_duration_s: int | None = None
    """What the owner expects one uninterrupted run to take; None: nobody said."""
    team: str | None = None
    hold: Hold | None = None

    @property
    def total_gpus(self) -> int:
        """GPUs over all nodes."""
        return self.gpu_count * self.nodes
