"""One attempt that is about to become objects in Kubernetes: everything that shapes them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpu_core.decisions.kubernetes.manifests.names import job_name
from gpu_core.decisions.kubernetes.variables.variables import PodRequest
from gpu_core.decisions.model.cluster import Placement
from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.policy.kubernetes import SecretReference
from gpu_core.decisions.requests.runs.run_context import RunContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Nodes that are not there yet, for an autoscaler or for Kueue to find."""

    gpu_types: tuple[str, ...] = ()
    """Acceptable GPU types, most wanted first; empty: any that has the memory."""
    capacity_types: tuple[str, ...] = ()
    """Acceptable capacity types, most wanted first; empty: any."""
    node_labels: tuple[tuple[str, str], ...] = ()
    """Labels that they must have in addition to those that the run asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One attempt of one run."""

    context: RunContext
    """The run's context. `run_dir` is set by the builder, `devices` by the device plugin."""
    shape: Shape
    """The shape that the scheduler placed."""
    place: Placement | Wanted
    """The nodes of the plan, or what nodes should come."""
    pool: str
    gpu_resource: str | None = None
    """The name of the GPUs on the nodes of the plan (`Node.gpu_resource`); None: it is not
    known."""
    pod: PodRequest = field(default_factory=PodRequest)
    queue: str | None = None
    priority_queue: str | None = None
    """The queue whose PriorityClass its pods get: that whose points it has, if the cluster has its
    class; None: they get none."""
    user: str | None = None
    max_duration_s: int | None = None
    """The time after which an attempt is stopped for good; None: never."""
    is_flow: bool = True
    """Prefect runs in the container; otherwise it is a container job: an image and a command."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that the worker adds, such as MLflow's address; those of the template come
    first."""
    prefect_secrets: Mapping[str, SecretReference] = field(default_factory=dict)
    """Prefect's keys that a flow gets from Secrets, by their variables; the policy's come first."""

    @property
    def name(self) -> str:
        """The name of the Job; the same for every attempt to create it."""
        return job_name(self.context.attempt_id)

    @property
    def is_gang(self) -> bool:
        """Does it run on several nodes at once?"""
        return self.shape.nodes > 1

    @property
    def node_names(self) -> tuple[str, ...]:
        """The nodes of the plan, in order; empty: it is not pinned to any."""
        if isinstance(self.place, Wanted):
            return ()
        return tuple(share.node for share in self.place.shares)

    @property
    def gpu_type(self) -> str | None:
        """Of the GPUs that it gets, as far as that is certain."""
        if not isinstance(self.place, Wanted):
            return self.place.gpu_type
        return self.place.gpu_types[0] if len(self.place.gpu_types) == 1 else None

    @property
    def capacity_types(self) -> tuple[str, ...]:
        """The capacity types that it may get; empty means any."""
        if isinstance(self.place, Wanted):
            return self.place.capacity_types
        # Without a node of the plan it runs anywhere: it needs no GPU.
        return (self.place.capacity_type,) if self.place.shares else ()

    @property
    def node_labels(self) -> tuple[tuple[str, str], ...]:
        """Labels that its nodes must have, where they are still to come."""
        asked = self.shape.node_labels
        if not isinstance(self.place, Wanted):
            return asked
        return tuple(sorted({*asked, *self.place.node_labels}))

    @property
    def may_be_spot(self) -> bool:
        """Could its node be taken away by the provider?"""
        return not self.capacity_types or "spot" in self.capacity_types
