"""Nodes that a provisioner may still add: planned with before they exist, until a pod is on one."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count, islice

from gpu_core.decisions.catalog.product_names import nominal_memory_gib
from gpu_core.decisions.kubernetes.manifests.launch import Wanted
from gpu_core.decisions.kubernetes.nodes.clouds import INSTANCE_TYPE_LABEL
from gpu_core.decisions.kubernetes.nodes.gpus import expected_gpus
from gpu_core.decisions.kubernetes.nodes.nodes import NodeFacts
from gpu_core.decisions.model.cluster import ZONE_LABEL, Allocation, Node, NodeShare, Placement
from gpu_core.decisions.model.virtual_nodes import planned_kind, planned_name
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy
from gpu_core.decisions.policy.provisioned_nodes import ProvisionedNodes

NODE_POOL_LABEL = "karpenter.sh/nodepool"

_MIB_PER_GIB = 1024


def planned_nodes(
    kinds: Sequence[ProvisionedNodes],
    real: Iterable[NodeFacts],
    awaited: Collection[str],
    policy: KubernetesPolicy | None = None,
) -> tuple[Node, ...]:
    """The nodes that may still come.

    Args:
        kinds: What the provisioner may add. A real node counts as one of the first kind that it
            belongs to and that is not full.
        awaited: The names of planned nodes that attempts wait for: they stay in any case.
        policy: Says how the GPUs of node pools are shared.
    """
    policy = policy or KubernetesPolicy()
    there = _counted(kinds, real)
    found: list[Node] = []
    for kind in kinds:
        names = [name for name in awaited if planned_kind(name) == kind.name]
        more = max(0, kind.max_nodes - there[kind.name] - len(names))
        if why_not_launched(kind, policy) is not None:
            more = 0
        found += [
            _node(name, kind, policy) for name in (*sorted(names), *_fresh(kind, names, more))
        ]
    return tuple(found)


def why_not_launched(kind: ProvisionedNodes, policy: KubernetesPolicy) -> str | None:
    """The reason why Karpenter would add no node of this kind for pods that could run there.

    Args:
        kind: Of a NodePool, or the policy's own, of which its author knows.
        policy: Says how the GPUs of node pools are shared.
    """
    labels = _labels(kind)
    if NODE_POOL_LABEL not in labels:
        return None
    sharing = policy.sharing_of(labels)
    resource = expected_gpus(labels, kind.gpu_type, kind.gpus_per_node, sharing).resource
    if resource == sharing.gpu_resource:
        return None
    return (
        f"Karpenter does not provision nodes for {resource}, which is only available on "
        "existing nodes"
    )


def wanted_for(placement: Placement, kinds: Iterable[ProvisionedNodes]) -> Wanted | None:
    """The nodes that should come for this placement; None: all of its nodes are there."""
    names = {planned_kind(share.node) for share in placement.shares}
    if names <= {None}:
        return None
    # A gang over several kinds, or on nodes that are there as well, may get any that are alike.
    labels = {label for kind in kinds if names == {kind.name} for label in _labels(kind).items()}
    return Wanted(
        gpu_types=() if placement.gpu_type is None else (placement.gpu_type,),
        capacity_types=(placement.capacity_type,),
        node_labels=tuple(sorted(labels)),
    )


def expected_nodes(
    kinds: Iterable[ProvisionedNodes], real: Iterable[NodeFacts], awaited: Iterable[str]
) -> set[str]:
    """The nodes among these that may have come for an attempt that waits for one.

    Args:
        awaited: The names of planned nodes that attempts wait for.
    """
    names = {planned_kind(name) for name in awaited}
    wanted = [kind for kind in kinds if kind.name in names]
    return {facts.node.name for facts in real if any(belongs_to(kind, facts) for kind in wanted)}


def belongs_to(kind: ProvisionedNodes, facts: NodeFacts) -> bool:
    """Is this node one of the kind?"""
    node = facts.node
    gpus = len(node.gpu_ids) + facts.foreign_gpus
    return (
        node.gpu_type == kind.gpu_type
        and node.capacity_type == kind.capacity_type
        # A node that has just joined offers none yet.
        and gpus in (0, kind.gpus_per_node)
        and _labels(kind).items() <= node.labels.items()
    )


def taken_milli(allocations: Iterable[Allocation]) -> dict[tuple[str, str], int]:
    """How many thousandths of which GPU of which node are held?"""
    taken: Counter[tuple[str, str]] = Counter()
    for allocation in allocations:
        for share in allocation.placement.shares:
            for gpu_id in share.gpu_ids:
                taken[share.node, gpu_id] += share.share_milli
    return dict(taken)


def with_foreign_gpus(facts: NodeFacts) -> Node:
    """The node with the GPUs that other people's pods hold now, which are taken last.

    Who was bound there before them had one of those, perhaps; the cluster found room for it.
    """
    node, foreign = facts.node, facts.foreign_gpu_ids
    return replace(
        node,
        gpu_ids=(*node.gpu_ids, *foreign),
        unhealthy_gpu_ids=node.unhealthy_gpu_ids.union(foreign),
    )


def landed(
    placement: Placement, nodes: Sequence[Node], taken_milli: Mapping[tuple[str, str], int]
) -> Placement | None:
    """The placement of a workload on the real nodes that its pods are on.

    The device plugin does not say which GPUs a pod got. It is those that none of our attempts
    holds, healthy ones first; a GPU that is shared already before one that is whole, and one of the
    plan before another.

    Args:
        nodes: Where its pods are, one for each share of the placement.
        taken_milli: Thousandths that others hold, by node and GPU.

    Returns:
        None: not this many GPUs are known to be free there.
    """
    shares = []
    taken = Counter(taken_milli)
    for share, node in zip(placement.shares, nodes, strict=True):
        ids = free_ids(share, node, taken)
        if len(ids) < len(share.gpu_ids):
            return None
        chosen = tuple(sorted(ids[: len(share.gpu_ids)]))
        taken.update({(node.name, gpu_id): share.share_milli for gpu_id in chosen})
        shares.append(replace(share, node=node.name, gpu_ids=chosen))
    return replace(
        placement,
        gpu_type=None if placement.gpu_type is None else nodes[0].gpu_type,
        capacity_type=nodes[0].capacity_type,
        shares=tuple(shares),
    )


def free_ids(share: NodeShare, node: Node, taken_milli: Mapping[tuple[str, str], int]) -> list[str]:
    """The GPUs of a node that have room for a share, the likeliest first, as `landed` says.

    Args:
        taken_milli: Thousandths that others hold, by node and GPU.
    """
    taken = {gpu_id: taken_milli.get((node.name, gpu_id), 0) for gpu_id in node.gpu_ids}
    free = [
        gpu_id for gpu_id in node.gpu_ids if taken[gpu_id] + share.share_milli <= WHOLE_GPU_MILLI
    ]
    planned = share.gpu_ids if share.node == node.name else ()

    def wanted(gpu_id: str) -> tuple[bool, int, bool]:
        return gpu_id in node.unhealthy_gpu_ids, -taken[gpu_id], gpu_id not in planned

    return sorted(free, key=wanted)


def _counted(kinds: Sequence[ProvisionedNodes], real: Iterable[NodeFacts]) -> Counter[str]:
    there: Counter[str] = Counter()
    for facts in real:
        for kind in kinds:
            if there[kind.name] < kind.max_nodes and belongs_to(kind, facts):
                there[kind.name] += 1
                break
    return there


def _fresh(kind: ProvisionedNodes, names: Collection[str], more: int) -> Iterator[str]:
    unused = (name for number in count() if (name := planned_name(kind.name, number)) not in names)
    return islice(unused, more)


def _node(name: str, kind: ProvisionedNodes, policy: KubernetesPolicy) -> Node:
    labels = _labels(kind)
    sharing = policy.sharing_of(labels)
    gpus = expected_gpus(labels, kind.gpu_type, kind.gpus_per_node, sharing)
    return Node(
        name=name,
        gpu_type=kind.gpu_type,
        gpu_ids=tuple(str(number) for number in range(kind.gpus_per_node)),
        gpu_memory_gib=nominal_memory_gib(kind.gpu_type),
        capacity_type=kind.capacity_type,
        cpu_milli=None if kind.cpu is None else int(kind.cpu * 1000),
        memory_mib=None if kind.memory_gib is None else int(kind.memory_gib * _MIB_PER_GIB),
        labels=labels,
        taints=frozenset(kind.taints),
        is_shareable=gpus.is_shareable,
        has_whole_gpus=not gpus.is_shareable,
        shares_per_gpu=gpus.shares_per_gpu,
        gpu_resource=gpus.resource,
        is_mig=bool(gpus.mig_instances),
        mig_instances=gpus.mig_instances or None,
        is_planned=True,
    )


def _labels(kind: ProvisionedNodes) -> dict[str, str]:
    own = {ZONE_LABEL: kind.zone, INSTANCE_TYPE_LABEL: kind.instance_type}
    return {
        **{label: value for label, value in own.items() if value is not None},
        **kind.node_labels,
    }
