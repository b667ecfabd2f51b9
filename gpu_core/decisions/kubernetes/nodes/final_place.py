"""The place of a finished attempt, as far as the cluster shows it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, count, islice

from gpu_core.decisions.kubernetes.nodes.virtual_nodes import free_ids
from gpu_core.decisions.model.cluster import Flavor, Node, NodeShare, Placement
from gpu_core.decisions.model.virtual_nodes import UNKNOWN_NODE, planned_kind

UNKNOWN_GPU_TYPE = "unknown"


def final_placement(
    placement: Placement,
    names: Sequence[str | None],
    nodes: Mapping[str, Node],
    taken_milli: Mapping[tuple[str, str], int],
    otherwise: Flavor,
) -> Placement:
    """The placement of an attempt of which nothing lives any more.

    Unlike `landed` it always has an answer, because nothing more will be known. Its nodes are those
    of its pods, also where nothing else is known of them. The device plugin does not say which GPUs
    a pod got: they are numbered, those first that no other attempt holds.

    Args:
        placement: As it was planned.
        names: The node of each pod, one for each share. None: it was never seen on one.
        nodes: What is known of these nodes, by name.
        taken_milli: Thousandths that others hold, by node and GPU.
        otherwise: What it held where nothing is known of any of its nodes.

    Returns:
        With `UNKNOWN_NODE` in the place of a planned node that its pod was never seen on.
    """
    shares = tuple(
        _final_share(share, name, nodes.get(name or ""), taken_milli)
        for share, name in zip(placement.shares, names, strict=True)
    )
    known = next((nodes[name] for name in names if name is not None and name in nodes), None)
    flavor = otherwise if known is None else known.flavor
    return Placement(
        gpu_type=None if placement.gpu_type is None else flavor.gpu_type,
        capacity_type=flavor.capacity_type,
        shares=shares,
    )


def _final_share(
    share: NodeShare,
    name: str | None,
    node: Node | None,
    taken_milli: Mapping[tuple[str, str], int],
) -> NodeShare:
    if name is None:
        is_planned_node = planned_kind(share.node) is None
        return replace(share, node=UNKNOWN_NODE) if is_planned_node else share
    held = () if node is None else node.gpu_ids
    free = [] if node is None else free_ids(share, node, taken_milli)
    rest = sorted(set(held) - set(free), key=lambda gpu_id: (taken_milli[name, gpu_id], gpu_id))
    others = (str(number) for number in count())
    further = (
        gpu_id for gpu_id in others if gpu_id not in held and (name, gpu_id) not in taken_milli
    )
    ids = islice(chain(free, rest, further), len(share.gpu_ids))
    return replace(share, node=name, gpu_ids=tuple(sorted(ids)))
