"""The inventory of the nodes of a cluster, recomputed only for nodes that changed."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from gpu_core.adapters.kubernetes.api import Json
from gpu_core.decisions.kubernetes.nodes.karpenter_node_pools import NodePoolOffer, node_pool_offer
from gpu_core.decisions.kubernetes.nodes.nodes import NodeFacts, node_facts
from gpu_core.decisions.kubernetes.nodes.template_constraints import (
    PodSpec,
    admits,
    pod_spec_of,
    untolerated,
)
from gpu_core.decisions.kubernetes.nodes.virtual_nodes import (
    expected_nodes,
    planned_nodes,
    why_not_launched,
)
from gpu_core.decisions.model.cluster import Allocation, Node, Placement
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.virtual_nodes import planned_kind
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.policy.provisioned_nodes import ProvisionedNodes
from gpu_core.worker.kubernetes.cluster.cluster_cache import ClusterCache

_log = logging.getLogger("prefect.gpu.offers")


class NodeInventory:
    """The nodes as the scheduler plans with them.

    Args:
        view: The cluster.
        pool: Our pool's name: what its pods use is what the scheduler has given.
        template: The pool's base job template, as it is now.
    """

    def __init__(
        self, view: ClusterCache, pool: str, template: Callable[[], Mapping[str, Any]] = dict
    ) -> None:
        self._view = view
        self._pool = pool
        self._template = template
        self._policy: KubernetesPolicy | None = None
        self._pod_spec: PodSpec = {}
        self._held: dict[str, frozenset[str]] = {}
        self._facts: dict[str, NodeFacts] = {}
        self._known: set[str] = set()
        self._expected: set[str] = set()
        self._refusals: dict[str, tuple[str, ...]] = {}
        self._nodes: dict[str, Node] | None = None
        self.kinds: tuple[ProvisionedNodes, ...] = ()
        """The kinds of nodes that may come, as of the last cycle."""
        self.shares_per_gpu: frozenset[int] | None = None
        """By how many are GPUs shared on the nodes? None: they are not known yet."""

    def nodes(
        self,
        policy: Policy,
        allocations: Sequence[Allocation],
        node_pools: Iterable[Json] = (),
    ) -> tuple[Node, ...]:
        """The nodes with GPUs, without what the pods of others use of them, and what may come.

        Args:
            policy: Of the pool.
            allocations: What our attempts hold.
            node_pools: Of Karpenter.
        """
        held = _held(allocations)
        dirty = self._view.take_dirty_nodes() | _differing(held, self._held)
        pod_spec = pod_spec_of(self._template())
        if policy.kubernetes != self._policy or pod_spec != self._pod_spec:
            dirty |= self._view.nodes.keys()
        self._policy, self._held, self._pod_spec = policy.kubernetes, held, pod_spec
        for name in dirty:
            self._work_out(name, policy.kubernetes, held.get(name, frozenset()))
        facts = [self._facts[name] for name in sorted(self._facts)]
        of_pools = self._kinds(node_pools, facts, policy.kubernetes)
        # Of two with one name the policy's counts: nodes are known by it.
        by_name = {kind.name: kind for kind in (*of_pools, *policy.kubernetes.provisioned)}
        self.kinds = kinds = tuple(by_name.values())
        awaited = {name for name in held if planned_kind(name) is not None}
        self._notice_expected(expected_nodes(kinds, facts, awaited))
        real = (
            _closed(known.node) if known.node.name in self._expected else known.node
            for known in facts
        )
        planned = planned_nodes(kinds, facts, awaited, policy.kubernetes)
        found = tuple(
            replace(node, taints=untolerated(node.taints, pod_spec)) if node.taints else node
            for node in (*real, *planned)
        )
        self._nodes = {node.name: node for node in found}
        shares = {node.shares_per_gpu for node in found}
        self.shares_per_gpu = frozenset(each for each in shares if each is not None)
        return found

    def gpu_counts(self) -> dict[str, int]:
        """How many GPUs does each node have, as of the last cycle?"""
        machines = ((name, facts.node.machine) for name, facts in self._facts.items())
        return {name: machine.gpus for name, machine in machines if machine and machine.gpus}

    def gpu_resource(self, placement: Placement) -> str | None:
        """The resource name of GPUs on the nodes of this placement; None: they are not known."""
        nodes = (self._nodes or {}).get
        found = (nodes(share.node) for share in placement.shares if share.gpu_ids)
        return next((node.gpu_resource for node in found if node is not None), None)

    def _kinds(
        self, node_pools: Iterable[Json], facts: Sequence[NodeFacts], policy: KubernetesPolicy
    ) -> list[ProvisionedNodes]:
        """The nodes that the NodePools may add. The reason why one adds no more is logged once."""
        found: list[ProvisionedNodes] = []
        refusals: dict[str, tuple[str, ...]] = {}
        for node_pool in node_pools:
            offer = _offer(node_pool, facts, policy.gpu_resource)
            found += offer.kinds
            shared = {why_not_launched(kind, policy) for kind in offer.kinds}
            refusals[node_pool["metadata"]["name"]] = (
                *offer.refusals,
                *sorted(filter(None, shared)),
            )
        for name, why in refusals.items():
            if why and why != self._refusals.get(name):
                _log.warning("NodePool %s cannot add nodes: %s", name, "; ".join(why))
        self._refusals = refusals
        return found

    def _notice_expected(self, awaited: set[str]) -> None:
        """Keep new nodes for those who wait for them, until their pods are there.

        The kube-scheduler takes some seconds to bind them. A run that is placed there
        meanwhile would wait for GPUs that are taken.
        """
        new = self._facts.keys() - self._known
        self._known = set(self._facts)
        self._expected = ((self._expected | new) & awaited) - self._held.keys()

    def facts(self, name: str) -> NodeFacts | None:
        """The facts of this node that the scheduler does not plan with.

        Of one that is gone it is what was seen last, also if it came and went between two cycles.
        """
        known = self._facts.get(name)
        gone = self._view.gone_nodes.get(name)
        if known is not None or gone is None or self._policy is None:
            return known
        return self._read(name, gone, self._policy, self._held.get(name, frozenset()))

    def _work_out(self, name: str, policy: KubernetesPolicy, held: frozenset[str]) -> None:
        known = self._facts.pop(name, None)
        node = self._view.nodes.get(name)
        if node is None or not admits(self._pod_spec, node):
            return
        facts = self._read(name, node, policy, held)
        if facts is None:
            return
        self._facts[name] = facts
        if facts.unusable and (known is None or facts.unusable != known.unusable):
            why = "; ".join(facts.unusable)
            _log.warning("Ignoring GPUs on node %s: %s", name, why)
        elif facts.contradictions and (
            known is None or facts.contradictions != known.contradictions
        ):
            why = "; ".join(facts.contradictions)
            _log.warning("Falling back to the labels and resources of node %s: %s", name, why)

    def _read(
        self, name: str, node: Json, policy: KubernetesPolicy, held: frozenset[str]
    ) -> NodeFacts | None:
        try:
            return node_facts(
                node, self._view.pods_on(name), policy, pool=self._pool, held_gpu_ids=held
            )
        except InvalidInput as error:
            # One node that cannot be read must not keep the others from being used.
            _log.warning("Skipping node %s: %s", name, error)
            return None


def _offer(node_pool: Json, facts: Sequence[NodeFacts], gpu_resource: str) -> NodePoolOffer:
    """The nodes that it may add; empty, with the reason, if it cannot be read."""
    try:
        return node_pool_offer(node_pool, facts, gpu_resource)
    except (InvalidInput, ValidationError) as error:
        return NodePoolOffer(refusals=(str(error),))


def _closed(node: Node) -> Node:
    return replace(node, unhealthy_gpu_ids=frozenset(node.gpu_ids))


def _held(allocations: Iterable[Allocation]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for allocation in allocations:
        for share in allocation.placement.shares:
            found[share.node].update(share.gpu_ids)
    return {node: frozenset(ids) for node, ids in found.items()}


def _differing(one: dict[str, frozenset[str]], other: dict[str, frozenset[str]]) -> set[str]:
    return {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}
