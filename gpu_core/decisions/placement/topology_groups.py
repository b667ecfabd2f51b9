"""Groups of nodes that one workload may be placed in."""

from collections.abc import Iterable
from dataclasses import dataclass

from gpu_core.decisions.model.cluster import Flavor, Node
from gpu_core.decisions.model.workload import Shape


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that a gang may span: one flavor, one value of its `same_label`, and for a gang one
    resource name."""

    preference: int
    """0 for the most preferred GPU type."""
    flavor: Flavor
    nodes: tuple[str, ...]
    """By name."""


def grouped(shape: Shape, nodes: Iterable[Node]) -> list[list[Node]]:
    """The nodes of each group, the groups by flavor and label.

    Args:
        shape: The shape to place.
        nodes: Nodes that suit it; the groups keep their order.
    """
    groups: dict[tuple[Flavor, str, str], list[Node]] = {}
    for node in nodes:
        groups.setdefault(group_key(shape, node), []).append(node)
    return [groups[key] for key in sorted(groups)]


def group_key(shape: Shape, node: Node) -> tuple[Flavor, str, str]:
    """The key that all nodes of one group have in common.

    The pods of a gang are alike, so they request one resource name.
    """
    resource = node.gpu_resource if shape.nodes > 1 and shape.gpu_count else None
    label = "" if shape.same_label is None else node.labels[shape.same_label]
    return node.flavor, label, resource or ""


def preference(shape: Shape, gpu_type: str) -> int:
    """The rank of this type in the preferences of the shape; 0: the most preferred."""
    return shape.gpu_types.index(gpu_type) if shape.gpu_types else 0
