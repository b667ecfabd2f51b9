"""The policy's list of what a provisioner may still add."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.section import CapacityType, Name, Section


class ProvisionedNodes(Section):
    """A group of identical nodes that the provisioner adds when pods request them."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]
    """The name of the group, as shown in messages."""
    gpu_type: Name = Field(examples=["a100-80gb"])
    """The GPU type of each node."""
    capacity_type: CapacityType = "on-demand"
    """The capacity type of each node."""
    gpus_per_node: Annotated[int, Field(ge=1, le=64)]
    """The number of GPUs of each node."""
    max_nodes: Annotated[int, Field(ge=1, le=1000)]
    """The maximum number of nodes in the group. Existing nodes are included."""
    zone: Name | None = None
    """The zone of the nodes. If not set, nodes can be in any zone."""
    instance_type: Name | None = None
    """The instance type of the nodes. If not set, any instance type with these GPUs can be used."""
    node_labels: Mapping[Name, str] = Field(default={})
    """Additional labels of the nodes, which are used as node selectors of pods."""
    taints: Sequence[Name] = ()
    """A list of taints in the format `key=value:effect`. Only runs that tolerate all taints are
    placed on these nodes."""
    cpu: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """The number of CPU cores for workloads on each node. If not set, CPU is not considered."""
    memory_gib: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """The main memory for workloads on each node, in GiB. If not set, memory is not considered."""


def provisioned_contradictions(kinds: Sequence[ProvisionedNodes]) -> list[InvalidInput]:
    """The kinds of nodes that are indistinguishable."""
    names = Counter(kind.name for kind in kinds)
    return [
        InvalidInput(
            f"kubernetes.provisioned.{number}.name",
            "is already the name of another kind",
            got=kind.name,
            remedy="specify a unique name for each kind",
        )
        for number, kind in enumerate(kinds)
        if names[kind.name] > 1
    ]
