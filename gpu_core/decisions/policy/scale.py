"""Policy section `scale`: which nodes can come, and when they should come and go."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from gpu_core.decisions.model.cluster import Flavor
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.section import CapacityType, Name, PositiveDuration, Section


class Offer(Section):
    """A kind of node that a provisioner can add."""

    gpu_type: Name = Field(examples=["a100-80gb"])
    """The GPU type of the node."""
    capacity_type: CapacityType = "on-demand"
    """The capacity type of the node."""
    gpus_per_node: Annotated[int, Field(ge=1, le=64)]
    """The number of GPUs on each node."""
    gpu_memory_gib: Annotated[int, Field(ge=1)] | None = None
    """The nominal memory of each GPU in GiB. If not set, the memory is unknown."""

    @property
    def flavor(self) -> Flavor:
        """The flavor of its GPUs."""
        return Flavor(self.gpu_type, self.capacity_type)


class ScalePolicy(Section):
    """Settings that control when scale hints ask for nodes to be added or removed, and the maximum
    number of GPUs."""

    offers: Sequence[Offer] = ()
    """The kinds of nodes that can be provisioned, in order of preference. For each run, the first
    kind that fits is used. If this list is empty, no scale hints are sent."""
    waiting_s: PositiveDuration = Field(default=300, alias="waiting")
    """Scale up if a run has been waiting longer than this."""
    utilization: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Scale up if the fraction of a flavor's GPUs that is in use exceeds this value and a run is
    waiting for the flavor."""
    queued: Annotated[int, Field(ge=0)] = 10
    """Scale up if more runs than this are waiting for a flavor."""
    idle_s: PositiveDuration = Field(default=600, alias="idle")
    """The time that a node must be idle before it is scaled down."""
    max_gpus: Annotated[int, Field(ge=0)] | None = None
    """The maximum number of GPUs of all flavors together. Nodes that are planned or not yet
    available are also counted. If not set, there is no limit."""


def scale_contradictions(policy: ScalePolicy, field: str = "scale") -> list[InvalidInput]:
    """The offers that can never be taken."""
    flavors = [offer.flavor for offer in policy.offers]
    return [
        InvalidInput(
            f"{field}.offers.{index}",
            "provides the same kind of GPU as a previous entry",
            got=f"{flavor.gpu_type}, {flavor.capacity_type}",
            remedy="keep one of them",
        )
        for index, flavor in enumerate(flavors)
        if flavor in flavors[:index]
    ]
