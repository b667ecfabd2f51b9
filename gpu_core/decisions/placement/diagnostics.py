"""The reasons why a shape does not fit: never in this cluster, or not now."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpu_core.decisions.catalog.mig import MIG_PROFILES
from gpu_core.decisions.catalog.product_names import gpu_types_meant
from gpu_core.decisions.model.cluster import Node
from gpu_core.decisions.model.errors import alternatives, listed
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI, Shape, replica_milli
from gpu_core.decisions.placement import filters
from gpu_core.decisions.placement.node_info import NodeInfo
from gpu_core.decisions.placement.topology_groups import grouped


@dataclass(frozen=True, slots=True, kw_only=True)
class NeverFits:
    """The shape never fits this cluster: what is missing, and what would help."""

    summary: str
    resolution: str
    numbers: Mapping[str, int | str | None] = field(default_factory=dict)


def never_fits(shape: Shape, nodes: Sequence[Node]) -> NeverFits | None:
    """The reason why the shape never fits this cluster; None: it could.

    The first requirement that none of the nodes that meet the previous ones meets. Unhealthy GPUs
    count: they may be repaired.
    """
    if filters.needs_no_node(shape):
        return None
    left = [node for node in nodes if node.gpu_ids or not shape.gpu_count]
    if not left:
        return _no_nodes(shape)
    for meets, refusal in _REQUIREMENTS:
        meeting = [node for node in left if meets(shape, node)]
        if not meeting:
            return refusal(shape, left)
        left = meeting
    most = max(len(group) for group in grouped(shape, left))
    return None if most >= shape.nodes else _too_few_nodes(shape, most)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotPlaced:
    """Numbers of healthy GPUs that suit a shape which does not fit now."""

    usable_gpus: int
    free_gpus: int
    most_free_on_one_node: int
    unhealthy_gpus: int
    """Not included in the usable GPUs."""
    avoided_free_gpus: int = 0
    """On nodes that the workload avoids; not included in the other numbers."""
    withheld: tuple[Node, ...] = ()
    """Nodes whose well GPUs get no new runs, because one of theirs is held; all of their GPUs are
    included in those that are unhealthy."""


def diagnose(shape: Shape, node_infos: Iterable[NodeInfo]) -> NotPlaced:
    """How many suitable GPUs exist, and are free?"""
    suited = [node_info for node_info in node_infos if filters.suits(shape, node_info.node)]
    wanted = [node_info for node_info in suited if not filters.is_avoided(shape, node_info.node)]
    return NotPlaced(
        usable_gpus=sum(node_info.usable_gpus for node_info in wanted),
        free_gpus=sum(node_info.free_gpus for node_info in wanted),
        most_free_on_one_node=max((node_info.free_gpus for node_info in wanted), default=0),
        unhealthy_gpus=sum(
            len(node_info.node.gpu_ids) - node_info.usable_gpus for node_info in wanted
        ),
        avoided_free_gpus=sum(
            node_info.free_gpus for node_info in suited if filters.is_avoided(shape, node_info.node)
        ),
        withheld=tuple(
            node
            for node in (node_info.node for node_info in wanted)
            if node.machine is not None and node.machine.are_others_withheld
        ),
    )


def _no_nodes(shape: Shape) -> NeverFits:
    if not shape.gpu_count:
        return NeverFits(summary="No nodes are available in this pool.", resolution="Add a node.")
    return NeverFits(
        summary="No GPUs are available in this pool.",
        resolution="You can add a node with GPUs or set `gpu_count` to 0.",
        numbers={"wanted_gpus": shape.gpu_count * shape.nodes, "gpus": 0},
    )


def _no_such_type(shape: Shape, nodes: Sequence[Node]) -> NeverFits:
    there = sorted({node.gpu_type for node in nodes})
    meant = [each for name in shape.gpu_types for each in gpu_types_meant(name, there)]
    choice = alternatives([*dict.fromkeys(meant), "auto"])
    return NeverFits(
        summary=f"No {' or '.join(shape.gpu_types)} GPU is available in this pool. Available GPU "
        f"types: {listed(there)}.",
        resolution=f"You can set `gpu_type` to {choice}, or add a matching node.",
        numbers={"wanted_gpu_types": ", ".join(shape.gpu_types), "gpu_types": ", ".join(there)},
    )


def _no_such_capacity(shape: Shape, nodes: Sequence[Node]) -> NeverFits:
    there = listed({node.capacity_type for node in nodes})
    return NeverFits(
        summary=f"No matching {shape.capacity_type} GPU is available. Available capacity types: "
        f"{there}.",
        resolution="You can set `capacity_type` to 'auto' or add a matching node.",
        numbers={"wanted_capacity_type": shape.capacity_type, "capacity_types": there},
    )


def _gpus_too_small(shape: Shape, nodes: Sequence[Node]) -> NeverFits:
    largest = max((n.gpu_memory_gib for n in nodes if n.gpu_memory_gib is not None), default=None)
    known = "is not known" if largest is None else f"is at most {largest} GiB"
    return NeverFits(
        summary=f"Requires GPUs with {shape.gpu_memory_gib} GiB, but the memory of matching GPUs "
        f"{known}.",
        resolution="You can reduce `gpu_memory_gib` or add a node with larger GPUs.",
        numbers={"wanted_memory_gib": shape.gpu_memory_gib, "largest_memory_gib": largest},
    )


def _no_such_labels(shape: Shape, nodes: Sequence[Node]) -> NeverFits:
    wanted = [f"{name}={value}" for name, value in shape.node_labels]
    if shape.same_label is not None:
        wanted.append(f"any {shape.same_label}")
    return NeverFits(
        summary=f"No matching node has the required labels {listed(wanted)}.",
        resolution="You can change `node_labels` or add the labels to a node.",
        numbers={"wanted_labels": ", ".join(wanted), "nodes": len(nodes)},
    )


def _not_tolerated(shape: Shape, nodes: Sequence[Node]) -> NeverFits:
    taints = listed(set().union(*(node.taints for node in nodes)) - shape.tolerations)
    return NeverFits(
        summary=f"All matching nodes have untolerated taints: {taints}.",
        resolution=(
            "You can add tolerations to the base job template or remove the taints from a node."
        ),
        numbers={"taints": taints, "nodes": len(nodes)},
    )


def _not_divisible(shape: Shape, nodes: Sequence[Node]) -> NeverFits:
    if shape.mig_profile is not None:
        there = listed({name for node in nodes for name in _profiles_of(node)})
        return NeverFits(
            summary=f"No matching GPU provides the MIG profile {shape.mig_profile}. "
            f"Available MIG profiles: {there}.",
            resolution=(
                "You can request a different `mig_profile` or add a node that "
                "provides this profile."
            ),
            numbers={"wanted_mig_profile": shape.mig_profile, "mig_profiles": there},
        )
    if shape.is_whole:
        return NeverFits(
            summary=f"Requires whole GPUs, but all matching GPUs are {_how_divided(nodes)}.",
            resolution=f"You can request {_parts_of(nodes)}, or add a node with whole GPUs.",
            numbers={"wanted_gpus": shape.gpu_count * shape.nodes, "nodes": len(nodes)},
        )
    largest_milli = max(
        (replica_milli(n.shares_per_gpu) for n in nodes if n.is_shareable), default=0
    )
    if largest_milli:
        return NeverFits(
            summary=f"Requires {shape.gpu_count} × "
            f"{shape.gpu_share_milli / WHOLE_GPU_MILLI:g} of a GPU, but only one "
            f"share of at most {largest_milli / WHOLE_GPU_MILLI:g} can be assigned "
            "to a run.",
            resolution="You can request a single share of this size or a whole GPU.",
            numbers={
                "wanted_gpu_share_milli": shape.gpu_share_milli,
                "largest_gpu_share_milli": largest_milli,
            },
        )
    return NeverFits(
        summary=f"Requires {shape.gpu_share_milli / WHOLE_GPU_MILLI:g} of a GPU, but GPU sharing "
        "is not enabled on any matching node.",
        resolution="You can request a whole GPU or enable GPU sharing on a node.",
        numbers={"wanted_gpu_share_milli": shape.gpu_share_milli, "nodes": len(nodes)},
    )


def _profiles_of(node: Node) -> set[str]:
    if node.mig_instances is not None:
        return {profile for profile, count in node.mig_instances.items() if count}
    return set(MIG_PROFILES.get(node.gpu_type, ())) if node.is_mig else set()


def _how_divided(nodes: Sequence[Node]) -> str:
    ways = {"partitioned with MIG" if node.is_mig else "shared" for node in nodes}
    return " or ".join(sorted(ways))


def _parts_of(nodes: Sequence[Node]) -> str:
    parts = {"a mig_profile" if node.is_mig else "a gpu_fraction" for node in nodes}
    return " or ".join(sorted(parts))


def _nodes_too_small(shape: Shape, nodes: Sequence[Node]) -> NeverFits:
    largest = max(len(node.gpu_ids) for node in nodes)
    return NeverFits(
        summary=f"Requires {shape.gpu_count} GPUs on a single node, but the largest "
        f"matching node has {largest}.",
        resolution=(
            f"The value of `gpu_count` must be less than or equal to {largest} unless a "
            "larger node is added."
        ),
        numbers={"wanted_gpus_per_node": shape.gpu_count, "largest_node_gpus": largest},
    )


def _cpu_or_memory_too_small(shape: Shape, nodes: Sequence[Node]) -> NeverFits:
    sizes = sorted({(n.cpu_milli or 0, n.memory_mib or 0) for n in nodes}, reverse=True)
    most_cpu, most_memory = sizes[0][0], max(memory for _, memory in sizes)
    return NeverFits(
        summary=f"Requires {shape.cpu_milli} milli-CPU and {shape.memory_mib} MiB on a "
        "single node, but no node provides both. The largest nodes provide "
        f"{most_cpu} milli-CPU and {most_memory} MiB.",
        resolution="You can reduce the CPU and memory requests or add a larger node.",
        numbers={
            "wanted_cpu_milli": shape.cpu_milli,
            "wanted_memory_mib": shape.memory_mib,
            "most_cpu_milli": most_cpu,
            "most_memory_mib": most_memory,
        },
    )


def _too_few_nodes(shape: Shape, most: int) -> NeverFits:
    label = "" if shape.same_label is None else f", of one {shape.same_label},"
    return NeverFits(
        summary=f"Requires {shape.nodes} nodes of one GPU type and capacity type{label} "
        f"with {shape.gpu_count} GPUs each, but at most {most} are available.",
        resolution=(
            f"The value of `nodes` must be less than or equal to {most} unless nodes are added."
        ),
        numbers={"wanted_nodes": shape.nodes, "most_nodes": most},
    )


def _has_gpus(shape: Shape, node: Node) -> bool:
    return len(node.gpu_ids) >= shape.gpu_count


def _has_cpu_and_memory(shape: Shape, node: Node) -> bool:
    return filters.is_large_enough(shape, node, len(node.gpu_ids))


_REQUIREMENTS: tuple[
    tuple[Callable[[Shape, Node], bool], Callable[[Shape, Sequence[Node]], NeverFits]], ...
] = (
    (filters.has_gpu_type, _no_such_type),
    (filters.has_capacity_type, _no_such_capacity),
    (filters.has_gpu_memory, _gpus_too_small),
    (filters.has_labels, _no_such_labels),
    (filters.is_tolerated, _not_tolerated),
    (filters.can_divide, _not_divisible),
    (_has_gpus, _nodes_too_small),
    (_has_cpu_and_memory, _cpu_or_memory_too_small),
)
