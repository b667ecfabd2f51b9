"""Among which nodes a workload may choose its own."""

from collections.abc import Iterable
from dataclasses import dataclass

from gpu_core.decisions.model.cluster import Flavor, Node
from gpu_core.decisions.model.workload import Shape


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that a gang may be spread over: one flavor, one value of its `same_label`, and
    for a gang one resource."""

    preference: int
    """0 for the GPU type that is wanted most."""
    flavor: Flavor
    nodes: tuple[str, ...]
    """By name."""


def grouped(shape: Shape, nodes: Iterable[Node]) -> list[list[Node]]:
    """The nodes of each group, the groups by flavor and label.

    Args:
        shape: What wants to choose.
        nodes: Of the right kind for it; the groups keep their order.
    """
    groups: dict[tuple[Flavor, str, str], list[Node]] = {}
    for node in nodes:
        groups.setdefault(group_key(shape, node), []).append(node)
    return [groups[key] for key in sorted(groups)]


def group_key(shape: Shape, node: Node) -> tuple[Flavor, str, str]:
    """What have the nodes of one group in common?

    The pods of a gang are alike, so they ask for one resource.
    """
    resource = node.gpu_resource if shape.nodes > 1 and shape.gpu_count else None
    label = "" if shape.same_label is None else node.labels[shape.same_label]
    return node.flavor, label, resource or ""


def preference(shape: Shape, gpu_type: str) -> int:
    """How much is this type wanted, of those that the shape accepts? 0: most."""
    return shape.gpu_types.index(gpu_type) if shape.gpu_types else 0
