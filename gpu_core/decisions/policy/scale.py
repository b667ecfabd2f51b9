"""Policy section `scale`: which nodes can come, and when they should come and go."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from gpu_core.decisions.model.cluster import Flavor
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.section import CapacityType, Name, PositiveDuration, Section


class Offer(Section):
    """A kind of node that can be provisioned."""

    gpu_type: Name = Field(examples=["a100-80gb"])
    """The GPU type of the node."""
    capacity_type: CapacityType = "on-demand"
    """The capacity type of the node."""
    gpus_per_node: Annotated[int, Field(ge=1, le=64)]
    """The number of its GPUs."""
    gpu_memory_gib: Annotated[int, Field(ge=1)] | None = None
    """The nominal memory of each GPU in GiB; None: unknown."""

    @property
    def flavor(self) -> Flavor:
        """The flavor of its GPUs."""
        return Flavor(self.gpu_type, self.capacity_type)


class ScalePolicy(Section):
    """The conditions in which scale hints ask for more or fewer nodes, and the limit of GPUs."""

    offers: Sequence[Offer] = ()
    """The kinds of nodes that can be provisioned; a run gets the first that fits. Without offers
    there are no scale hints."""
    waiting_s: PositiveDuration = Field(default=300, alias="waiting")
    """Scale up when a run has waited longer than this."""
    utilisation: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Scale up when a larger fraction of a flavor's GPUs is in use and a run waits for it."""
    queued: Annotated[int, Field(ge=0)] = 10
    """Scale up when more runs than this wait for a flavor."""
    idle_s: PositiveDuration = Field(default=600, alias="idle")
    """Scale down a node that has been idle for this long."""
    max_gpus: Annotated[int, Field(ge=0)] | None = None
    """The largest number of GPUs of all flavors, also with nodes that are planned and still to
    come; None: no limit."""


def scale_contradictions(policy: ScalePolicy, field: str = "scale") -> list[InvalidInput]:
    """The offers that can never be taken."""
    flavors = [offer.flavor for offer in policy.offers]
    return [
        InvalidInput(
            f"{field}.offers.{index}",
            "offers the same kind of GPU as one before it",
            got=f"{flavor.gpu_type}, {flavor.capacity_type}",
            remedy="keep one of them",
        )
        for index, flavor in enumerate(flavors)
        if flavor in flavors[:index]
    ]
