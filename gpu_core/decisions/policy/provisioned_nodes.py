"""The policy's list of what a provisioner may still add."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.section import CapacityType, Name, Section


class ProvisionedNodes(Section):
    """Nodes of one kind that a provisioner adds when pods ask for them."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]
    """The name of this kind in messages."""
    gpu_type: Name = Field(examples=["a100-80gb"])
    """The GPU type of each node."""
    capacity_type: CapacityType = "on-demand"
    """The capacity type of each node."""
    gpus_per_node: Annotated[int, Field(ge=1, le=64)]
    """The number of GPUs of each node."""
    max_nodes: Annotated[int, Field(ge=1, le=1000)]
    """The largest number of nodes of this kind, existing ones included."""
    zone: Name | None = None
    """The zone of the nodes; None: any."""
    instance_type: Name | None = None
    """The instance type of the nodes; None: any with these GPUs."""
    node_labels: Mapping[Name, str] = Field(default={})
    """Further labels of the nodes, which pods select."""
    taints: Sequence[Name] = ()
    """Taints as `key=value:effect`; only runs that tolerate all of them are placed there."""
    cpu: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Cores for workloads on each node; None: not counted."""
    memory_gib: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Main memory for workloads on each node; None: not counted."""


def provisioned_contradictions(kinds: Sequence[ProvisionedNodes]) -> list[InvalidInput]:
    """The kinds of nodes that are indistinguishable."""
    names = Counter(kind.name for kind in kinds)
    return [
        InvalidInput(
            f"kubernetes.provisioned.{number}.name",
            "is the name of another kind",
            got=kind.name,
            remedy="give each kind a name of its own",
        )
        for number, kind in enumerate(kinds)
        if names[kind.name] > 1
    ]
