"""The GPUs of a cluster that count, and the reasons why the others do not."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpu_core.decisions.checks.doctor.finding import Finding, failed, ok, warning
from gpu_core.decisions.kubernetes.nodes.held_gpus import free_command, withheld_gpus
from gpu_core.decisions.kubernetes.nodes.karpenter_node_pools import NodePoolOffer
from gpu_core.decisions.kubernetes.nodes.nodes import NodeFacts
from gpu_core.decisions.model.cluster import Node
from gpu_core.decisions.model.gpu_health import HeldGpu
from gpu_core.decisions.model.units import count
from gpu_core.decisions.policy.kubernetes import Provisioner

# A cluster may have hundreds of nodes with the same trouble.
_MOST_LINES = 20

_UNKNOWN_TYPE = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenNode:
    """A Node object, read for the scheduler.

    Attributes:
        facts: What is planned with; None: it has no GPU, or cannot be read.
        is_admitted: Whether the pool's base job template lets pods on it.
        error: Why it cannot be read; None: it can.
        held: Its GPUs that no run may use, because they are not well.
    """

    name: str
    facts: NodeFacts | None
    is_admitted: bool = True
    error: str | None = None
    held: tuple[HeldGpu, ...] = ()


def usable_gpus(nodes: Sequence[SeenNode]) -> Counter[str]:
    """How many healthy GPUs of each type are there to plan with?"""
    gpus = Counter[str]()
    for facts in _good(nodes):
        gpus[facts.node.gpu_type] += len({*facts.node.gpu_ids} - facts.node.unhealthy_gpu_ids)
    return gpus


def _good(nodes: Sequence[SeenNode]) -> list[NodeFacts]:
    usable = [(node, facts) for node in nodes if (facts := node.facts) is not None]
    good = [facts for node, facts in usable if node.is_admitted and not facts.blocked_by]
    return [
        facts for facts in good if not facts.node.unhealthy_gpu_ids.issuperset(facts.node.gpu_ids)
    ]


def node_findings(nodes: Sequence[SeenNode], *, may_add: bool) -> Iterator[Finding]:
    """How many GPUs are there to plan with, and why does each other node not count?"""
    good, gpus = _good(nodes), usable_gpus(nodes)
    total = gpus.total()
    without = sum(node.facts is None and node.error is None for node in nodes)
    counted = f"{count(total, 'GPU')} on {count(len(good), 'node')}"
    kinds = ", ".join(f"{name} {number}" for name, number in sorted(gpus.items()) if number)
    rest = f" ({count(without, 'node')} without GPUs)" if without else ""
    if total:
        yield ok("nodes.gpus", f"{counted}: {kinds}{rest}")
    elif may_add:
        yield ok("nodes.gpus", f"No GPUs found{rest}. Nodes can be added by the provisioner")
    else:
        yield failed(
            "nodes.gpus",
            f"No usable GPUs found{rest}",
            "please add GPU nodes with the NVIDIA device plugin installed, or see the findings "
            "below",
        )
    troubles = [line for node in nodes for line in _troubles(node)]
    yield from troubles[:_MOST_LINES]
    if len(troubles) > _MOST_LINES:
        yield warning(
            "nodes.unused", f"{len(troubles) - _MOST_LINES} more nodes excluded from scheduling"
        )


def _troubles(node: SeenNode) -> Iterator[Finding]:
    if node.error is not None:
        yield warning("nodes.unused", f"Failed to read node {node.name}: {node.error}")
        return
    facts = node.facts
    if facts is None:
        return
    gpus = count(len(facts.node.gpu_ids), "GPU")
    if not node.is_admitted:
        yield warning(
            "nodes.unused",
            f"node {node.name} ({gpus}) is excluded by the base job template of the pool",
            "please check the nodeSelector and affinity in the template",
        )
    elif facts.blocked_by:
        remedy = "please check the `kubernetes` section of the policy" if facts.unusable else None
        why = "; ".join(facts.blocked_by)
        yield warning("nodes.unused", f"node {node.name}, {gpus}: {why}", remedy)
    elif facts.contradictions:
        why = "; ".join(facts.contradictions)
        yield warning(
            "nodes.sharing",
            f"node {node.name}: {why}",
            "the node's labels and resources take precedence. Please update the policy",
        )
    elif facts.node.gpu_type == _UNKNOWN_TYPE:
        yield warning(
            "nodes.gpu-type",
            f"node {node.name} ({gpus}) does not have a GPU type label",
            "please install GPU Feature Discovery or specify a label in "
            "`kubernetes.gpu_type_labels`",
        )
    elif node.held:
        yield _held_finding(facts.node, node.held)
    elif facts.node.unhealthy_gpu_ids:
        broken = count(len(facts.node.unhealthy_gpu_ids), "GPU")
        yield warning(
            "nodes.unused",
            f"node {node.name}: {broken} of {len(facts.node.gpu_ids)} reported as unhealthy by "
            "the device plugin",
            "please check the device plugin logs on this node",
        )


def _held_finding(node: Node, held: Sequence[HeldGpu]) -> Finding:
    others = withheld_gpus(node)
    rest = f". {count(others, 'other GPU')} may remain idle until it is withdrawn" if others else ""
    why = "; ".join(f"{gpu.gpu_id} is held: {gpu.reason}" for gpu in held)
    return warning(
        "nodes.held",
        f"node {node.name}: {why}{rest}",
        f"{held[0].remedy}, then {free_command(node.name)}",
    )


def node_pool_findings(
    provisioner: Provisioner, offers: Mapping[str, NodePoolOffer] | None
) -> Iterator[Finding]:
    """The nodes that each NodePool may still add, and the reason why not more.

    Args:
        offers: By NodePool; None: the cluster has no Karpenter.
    """
    check = "node-pools.karpenter"
    is_wanted = provisioner is Provisioner.KARPENTER
    if offers is None:
        if is_wanted:
            yield failed(
                check,
                "The provisioner in the policy is karpenter, but no NodePool resources are "
                "available in the cluster",
                "please install Karpenter v1 or set `kubernetes.provisioner` to fixed",
            )
        return
    if offers and not is_wanted:
        yield warning(
            check,
            f"{count(len(offers), 'NodePool')} found but not used, because the provisioner in the "
            f"policy is {provisioner.value}",
            "to use them, set `kubernetes.provisioner` to karpenter",
        )
        return
    if is_wanted and not offers:
        yield warning(
            check, "No NodePools found, so no nodes can be added", "please create a NodePool"
        )
    for name, offer in sorted(offers.items()):
        yield from _offer_findings(name, offer)


def _offer_findings(name: str, offer: NodePoolOffer) -> Iterator[Finding]:
    if offer.refusals:
        yield warning(
            "node-pools.offer", f"NodePool {name} cannot add nodes: {'; '.join(offer.refusals)}"
        )
        return
    kinds = [
        f"{kind.max_nodes} x {kind.gpus_per_node} {kind.gpu_type} {kind.capacity_type}"
        for kind in offer.kinds
    ]
    text = f"{name} has {count(len(kinds), 'kind')} of GPU nodes, up to {kinds[0]}"
    yield ok("node-pools.offer", text if len(kinds) > 1 else f"{name}: up to {kinds[0]}", kinds)
