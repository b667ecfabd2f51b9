"""Filters: which properties a node needs for a shape, regardless of free resources."""

from gpu_core.decisions.catalog.mig import mig_profile
from gpu_core.decisions.model.cluster import Node
from gpu_core.decisions.model.workload import Shape, replica_milli


def suits(shape: Shape, node: Node) -> bool:
    """Does the node pass all filters but that of size?"""
    return (
        has_gpu_type(shape, node)
        and has_capacity_type(shape, node)
        and has_gpu_memory(shape, node)
        and has_labels(shape, node)
        and is_tolerated(shape, node)
        and can_divide(shape, node)
    )


def is_avoided(shape: Shape, node: Node) -> bool:
    """Does the workload avoid the node, after a failure there?"""
    return node.name in shape.avoided_nodes


def needs_no_node(shape: Shape) -> bool:
    """Does the shape request no countable resource?"""
    return not (shape.gpu_count or shape.cpu_milli or shape.memory_mib)


def has_gpu_type(shape: Shape, node: Node) -> bool:
    """Does the node have one of the requested GPU types?"""
    return not shape.gpu_types or node.gpu_type in shape.gpu_types


def has_capacity_type(shape: Shape, node: Node) -> bool:
    """Does the node have the requested capacity type?"""
    return shape.capacity_type is None or shape.capacity_type == node.capacity_type


def has_gpu_memory(shape: Shape, node: Node) -> bool:
    """Does each GPU of the node have enough memory?"""
    if shape.gpu_memory_gib is None:
        return True
    # Unknown memory never satisfies a request: the run might run out of memory.
    return node.gpu_memory_gib is not None and node.gpu_memory_gib >= shape.gpu_memory_gib


def has_labels(shape: Shape, node: Node) -> bool:
    """Does the node have each requested label, and the label that a gang has in common?"""
    if shape.same_label is not None and shape.same_label not in node.labels:
        return False
    return all(node.labels.get(name) == value for name, value in shape.node_labels)


def is_tolerated(shape: Shape, node: Node) -> bool:
    """Does the shape tolerate all taints of the node?"""
    return node.taints <= shape.tolerations


def can_divide(shape: Shape, node: Node) -> bool:
    """Can the node share its GPUs as requested, or provide whole ones?"""
    if shape.gpu_count == 0:
        return True
    if shape.mig_profile is not None:
        return node.is_mig and _has_instances(shape.mig_profile, shape.gpu_count, node)
    # A GPU in MIG mode runs nothing outside an instance (NVIDIA MIG user guide).
    if node.is_mig:
        return False
    if shape.is_whole:
        return node.has_whole_gpus
    return node.is_shareable and _has_replicas(shape, node)


def _has_replicas(shape: Shape, node: Node) -> bool:
    """Is one replica enough? The device plugin may allocate several on different GPUs."""
    if node.shares_per_gpu is None:
        return True
    return shape.gpu_count == 1 and shape.gpu_share_milli <= replica_milli(node.shares_per_gpu)


def _has_instances(profile: str, count: int, node: Node) -> bool:
    """Does the node have enough instances, or can they be created?"""
    if mig_profile(node.gpu_type, profile) is None:
        return False
    return node.mig_instances is None or node.mig_instances.get(profile, 0) >= count


def is_large_enough(shape: Shape, node: Node, gpus: int) -> bool:
    """Could the empty node hold the shape?

    Args:
        shape: The requested shape.
        node: A node that suits.
        gpus: The number of its usable GPUs.
    """
    return (
        gpus >= shape.gpu_count
        and (node.cpu_milli is None or node.cpu_milli >= shape.cpu_milli)
        and (node.memory_mib is None or node.memory_mib >= shape.memory_mib)
    )
