"""The nodes and the workloads that hold them: the frozen input of one planning cycle."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction
from typing import NamedTuple

from gpu_core.decisions.model.measurements import Measurements
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI, Workload

ON_DEMAND, SPOT, RESERVED = "on-demand", "spot", "reserved"
"""The capacity types, as Karpenter names them."""


class Flavor(NamedTuple):
    """A kind of GPU that quota and prices are given for."""

    gpu_type: str
    capacity_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The machine that is paid for with a node, whether it is used or not. None: unknown."""

    gpus: int
    """All GPUs, also those that others hold or that are broken."""
    cpu_milli: int | None = None
    memory_mib: int | None = None
    incarnation: str | None = None
    """Another value: another machine has taken the name. A Node object's uid, a boot's id."""
    instance_id: str | None = None
    """The provider's, such as `aws:///us-east-1a/i-0abc`."""
    created_at: datetime | None = None
    faulty_gpus: int = 0
    """Those that are held because they are not well."""
    are_others_withheld: bool = False
    """The well ones get no new runs, because a pod there may get one that is held."""
    why_held: str = ""
    """The GPUs that are held, and the reason."""
    held_until: str = ""
    """The remedy that frees them."""


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
    cpu_milli: int | None = None
    """Thousandths of CPU cores for workloads; None: not counted."""
    memory_mib: int | None = None
    """Main memory for workloads; None: not counted."""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: frozenset[str] = frozenset()
    """Only workloads that tolerate all of them may use the node."""
    is_shareable: bool = False
    """Several workloads may share one of its GPUs, by time-slicing or MPS."""
    has_whole_gpus: bool = True
    """A workload may have one of its GPUs to itself: not so where a device plugin offers replicas
    only."""
    shares_per_gpu: int | None = None
    """Replicas of each of its GPUs, of which a workload gets one; None: any part is possible."""
    gpu_resource: str | None = None
    """The resource that a pod requests for a GPU of it, or a part of one; the same on all nodes of
    a gang."""
    is_mig: bool = False
    """Its GPUs are partitioned into MIG instances."""
    mig_instances: Mapping[str, int] | None = None
    """The instances for workloads, by profile; None: they are made on demand."""
    is_planned: bool = False
    """It is not there: it comes when something is placed on it, if it comes."""
    machine: Machine | None = field(default=None, compare=False)
    """The machine below it; None: not known."""

    @property
    def flavor(self) -> Flavor:
        """The flavor of its GPUs."""
        return Flavor(self.gpu_type, self.capacity_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShare:
    """The GPUs that one workload has on one node."""

    node: str
    gpu_ids: tuple[str, ...]
    share_milli: int = WHOLE_GPU_MILLI
    """Thousandths of each of these GPUs."""
    mig_starts: tuple[int, ...] = ()
    """The start of its MIG instance on each of these GPUs, in memory slices; empty: no MIG."""
    exact_part: tuple[int, int] | None = field(default=None, compare=False)
    """Numerator and denominator of what it pays for of each GPU, where thousandths only come near:
    (1, 7) for a MIG `1g` instance, (1, 3) for one of three replicas. None: the thousandths."""

    @property
    def part_of_gpu(self) -> Fraction:
        """The part of each of its GPUs that it pays for. Those of a GPU add up to 1 at most."""
        if self.exact_part is None:
            return Fraction(self.share_milli, WHOLE_GPU_MILLI)
        return Fraction(*self.exact_part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The GPUs that a workload gets. A placement without shares is for one that needs none."""

    gpu_type: str | None
    capacity_type: str
    shares: tuple[NodeShare, ...]

    @property
    def gpu_ids(self) -> tuple[str, ...]:
        """All GPUs of the placement, in order."""
        return tuple(gpu_id for share in self.shares for gpu_id in share.gpu_ids)

    @property
    def flavor(self) -> Flavor | None:
        """The flavor of its GPUs; None if it needs no GPU."""
        return None if self.gpu_type is None else Flavor(self.gpu_type, self.capacity_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """A workload that holds GPUs, from its admission until the last process is gone."""

    workload: Workload
    attempt: int
    placement: Placement
    admitted_at: datetime
    began_at: datetime | None = None
    """The moment at which its flow or container started; None: not yet, or with its admission."""
    begins_by: datetime | None = None
    """The end of its protection from preemption if it does not begin; None: it begins with its
    admission."""
    checkpointed_at: datetime | None = None
    """The moment of this attempt's newest checkpoint; None: it has none yet."""
    works_since: datetime | None = None
    """The moment from which on its time counts as work; None: from its admission."""
    save_s: float | None = None
    """How long it takes to save once it is asked to end; None: it does not save then."""
    restart_s: float | None = None
    """How long its next attempt would take from its admission to its first new step; None:
    unknown."""
    is_draining: bool = False
    """It must stop; its GPUs are not free yet."""
    drain_deadline_at: datetime | None = None
    """The latest moment at which a draining attempt is killed."""
    draining_for: str | None = None
    """The workload that its GPUs were taken for."""

    @property
    def is_starting(self) -> bool:
        """Has it GPUs, but nothing that works on them yet?"""
        return self.began_at is None and self.begins_by is not None

    @property
    def protected_until(self) -> datetime:
        """The moment until which its GPUs are not preempted.

        While it starts, until `begins_by` at the latest. From its beginning on, for its minimum run
        time, and until it has worked as long as its preemptions have cost it.
        """
        if self.began_at is None and self.begins_by is not None:
            return self.begins_by
        protected_s = max(self.workload.min_runtime_s, self.repays_within_s)
        return (self.began_at or self.admitted_at) + timedelta(seconds=protected_s)

    @property
    def is_repaying(self) -> bool:
        """Is it protected for longer than its minimum run time, because it was preempted?"""
        return not self.is_starting and self.repays_within_s > self.workload.min_runtime_s

    @property
    def repays_within_s(self) -> float:
        """How long is it protected after its beginning, until it has repaid its preemptions?

        At most the workload's `max_protection_s`, however much they have cost; 0: it was not
        preempted.
        """
        return min(self.workload.max_protection_s, self._repaid_after_s)

    def unpaid_s(self, now_s: float) -> float:
        """How long must it work still until it has worked as long as its preemptions have cost it?

        Args:
            now_s: The moment, in seconds since 1970.

        Returns:
            Seconds, 0 or more; 0: it has, or was not preempted.
        """
        began_s = (self.began_at or self.admitted_at).timestamp()
        return max(0.0, began_s + self._repaid_after_s - now_s) if self._repaid_after_s else 0.0

    @property
    def _repaid_after_s(self) -> float:
        """How long after its beginning has it worked as long as its preemptions have cost it?

        Their cost includes the time in which this attempt restarts. 0: it was not preempted.
        """
        if self.workload.preemption_cost_s is None:
            return 0.0
        began_at = self.began_at or self.admitted_at
        works_since = self.works_since or began_at
        # A clock of another machine may be behind; neither time is negative.
        restart_s = max(0.0, (works_since - self.admitted_at).total_seconds())
        idle_s = max(0.0, (works_since - began_at).total_seconds())
        return idle_s + restart_s + self.workload.preemption_cost_s


@dataclass(frozen=True, slots=True, kw_only=True)
class PastUsage:
    """Usage before now, as far as decisions about shares and budgets need it."""

    gpu_s_by_user: Mapping[tuple[str | None, str | None], float] = field(default_factory=dict)
    """Decayed GPU-seconds (or what the policy measures) by team and user, up to this moment and
    with what runs now. Only their proportions count."""
    gpu_s_by_budget: Mapping[str, int] = field(default_factory=dict)
    """GPU-seconds used in the current period, by the name of the budget."""
    micro_usd_by_budget: Mapping[str, int] = field(default_factory=dict)
    """Money spent in the current period, by the name of the budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything that one planning cycle reads. A what-if is another snapshot."""

    nodes: tuple[Node, ...]
    allocations: tuple[Allocation, ...]
    pending: tuple[Workload, ...]
    usage: PastUsage = PastUsage()
    preemptors: frozenset[str] = frozenset()
    """Pending workloads that others were preempted for: they come first until they start, so that
    nothing takes what was freed for them."""
    idle_since: Mapping[str, datetime] = field(default_factory=dict)
    """Since when nodes have had no allocation, by name; a node that is missing is not let go."""
    measurements: Measurements = field(default_factory=Measurements)
    """Measurements of the last minutes; empty: plans follow from allocations alone."""


ZONE_LABEL = "topology.kubernetes.io/zone"
ZONE_ID_LABEL = "topology.k8s.aws/zone-id"
"""On EKS: names of zones mean other zones in each account, ids do not."""
REGION_LABEL = "topology.kubernetes.io/region"
INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"
