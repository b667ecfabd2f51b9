"""Classes of nodes that differ only in their free resources."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from gpu_core.decisions.model.bit_set import bits_of
from gpu_core.decisions.model.cluster import Node
from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.placement.node_info import NodeInfo


@dataclass(frozen=True, slots=True)
class NodeClass:
    """Nodes with the same properties."""

    example: Node
    usable_gpus: int
    """The same number on each."""
    node_set: int
    """The nodes of the class."""


class NodeClasses:
    """The classes of some nodes. There are few: machines are bought by the dozen.

    Only labels that shapes request count: every Kubernetes node has labels of its own.

    Args:
        node_infos: The nodes; a node is known by its position among them.
    """

    def __init__(self, node_infos: Sequence[NodeInfo]) -> None:
        self._node_infos = node_infos
        self._node_classes: dict[tuple[str, ...], list[NodeClass]] = {}

    def of(self, *shapes: Shape) -> list[NodeClass]:
        """The classes that these shapes distinguish."""
        labels = {name for shape in shapes for name, _ in shape.node_labels}
        labels |= {shape.same_label for shape in shapes if shape.same_label is not None}
        names = tuple(sorted(labels))
        if names not in self._node_classes:
            self._node_classes[names] = self._by_labels(names)
        return self._node_classes[names]

    def _by_labels(self, names: Sequence[str]) -> list[NodeClass]:
        alike: dict[Hashable, list[int]] = {}
        for position, node_info in enumerate(self._node_infos):
            alike.setdefault(_traits(node_info, names), []).append(position)
        return [
            NodeClass(
                self._node_infos[positions[0]].node,
                self._node_infos[positions[0]].usable_gpus,
                bits_of(positions),
            )
            for positions in alike.values()
        ]


def _traits(node_info: NodeInfo, labels: Sequence[str]) -> Hashable:
    node = node_info.node
    return (
        node.gpu_type,
        node.capacity_type,
        node.gpu_memory_gib,
        node.cpu_milli,
        node.memory_mib,
        node.taints,
        node.is_shareable,
        node.shares_per_gpu,
        node.gpu_resource,
        node.has_whole_gpus,
        node.is_mig,
        None if node.mig_instances is None else frozenset(node.mig_instances.items()),
        node_info.usable_gpus,
        tuple(map(node.labels.get, labels)),
    )
