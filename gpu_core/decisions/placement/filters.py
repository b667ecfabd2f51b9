"""What a node must be, whatever is free on it, to hold one node's part of a shape."""

from gpu_core.decisions.catalog.mig import mig_profile
from gpu_core.decisions.model.cluster import Node
from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.placement.gpu_sharing import replica_milli


def suits(shape: Shape, node: Node) -> bool:
    """Is it the right kind of node, however large?"""
    return (
        has_gpu_type(shape, node)
        and has_capacity_type(shape, node)
        and has_gpu_memory(shape, node)
        and has_labels(shape, node)
        and is_tolerated(shape, node)
        and can_divide(shape, node)
    )


def is_avoided(shape: Shape, node: Node) -> bool:
    """Has it failed this workload lately?"""
    return node.name in shape.avoided_nodes


def needs_no_node(shape: Shape) -> bool:
    """Does it ask for nothing that is counted?"""
    return not (shape.gpu_count or shape.cpu_milli or shape.memory_mib)


def has_gpu_type(shape: Shape, node: Node) -> bool:
    """Is it one of the wanted GPU types?"""
    return not shape.gpu_types or node.gpu_type in shape.gpu_types


def has_capacity_type(shape: Shape, node: Node) -> bool:
    """Is it the wanted kind of capacity?"""
    return shape.capacity_type is None or shape.capacity_type == node.capacity_type


def has_gpu_memory(shape: Shape, node: Node) -> bool:
    """Does each of its GPUs have enough memory?"""
    if shape.gpu_memory_gib is None:
        return True
    # Unknown memory never satisfies a need: the run would find out by running out of it.
    return node.gpu_memory_gib is not None and node.gpu_memory_gib >= shape.gpu_memory_gib


def has_labels(shape: Shape, node: Node) -> bool:
    """Does it have each label that is asked for, and one that the gang can have in common?"""
    if shape.same_label is not None and shape.same_label not in node.labels:
        return False
    return all(node.labels.get(name) == value for name, value in shape.node_labels)


def is_tolerated(shape: Shape, node: Node) -> bool:
    """Does the shape tolerate all of its taints?"""
    return node.taints <= shape.tolerations


def can_divide(shape: Shape, node: Node) -> bool:
    """Can its GPUs be divided as the shape wants, or be left whole?"""
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
    """Is one replica enough? The device plugin may hand out several of different GPUs."""
    if node.shares_per_gpu is None:
        return True
    return shape.gpu_count == 1 and shape.gpu_share_milli <= replica_milli(node.shares_per_gpu)


def _has_instances(profile: str, count: int, node: Node) -> bool:
    """Has it so many instances, or can they be made?"""
    if mig_profile(node.gpu_type, profile) is None:
        return False
    return node.mig_instances is None or node.mig_instances.get(profile, 0) >= count


def is_large_enough(shape: Shape, node: Node, gpus: int) -> bool:
    """Could the node hold it when it is empty?

    Args:
        shape: What is asked for.
        node: Of the right kind.
        gpus: How many of its GPUs count.
    """
    return (
        gpus >= shape.gpu_count
        and (node.cpu_milli is None or node.cpu_milli >= shape.cpu_milli)
        and (node.memory_mib is None or node.memory_mib >= shape.memory_mib)
    )
