"""Where a workload goes: the nodes that it fits with the fewest GPUs left over."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpu_core.decisions.cluster import Node, NodeShare, Placement
from gpu_core.decisions.errors import listed, nearest_name
from gpu_core.decisions.workload import Workload

FreeGpus = Mapping[str, tuple[str, ...]]
"""GPU ids by node name, in the order in which they are to be taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotPlaced:
    """It does not fit now; the numbers count healthy GPUs of the kind that it wants."""

    usable_gpus: int
    free_gpus: int
    most_free_on_one_node: int
    unhealthy_gpus: int
    """Those come on top: they are not usable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NeverFits:
    """No state of this cluster could hold it: what is missing, and what would help."""

    summary: str
    resolution: str
    numbers: Mapping[str, int | str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Nodes of one GPU type and one capacity type: a gang stays within one group."""

    preference: int
    """0 for the GPU type that is wanted most."""
    nodes: tuple[Node, ...]


def place(workload: Workload, nodes: Sequence[Node], free: FreeGpus) -> Placement | NotPlaced:
    """Where does the workload go now?

    Best fit: of the wanted GPU types in order of preference, on the nodes that are left with the
    fewest free GPUs; among equals the first by name. A gang gets that many different nodes of one
    GPU type and one capacity type, or nothing.

    Args:
        workload: What is to be placed.
        nodes: The nodes that it may use.
        free: The GPUs that it may take; unhealthy ones among them are left out.
    """
    if workload.gpu_count == 0:
        return Placement(gpu_type=None, capacity_type="on-demand", shares=())
    choices = []
    for group in node_groups(workload, eligible_nodes(workload, nodes)):
        chosen = _best_fit(workload, group.nodes, free)
        if chosen:
            left_over = sum(_free_count(node, free) for node in chosen)
            names = [node.name for node in chosen]
            choices.append((group.preference, left_over, names, chosen))
    if not choices:
        return shortage(workload, nodes, free)
    chosen = min(choices, key=lambda choice: choice[:3])[3]
    return Placement(
        gpu_type=chosen[0].gpu_type,
        capacity_type=chosen[0].capacity_type,
        shares=tuple(
            NodeShare(node=node.name, gpu_ids=_healthy(node, free)[: workload.gpu_count])
            for node in chosen
        ),
    )


def eligible_nodes(workload: Workload, nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Which nodes could take part in running this workload, if they were empty? By name."""
    fitting = [
        node
        for node in sorted(nodes, key=lambda node: node.name)
        if _has_wanted_kind(workload, node) and _healthy_count(node) >= workload.gpu_count
    ]
    in_group = Counter((node.gpu_type, node.capacity_type) for node in fitting)
    return tuple(n for n in fitting if in_group[n.gpu_type, n.capacity_type] >= workload.nodes)


def node_groups(workload: Workload, nodes: Sequence[Node]) -> tuple[NodeGroup, ...]:
    """Among which nodes may the workload choose its own? Nodes keep their order."""
    groups: dict[tuple[str, str], list[Node]] = {}
    for node in nodes:
        groups.setdefault((node.gpu_type, node.capacity_type), []).append(node)
    wanted = workload.gpu_types
    return tuple(
        NodeGroup(preference=wanted.index(gpu_type) if wanted else 0, nodes=tuple(members))
        for (gpu_type, _), members in sorted(groups.items())
    )


def fits_ever(workload: Workload, nodes: Sequence[Node]) -> NeverFits | None:
    """What keeps the workload from ever running here? None: it could run.

    Unhealthy GPUs count as GPUs: they may be mended.
    """
    if workload.gpu_count == 0:
        return None
    return (
        _lacks_type(workload, nodes)
        or _lacks_capacity_type(workload, nodes)
        or _lacks_memory(workload, nodes)
        or _lacks_size(workload, nodes)
    )


def shortage(workload: Workload, nodes: Sequence[Node], free: FreeGpus) -> NotPlaced:
    """How much is there, and free, of the kind that a workload without a place wants?"""
    wanted = [node for node in nodes if _has_wanted_kind(workload, node)]
    counts = [_free_count(node, free) for node in wanted]
    return NotPlaced(
        usable_gpus=sum(_healthy_count(node) for node in wanted),
        free_gpus=sum(counts),
        most_free_on_one_node=max(counts, default=0),
        unhealthy_gpus=sum(len(node.gpu_ids) - _healthy_count(node) for node in wanted),
    )


def _best_fit(workload: Workload, nodes: Sequence[Node], free: FreeGpus) -> list[Node]:
    """The nodes of the workload, or none."""
    counted = [(_free_count(node, free), node.name, node) for node in nodes]
    fitting = sorted(c for c in counted if c[0] >= workload.gpu_count)
    if len(fitting) < workload.nodes:
        return []
    return [node for _, _, node in fitting[: workload.nodes]]


def _healthy(node: Node, free: FreeGpus) -> tuple[str, ...]:
    return tuple(g for g in free.get(node.name, ()) if g not in node.unhealthy_gpu_ids)


def _free_count(node: Node, free: FreeGpus) -> int:
    return len(_healthy(node, free))


def _healthy_count(node: Node) -> int:
    return len(node.gpu_ids) - len(node.unhealthy_gpu_ids.intersection(node.gpu_ids))


def _has_wanted_kind(workload: Workload, node: Node) -> bool:
    return (
        _has_type(workload, node)
        and _has_capacity_type(workload, node)
        and _has_memory(workload, node)
    )


def _has_type(workload: Workload, node: Node) -> bool:
    return not workload.gpu_types or node.gpu_type in workload.gpu_types


def _has_capacity_type(workload: Workload, node: Node) -> bool:
    return workload.capacity_type in (None, node.capacity_type)


def _has_memory(workload: Workload, node: Node) -> bool:
    if workload.gpu_memory_gib is None:
        return True
    # Unknown memory never satisfies a need: the run would find out by running out of it.
    return node.gpu_memory_gib is not None and node.gpu_memory_gib >= workload.gpu_memory_gib


def _lacks_type(workload: Workload, nodes: Sequence[Node]) -> NeverFits | None:
    there = sorted({node.gpu_type for node in nodes if node.gpu_ids})
    if not there:
        return NeverFits(
            summary="This pool has no GPU at all.",
            resolution="Add a node with GPUs, or set gpu_count to 0.",
            numbers={"wanted_gpus": workload.total_gpus, "gpus": 0},
        )
    if any(_has_type(workload, node) for node in nodes):
        return None
    nearest = nearest_name(workload.gpu_types[0], there)
    remedy = f"Set gpu_type to {nearest!r} or 'auto'" if nearest else "Set gpu_type to 'auto'"
    return NeverFits(
        summary=f"No GPU of this pool is {' or '.join(workload.gpu_types)}: "
        f"it has {listed(there)}.",
        resolution=f"{remedy}, or add such a node.",
        numbers={"wanted_gpu_types": ", ".join(workload.gpu_types), "gpu_types": ", ".join(there)},
    )


def _lacks_capacity_type(workload: Workload, nodes: Sequence[Node]) -> NeverFits | None:
    typed = [node for node in nodes if _has_type(workload, node)]
    if any(_has_capacity_type(workload, node) for node in typed):
        return None
    there = listed({node.capacity_type for node in typed})
    return NeverFits(
        summary=f"No such GPU here is {workload.capacity_type} capacity: there is {there}.",
        resolution="Set capacity_type to 'auto', or add such a node.",
        numbers={"wanted_capacity_type": workload.capacity_type, "capacity_types": there},
    )


def _lacks_memory(workload: Workload, nodes: Sequence[Node]) -> NeverFits | None:
    kind = [n for n in nodes if _has_type(workload, n) and _has_capacity_type(workload, n)]
    if any(_has_memory(workload, node) for node in kind):
        return None
    largest = max((n.gpu_memory_gib for n in kind if n.gpu_memory_gib is not None), default=None)
    known = "is not known" if largest is None else f"is {largest} GiB at most"
    return NeverFits(
        summary=f"Needs GPUs with {workload.gpu_memory_gib} GiB: the memory of those here {known}.",
        resolution="Ask for less gpu_memory_gib, or add a node with larger GPUs.",
        numbers={"wanted_memory_gib": workload.gpu_memory_gib, "largest_memory_gib": largest},
    )


def _lacks_size(workload: Workload, nodes: Sequence[Node]) -> NeverFits | None:
    kind = [node for node in nodes if _has_wanted_kind(workload, node)]
    largest = max(len(node.gpu_ids) for node in kind)
    if largest < workload.gpu_count:
        return NeverFits(
            summary=f"Needs {workload.gpu_count} GPUs on one node: the largest such node has "
            f"{largest}.",
            resolution=f"Set gpu_count to {largest} or less, or add a larger node.",
            numbers={"wanted_gpus_per_node": workload.gpu_count, "largest_node_gpus": largest},
        )
    groups = Counter(
        (n.gpu_type, n.capacity_type) for n in kind if len(n.gpu_ids) >= workload.gpu_count
    )
    most = max(groups.values())
    if most >= workload.nodes:
        return None
    return NeverFits(
        summary=f"Needs {workload.nodes} nodes of one GPU type and capacity type with "
        f"{workload.gpu_count} GPUs each: there are {most} at most.",
        resolution=f"Set nodes to {most} or less, or add nodes.",
        numbers={"wanted_nodes": workload.nodes, "most_nodes": most},
    )
