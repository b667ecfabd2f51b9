"""The trace to replay: jobs, the nodes they run on, and what becomes of the nodes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gpu_core.decisions.model.cluster import Node
from gpu_core.decisions.model.errors import InvalidInput, one_line
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI, Shape

MOST_S = 10**9
"""Seconds of one moment or one job: 31 years. More are typing errors, or other units."""

_LEAST_INTERVAL_S = 0.001
_MOST_COUNT = 1_000_000
_MOST_AMOUNT = 10**15
_MOST_POINTS = 10**9
_LONGEST_ID = 100

_WITHDRAWN = "interruption-notice"
"""The taint of a node that its provider has given notice for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    """One job of a history. Moments are seconds since the trace started."""

    job_id: str
    submit_s: float
    duration_s: float
    """The time that it takes without interruption; only the simulation knows it."""
    gpu_count: int = 1
    """GPUs on each node."""
    nodes: int = 1
    gpu_share_milli: int = WHOLE_GPU_MILLI
    gpu_types: tuple[str, ...] = ()
    """Acceptable GPU types, most wanted first; empty: any."""
    capacity_type: str | None = None
    """`on-demand`, `spot` or `reserved`; None: any."""
    cpu_milli: int = 0
    memory_mib: int = 0
    team: str | None = None
    user: str | None = None
    deployment: str | None = None
    priority: int = 0
    stated_s: float | None = None
    """The time that its owner states; None: not stated."""
    deadline_s: float | None = None
    """By when it should be done; None: no deadline."""
    is_preemptible: bool = True
    checkpoint_interval_s: float | None = None
    """Progress between two checkpoints; None: all progress is safe at any moment."""
    has_resumed: bool = True
    """Runs of its deployment have shown that they resume from their checkpoints."""
    restart_s: float | None = None
    """The time that each attempt after the first loses before it works again; None: as the replay
    says."""
    checkpoint_stall_s: float = 0.0
    """How long the job stands still for each checkpoint."""

    @property
    def total_gpus(self) -> float:
        """GPUs over all nodes; half a GPU counts as 0.5."""
        return self.gpu_count * self.nodes * self.gpu_share_milli / WHOLE_GPU_MILLI

    @property
    def shape(self) -> Shape:
        """The shape that it requests of nodes."""
        return Shape(
            gpu_count=self.gpu_count,
            nodes=self.nodes,
            gpu_types=self.gpu_types,
            capacity_type=self.capacity_type,
            gpu_share_milli=self.gpu_share_milli,
            cpu_milli=self.cpu_milli,
            memory_mib=self.memory_mib,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEvent:
    """A node comes, changes or goes: a failure, a spot interruption, a capacity window."""

    at_s: float
    name: str
    node: Node | None
    """The node from now on; None: it is gone, and what ran on it is interrupted."""
    notice_s: float = 0.0
    """How long before it was gone its jobs got notice."""


def interruption(node: Node, at_s: float, notice_s: float) -> tuple[NodeEvent, ...]:
    """The events of a node that its provider takes back.

    From the notice on nothing starts there any more; then it is gone.

    Args:
        notice_s: How long before that its jobs get notice; 0: none.
    """
    gone = NodeEvent(at_s=at_s, name=node.name, node=None, notice_s=notice_s)
    if not notice_s:
        return (gone,)
    withdrawn = replace(node, taints=node.taints | {_WITHDRAWN})
    return (NodeEvent(at_s=at_s - notice_s, name=node.name, node=withdrawn), gone)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A history that can be replayed.

    Raises:
        InvalidInput: A job's id is there twice, or one of its numbers means nothing.
    """

    jobs: tuple[TraceJob, ...]
    """In the order of the file; it decides between jobs of one moment."""
    nodes: tuple[Node, ...]
    """As it begins. A planned node (`is_planned`) comes when something is placed on it."""
    events: tuple[NodeEvent, ...] = ()

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for job in self.jobs:
            if job.job_id in seen:
                raise InvalidInput("job_id", "is there twice", got=job.job_id)
            seen.add(job.job_id)
            _refuse_nonsense(job)

    @property
    def gpus(self) -> int:
        """GPUs of the cluster as it begins."""
        return sum(len(node.gpu_ids) for node in self.nodes)


def whole_nodes(gpus: int, gpus_per_node: int) -> tuple[int, int]:
    """The layout of a job of this many GPUs as a gang of equal members.

    The fewest members that each fit on a node and divide the job evenly: with 8 GPUs per node, 12
    become 2 × 6 and 16 become 2 × 8. A whole node and a remainder (8 + 4) would be unequal.

    Args:
        gpus: GPUs of the job, 0 or more.
        gpus_per_node: GPUs of each node, 1 or more.

    Returns:
        Nodes, and GPUs on each of them.
    """
    nodes = max(1, math.ceil(gpus / gpus_per_node))
    while gpus % nodes:
        nodes += 1
    return nodes, gpus // nodes


# The bounds of each number; None is allowed where it is the default.
_BOUNDS: Mapping[str, tuple[float, float]] = {
    "submit_s": (-MOST_S, MOST_S),
    "duration_s": (0, MOST_S),
    "gpu_count": (0, _MOST_COUNT),
    "nodes": (1, _MOST_COUNT),
    "gpu_share_milli": (1, WHOLE_GPU_MILLI),
    "cpu_milli": (0, _MOST_AMOUNT),
    "memory_mib": (0, _MOST_AMOUNT),
    "priority": (-_MOST_POINTS, _MOST_POINTS),
    "stated_s": (0, MOST_S),
    "deadline_s": (-MOST_S, MOST_S),
    "checkpoint_interval_s": (_LEAST_INTERVAL_S, MOST_S),
    "checkpoint_stall_s": (0, MOST_S),
    "restart_s": (0, MOST_S),
}


def _refuse_nonsense(job: TraceJob) -> None:
    for field, (least, most) in _BOUNDS.items():
        value = getattr(job, field)
        if value is not None and not least <= value <= most:
            raise InvalidInput(
                f"job {one_line(job.job_id, _LONGEST_ID)}: {field}",
                "is out of range",
                got=value,
                allowed=f"{least:,} to {most:,}",
            )
