"""Policy section `scale`: which nodes can come, and when they should come and go."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from gpu_core.decisions.model.cluster import Flavor
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.section import CapacityType, Name, PositiveDuration, Section


class Offer(Section):
    """A kind of node that can be provisioned."""

    gpu_type: Name
    capacity_type: CapacityType = "on-demand"
    gpus_per_node: Annotated[int, Field(ge=1, le=64)]
    gpu_memory_gib: Annotated[int, Field(ge=1)] | None = None
    """Nominal memory of each GPU; None: unknown."""

    @property
    def flavor(self) -> Flavor:
        """Which kind of GPU it has."""
        return Flavor(self.gpu_type, self.capacity_type)


class ScalePolicy(Section):
    """When nodes should come and go."""

    offers: Sequence[Offer] = ()
    """What can be provisioned; the first that suits a workload is taken for it. Without any,
    nothing is said about scale at all."""
    waiting_s: PositiveDuration = Field(default=300, alias="waiting")
    """Up when a workload has waited for longer."""
    utilisation: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Up when more of a flavor's GPUs are in use and a workload waits for it."""
    queued: Annotated[int, Field(ge=0)] = 10
    """Up when more workloads wait for a flavor."""
    idle_s: PositiveDuration = Field(default=600, alias="idle")
    """Down when a node has been idle for as long."""
    max_gpus: Annotated[int, Field(ge=0)] | None = None
    """GPUs of all flavors that there may be; None: no cap."""


def scale_contradictions(policy: ScalePolicy, field: str = "scale") -> list[InvalidInput]:
    """Which offers can never be taken?

    Args:
        policy: The rules.
        field: The dotted path of the section, for the errors.
    """
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
