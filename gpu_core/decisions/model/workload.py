"""The unit of admission: what wants GPUs, how many, for how long, and how urgently."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from gpu_core.decisions.model.units import format_duration

WHOLE_GPU_MILLI = 1000


def replica_milli(shares_per_gpu: int | None) -> int:
    """How many thousandths of a GPU is one replica? None replicas: the whole GPU."""
    return WHOLE_GPU_MILLI // (shares_per_gpu or 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """The reason why a workload may not be considered for now, in the words of an explanation."""

    reason: str
    """A member of `reasons.Reason`."""
    summary: str
    resolution: str


class RunTimeSource(StrEnum):
    """The source of a run time; the first that is known counts."""

    STATED = "stated"
    """The run's owner said so."""
    LEARNED = "learned"
    """Earlier runs of the same deployment took this long."""
    LIMIT = "limit"
    """It would be stopped then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTime:
    """The expected duration of one uninterrupted run."""

    median_s: float
    upper_s: float
    """The bound that holds with the probability that the policy plans with; at least the median."""
    source: RunTimeSource


class Shape(NamedTuple):
    """The requirements of a workload on nodes. Equal shapes fit in the same places.

    A value to look up by: thousands of waiting workloads have few different shapes.
    """

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
    gpu_share_milli: int = WHOLE_GPU_MILLI
    """Thousandths of each GPU, 1 to 1000; less than 1000 shares it by time-slicing or MPS."""
    mig_profile: str | None = None
    """A MIG profile such as `1g.10gb`, one instance for each of `gpu_count`; None: no MIG."""
    cpu_milli: int = 0
    """Thousandths of CPU cores on each node."""
    memory_mib: int = 0
    """Main memory on each node."""
    node_labels: tuple[tuple[str, str], ...] = ()
    """Labels that each node must have, as sorted pairs."""
    tolerations: frozenset[str] = frozenset()
    """Taints that do not keep it off a node."""
    same_label: str | None = None
    """The nodes of a gang must all have the same value of this label (a zone, a rack)."""
    avoided_nodes: frozenset[str] = frozenset()
    """Nodes that failed it recently: left alone while there are others that it could use."""
    preferred_nodes: frozenset[str] = frozenset()
    """Nodes that are tried before others that it wants as much."""

    @property
    def total_gpus(self) -> int:
        """GPUs over all nodes."""
        return self.gpu_count * self.nodes

    @property
    def total_gpu_milli(self) -> int:
        """Thousandths of GPUs over all nodes; a MIG slice counts as its GPU's share."""
        return self.total_gpus * self.gpu_share_milli

    @property
    def is_whole(self) -> bool:
        """Does it have its GPUs to itself?"""
        return self.gpu_share_milli == WHOLE_GPU_MILLI and self.mig_profile is None


_ONE_GPU = Shape()

MIN_MEASURED_STARTS = 3
"""This many measured starts replace the policy's changeover."""


class Changeover(NamedTuple):
    """The assumed loss of a start on other capacity, and its source."""

    loss_s: float
    """Seconds, over 0."""
    starts: int = 0
    """Measured starts of the deployment."""

    @property
    def is_measured(self) -> bool:
        """Is it the deployment's own number, and not the policy's?"""
        return self.starts >= MIN_MEASURED_STARTS

    @property
    def reason(self) -> str:
        """The assumption that a deadline rests on, as part of a sentence."""
        loss = format_duration(self.loss_s)
        if self.is_measured:
            return f"a start loses at most {loss} by {self.starts} measured starts"
        return (
            f"the deadline holds if a start loses at most {loss} "
            f"({self.starts} of {MIN_MEASURED_STARTS} measured)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One pending or running flow run, as the scheduler sees it. Admitted whole or not at all."""

    workload_id: str
    """The flow run id."""
    name: str
    priority: int
    """Points; more is more urgent (critical 1,000,000, high 10,000, medium 1,000, low 100)."""
    submitted_at: datetime
    """The moment at which the run first wanted to start. It keeps its place in the queue over all
    its attempts."""

    shape: Shape = _ONE_GPU
    """Its requirements on nodes."""
    gpu_type_reason: str | None = None
    """The reason for GPU types that were chosen for a run that left them open; None: none were
    chosen."""
    capacity_reason: str | None = None
    """The reason for a capacity type that was chosen for a run that left it open; None: none
    was."""
    zone_reason: str | None = None
    """The reason why it prefers the spot of one zone; None: it does not."""
    memory_reason: str | None = None
    """The reason why it gets more main memory than it asks for, or why it does not; None: it never
    ran out of it."""
    micro_batch_divisor: int = 1
    """The divisor of its next attempt's micro-batch."""
    micro_batch_reason: str | None = None
    """The reason for the divisor; None: it divides nothing."""
    avoided_until: datetime | None = None
    """The moment from which it may use the first avoided node again. None: it avoids none, or it is
    not stated."""

    is_preemptible: bool = True
    takes_free_only: bool = False
    """The cluster refused its last attempt: nothing is preempted for it until one is accepted."""
    min_runtime_s: int = 0
    """The time for which an attempt is not preempted once it has started."""
    preemption_cost_s: float | None = None
    """The cost of its preemptions so far: lost work, and the time until it resumed. None: it was
    not preempted."""
    max_protection_s: float = 0.0
    """How long an attempt is left alone at most until it has worked as long as they have cost."""
    expected_duration_s: int | None = None
    """The time that the owner expects one uninterrupted run to take; None: not stated."""
    run_time: RunTime | None = None
    """Its expected run time, from its owner or from history; None: unknown."""
    remaining_s: float | None = None
    """The run time that is left after what earlier attempts saved; None: unknown."""
    changeover: Changeover | None = None
    """The loss of a start of its deployment; None: not measured, the policy's number holds."""
    attained_gpu_s: float = 0.0
    """GPU-seconds that its earlier attempts have had."""
    has_resumed: bool = False
    """Runs of its deployment have shown that they resume from their checkpoints."""
    deadline_at: datetime | None = None
    budget_micro_usd: int | None = None
    """The most that all its attempts may cost together; None: it has no budget of its own."""

    team: str | None = None
    user: str | None = None
    project: str | None = None
    deployment: str | None = None
    """`FLOW/DEPLOYMENT`; None: it has none, or that is not known."""
    queue: str | None = None
    group: str | None = None
    """A sweep whose runs count as one for fairness; None: it counts by itself."""
    priority_override: int = 0
    """More comes first among all under any policy: a person moved it up."""
    hold: Hold | None = None


def without_request(workload: Workload) -> Workload:
    """The same run at the same place of the queue, without anything that it asks for."""
    return Workload(
        workload_id=workload.workload_id,
        name=workload.name,
        priority=workload.priority,
        submitted_at=workload.submitted_at,
    )


def planned_s(workload: Workload) -> float | None:
    """How long would the workload hold its GPUs, as far as plans may rely on it? None: unknown."""
    if workload.remaining_s is not None:
        return workload.remaining_s
    if workload.run_time is not None:
        return workload.run_time.upper_s
    return workload.expected_duration_s
