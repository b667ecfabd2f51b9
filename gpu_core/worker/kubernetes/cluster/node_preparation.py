"""Nodes made ready for work, by policy: their GPUs tested, images pulled ahead."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import anyio

from gpu_core.adapters.kubernetes import KubernetesApi, KubernetesError
from gpu_core.adapters.kubernetes.api import Json
from gpu_core.decisions.kubernetes.manifests.names import POOL_LABEL, label_value
from gpu_core.decisions.kubernetes.manifests.node_preparation import (
    NODE_ANNOTATION,
    PREFLIGHT_ANNOTATION,
    PREPULL_ANNOTATION,
    TASK_LABEL,
    NodeTest,
    annotation_of,
    has_images,
    is_test_due,
    kept_out_by,
    preflight_pod,
    prepull_pod,
)
from gpu_core.decisions.kubernetes.status.outcome import AttemptOutcome, Phase
from gpu_core.decisions.kubernetes.status.pod_pending import waiting_of
from gpu_core.decisions.kubernetes.status.pod_termination import ending_of
from gpu_core.decisions.model.cluster import Node
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy, Preflight
from gpu_core.worker.kubernetes.cluster.cluster_cache import has_pod_ended
from gpu_core.worker.kubernetes.jobs.job_status import parse_moment
from gpu_core.worker.operations.throttle import Throttle

_log = logging.getLogger("prefect.gpu.nodes")

_POLL_S = 2.0
# This many nodes of a kind at once: what is on their way is a pod each.
_AT_ONCE = 20


class NodePreparation:
    """The pods that test nodes and pull images, and what came of them.

    Everything is remembered on the nodes: a worker that starts anew continues where this one was.

    Args:
        api: The cluster.
        nodes: The Node objects, by name.
        pool: Whose pods these are.
        namespace: Where they run.
        may_act: Asked before everything that changes the cluster.
    """

    def __init__(
        self,
        api: KubernetesApi,
        nodes: Callable[[], Mapping[str, Json]],
        pool: str,
        namespace: str,
        may_act: Callable[[], bool],
    ) -> None:
        self._api = api
        self._nodes = nodes
        self._pool = pool
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._may_act = may_act
        self._polls = Throttle(_POLL_S)
        self._kept_out: dict[str, str] = {}
        self._trouble: str | None = None

    def without_untested(
        self, nodes: Sequence[Node], policy: KubernetesPolicy, now: datetime
    ) -> tuple[Node, ...]:
        """The nodes, and no GPU of those that have to be tested first."""
        if policy.preflight is None:
            return tuple(nodes)
        return tuple(self._tested(node, policy.preflight, now) for node in nodes)

    def _tested(self, node: Node, preflight: Preflight, now: datetime) -> Node:
        known = self._nodes().get(node.name)
        if known is None or _is_divided(node):
            return node
        why = kept_out_by(known, preflight, now)
        if why is None:
            self._kept_out.pop(node.name, None)
            return node
        if node.name not in self._kept_out:
            _log.warning("Node %s is not ready for runs: %s", node.name, why)
        self._kept_out[node.name] = why
        return replace(node, unhealthy_gpu_ids=frozenset(node.gpu_ids))

    async def reconcile(
        self, nodes: Sequence[Node], busy: frozenset[str], policy: KubernetesPolicy
    ) -> None:
        """Read what came of the pods that run, and make those that are due.

        Args:
            nodes: As the cluster offers them, before `without_untested`.
            busy: The names of nodes where attempts of ours hold GPUs.
            policy: Says what is to be done; nothing, by default.
        """
        if policy.preflight is None and not policy.prepull:
            return
        if not self._may_act() or not self._polls.allows(anyio.current_time()):
            return
        try:
            there = await self._read(policy)
            await self._test(nodes, busy, policy, there)
            await self._pull(nodes, policy, there)
            self._trouble = None
        except KubernetesError as error:
            if str(error) != self._trouble:
                _log.warning("Failed to prepare nodes: %s", error)
            self._trouble = str(error)

    async def _read(self, policy: KubernetesPolicy) -> set[str]:
        """Note what is over. Returns the pods that still run."""
        own = f"{TASK_LABEL},{POOL_LABEL}={label_value(self._pool)}"
        answer = await self._api.get(self._pods, {"labelSelector": own})
        going = set()
        for pod in answer.get("items") or ():
            name = pod["metadata"]["name"]
            found = _ended(pod, policy, datetime.now(UTC))
            if found is None:
                going.add(name)
                continue
            await self._note(pod, found)
            await self._api.delete(f"{self._pods}/{name}", grace_s=0)
        return going

    async def _note(self, pod: Json, found: AttemptOutcome) -> None:
        annotations = pod["metadata"].get("annotations") or {}
        name = annotations.get(NODE_ANNOTATION, "")
        node = self._nodes().get(name)
        if node is None:
            return
        is_passed = found.phase is Phase.SUCCEEDED
        if pod["metadata"]["labels"][TASK_LABEL] == "prepull":
            if found.needs_person:
                _log.warning("Failed to pull images to node %s: %s", name, found.message)
            values = {PREPULL_ANNOTATION: annotations.get(PREPULL_ANNOTATION, "")}
        else:
            detail = None if is_passed else found.message
            test = NodeTest(is_passed=is_passed, at=datetime.now(UTC), detail=detail)
            values = {PREFLIGHT_ANNOTATION: annotation_of(node, test)}
            _log.log(
                logging.INFO if is_passed else logging.ERROR,
                "Preflight test of node %s: %s", name, detail or "passed",
            )  # fmt: skip
        await self._api.patch(f"/api/v1/nodes/{name}", {"metadata": {"annotations": values}})

    async def _test(
        self, nodes: Sequence[Node], busy: frozenset[str], policy: KubernetesPolicy, there: set[str]
    ) -> None:
        preflight, now = policy.preflight, datetime.now(UTC)
        if preflight is None:
            return
        for node in nodes:
            known = self._nodes().get(node.name)
            is_usable = bool(node.gpu_ids) and not node.unhealthy_gpu_ids.issuperset(node.gpu_ids)
            if known is None or not is_usable or _is_divided(node) or node.name in busy:
                continue
            if is_test_due(known, preflight, now):
                uid = known["metadata"]["uid"]
                pod = preflight_pod(node, uid, policy, preflight, self._pool)
                await self._make(pod, there)

    async def _pull(self, nodes: Sequence[Node], policy: KubernetesPolicy, there: set[str]) -> None:
        for node in nodes:
            known = self._nodes().get(node.name)
            if known is None or has_images(known, policy.prepull):
                continue
            uid = known["metadata"]["uid"]
            await self._make(prepull_pod(node.name, uid, policy, self._pool), there)

    async def _make(self, pod: Json, there: set[str]) -> None:
        name = pod["metadata"]["name"]
        if name in there or len(there) >= _AT_ONCE:
            return
        there.add(name)
        try:
            await self._api.create(self._pods, pod)
        except KubernetesError as error:
            if not error.is_conflict:
                raise


def _ended(pod: Json, policy: KubernetesPolicy, now: datetime) -> AttemptOutcome | None:
    """The end of this pod, or the reason why it never starts; None: it still runs."""
    if has_pod_ended(pod):
        return ending_of(pod)
    created_at = parse_moment(pod["metadata"].get("creationTimestamp"))
    waits = waiting_of(pod)
    if waits is None or created_at is None:
        return None
    is_late = (now - created_at).total_seconds() >= policy.pending_timeout_s
    return waits if is_late else None


def _is_divided(node: Node) -> bool:
    return node.is_mig or node.is_shareable
