"""The nodes and GPUs that attempts hold, from the observed pods."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from gpu_core.adapters.kubernetes.api import Json
from gpu_core.decisions.kubernetes.manifests.gang import node_rank
from gpu_core.decisions.kubernetes.nodes.final_place import UNKNOWN_GPU_TYPE, final_placement
from gpu_core.decisions.kubernetes.nodes.labels import capacity_type_of
from gpu_core.decisions.kubernetes.nodes.overlap import is_overlapping, without_overlap
from gpu_core.decisions.kubernetes.nodes.virtual_nodes import (
    landed,
    taken_milli,
    with_foreign_gpus,
)
from gpu_core.decisions.kubernetes.status.pod_termination import first_start_at, last_end_at
from gpu_core.decisions.model.cluster import Allocation, Flavor, Node, Placement
from gpu_core.decisions.policy.policy import Policy
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.infrastructure import Binding
from gpu_core.worker.kubernetes.cluster.cluster_cache import ClusterCache, has_pod_ended, wants_gpus
from gpu_core.worker.kubernetes.cluster.node_inventory import NodeInventory
from gpu_core.worker.kubernetes.jobs.job_status import bound_at, parse_moment


class Bindings:
    """Finds out where attempts are that were placed on nodes to come, or that others place.

    Args:
        view: The watched pods.
        offers: What is known of nodes.
    """

    def __init__(self, view: ClusterCache, offers: NodeInventory) -> None:
        self._view = view
        self._offers = offers

    def current(self, running: AttemptState, unsettled: Sequence[AttemptState]) -> Binding | None:
        """The GPUs that it holds, on the nodes that its pods are bound to.

        Those are other ones than it was placed on where it waited for new nodes, and where Kueue
        and the kube-scheduler place it; these also bind it later.

        Returns:
            None: those that are written down, or it is not yet on all of its nodes.
        """
        if running.attempt.bound_at is not None:
            return None
        placement = running.allocation().placement
        pods = self._gpu_pods(running)
        since = bound_at(pods)
        if since is None or len(pods) != len(placement.shares):
            return None
        taken = self._taken(running, unsettled, {_node_of(pod) for pod in pods})
        if self._is_in_place(running) and not is_overlapping(placement, taken):
            return Binding(
                placement=placement, since=since, node=self._node(placement.shares[0].node)
            )
        pods.sort(key=_name_of)
        nodes = [node for pod in pods if (node := self._node(_node_of(pod))) is not None]
        if len(nodes) != len(pods):
            return None
        found = landed(placement, nodes, taken)
        return None if found is None else Binding(placement=found, since=since, node=nodes[0])

    def final(self, running: AttemptState, unsettled: Sequence[AttemptState]) -> Binding | None:
        """The GPUs that it held, of which nothing lives any more.

        Returns:
            None: those that are written down.
        """
        placement = running.allocation().placement
        pods = self._pods_that_began(running)[: len(placement.shares)]
        names = [_node_of(pod) for pod in pods]
        if self._stands(running, names):
            return None
        taken = self._taken(running, unsettled, set(names))
        nodes = {name: node for name in names if (node := self._node(name)) is not None}
        found = final_placement(
            placement,
            [*names, *[None] * (len(placement.shares) - len(names))],
            nodes,
            taken,
            _flavor_without_node(running),
        )
        if sorted(_nodes_of(found)) == sorted(_nodes_of(placement)):
            return None
        first = nodes.get(found.shares[0].node)
        since = bound_at(pods) or running.attempt.admitted_at
        return Binding(placement=found, since=since, node=first)

    def allocations(
        self, attempts: Sequence[AttemptState], policy: Policy
    ) -> tuple[Allocation, ...]:
        """The allocations of these attempts. One that others place holds no GPU of a bound attempt.

        Others may bind one to GPUs of an attempt whose end is not seen yet.
        """
        is_pinned = policy.kubernetes.kueue_queue is None
        if is_pinned and all(running.attempt.bound_at is not None for running in attempts):
            return tuple(running.allocation() for running in attempts)
        ranked = sorted(attempts, key=lambda running: not self._is_certain(running))
        return without_overlap(running.allocation() for running in ranked)

    def was_on_a_node(self, attempt_id: str) -> bool:
        """Was a pod of it ever seen on a node?"""
        return any("nodeName" in pod["spec"] for pod in self._view.last_pods_of(attempt_id))

    def _taken(
        self, running: AttemptState, unsettled: Sequence[AttemptState], names: set[str]
    ) -> dict[tuple[str, str], int]:
        """How much of which GPU of these nodes did others hold while it was there?

        Those that another scheduler has still to place hold nothing that counts here; nor do those
        that were there before or after it, settled or not.
        """
        return taken_milli(
            other.allocation()
            for other in unsettled
            if other is not running
            and any(share.node in names for share in other.attempt.held)
            and self._is_certain(other)
            and self._were_together(running, other)
        )

    def _is_certain(self, running: AttemptState) -> bool:
        """Is it on the nodes that are written down, or on none?"""
        return running.attempt.bound_at is not None or self._is_in_place(running)

    def _node(self, name: str) -> Node | None:
        facts = self._offers.facts(name)
        return None if facts is None else with_foreign_gpus(facts)

    def _gpu_pods(self, running: AttemptState) -> list[Json]:
        """Its pods with GPUs, where some have none: the launcher of an operator's job, say.

        Where all are gone, as they were seen last: an end may come before a cycle.
        """
        attempt_id = running.attempt.attempt_id
        pods = self._view.pods_of(attempt_id) or self._view.last_pods_of(attempt_id)
        return [pod for pod in pods if wants_gpus(pod)] or pods

    def _pods_that_began(self, running: AttemptState) -> list[Json]:
        """Of each of its nodes the first pod that was on one, gone or not.

        Kubernetes makes another pod for one that is deleted; the worker then ends the attempt.
        """
        pods = self._view.last_pods_of(running.attempt.attempt_id)
        bound = [pod for pod in pods if "nodeName" in pod["spec"]]
        first: dict[str, Json] = {}
        for pod in sorted([p for p in bound if wants_gpus(p)] or bound, key=_order_of_start):
            first.setdefault(_place_in_gang(pod), pod)
        return sorted(first.values(), key=_name_of)

    def _stands(self, running: AttemptState, names: Sequence[str]) -> bool:
        """Were its nodes certain, and do the pods that were seen not contradict that?

        An earlier worker may have seen pods that are gone. A node that was waited for stands while
        nothing is known of another one.
        """
        if running.attempt.bound_at is None:
            return not names and bool(running.awaited_kinds or not running.attempt.held)
        written = Counter(share.node for share in running.attempt.held)
        return not Counter(names) - written

    def _is_in_place(self, running: AttemptState) -> bool:
        """Are all its pods bound, to the nodes that are written down?"""
        bound = sorted(str(pod["spec"].get("nodeName")) for pod in self._gpu_pods(running))
        return bound == sorted(share.node for share in running.attempt.held)

    def _were_together(self, one: AttemptState, other: AttemptState) -> bool:
        """Were the pods of both on their nodes at a time? Also where it is unknown."""
        return not (self._left_before(one, other) or self._left_before(other, one))

    def _left_before(self, one: AttemptState, other: AttemptState) -> bool:
        """Had the pods of the first ended when those of the other were bound?"""
        left = [self._left_at(pod) for pod in self._gpu_pods(one)]
        came_at = bound_at(self._gpu_pods(other))
        known = [at for at in left if at is not None]
        if came_at is None or not known or len(known) < len(left):
            return False
        return max(known) <= came_at

    def _left_at(self, pod: Json) -> datetime | None:
        """The moment at which the pod left its node; None: it has not, or it is unknown.

        Another node with the same name is there only after the machine was gone.
        """
        if has_pod_ended(pod):
            return last_end_at([pod])
        node = self._view.nodes.get(pod["spec"].get("nodeName", ""), {})
        came_at = parse_moment(node.get("metadata", {}).get("creationTimestamp"))
        since = bound_at([pod])
        is_another = came_at is not None and since is not None and since < came_at
        return came_at if is_another else None


def _flavor_without_node(running: AttemptState) -> Flavor:
    """The kind of GPU that it held, where nothing is known of its node.

    Its pods are only on nodes of the types that it asked for, or of the kind that it waited for.
    """
    attempt, types = running.attempt, running.workload.shape.gpu_types
    if not running.is_to_be_placed:
        return Flavor(attempt.gpu_type or UNKNOWN_GPU_TYPE, attempt.capacity_type)
    gpu_type = types[0] if len(types) == 1 else UNKNOWN_GPU_TYPE
    return Flavor(gpu_type, capacity_type_of({}))


def _place_in_gang(pod: Json) -> str:
    metadata = pod["metadata"]
    job = (metadata.get("labels") or {}).get("job-name")
    return str(metadata["name"]) if job is None else f"{job}/{node_rank(pod)}"


def _order_of_start(pod: Json) -> tuple[bool, str, str]:
    began_at = first_start_at([pod])
    return began_at is None, "" if began_at is None else began_at.isoformat(), _name_of(pod)


def _nodes_of(placement: Placement) -> list[str]:
    return [share.node for share in placement.shares]


def _node_of(pod: Json) -> str:
    return str(pod["spec"]["nodeName"])


def _name_of(pod: Json) -> str:
    return str(pod["metadata"]["name"])
