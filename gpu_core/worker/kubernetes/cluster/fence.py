"""Nodes whose pods are known to be over, and silent ones of which it is not known."""

from collections.abc import Iterable
from datetime import UTC, datetime

from gpu_core.adapters.kubernetes.api import Json
from gpu_core.decisions.kubernetes.nodes.clouds import MACHINE_OFF_TAINTS
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy
from gpu_core.worker.attempts.run_log import run_log
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.kubernetes.cluster.cluster_cache import ClusterCache
from gpu_core.worker.kubernetes.jobs.job_status import runs, silent_for_s


def fenced_nodes(view: ClusterCache, policy: KubernetesPolicy, now: datetime) -> frozenset[str]:
    """The nodes with pods of this pool that no longer run any container.

    On those that Kubernetes has deleted, and on silent ones whose machine is off by the word of an
    operator or of the cloud. By time alone only where the policy says so.

    A node that the watch has not seen may be new: pods and nodes are watched apart, and what
    runs there must not be taken for lost.
    """
    names = {
        pod["spec"]["nodeName"]
        for attempt_id in view.attempt_ids
        for pod in view.pods_of(attempt_id)
        if "nodeName" in pod["spec"]
    }

    def is_fenced(name: str) -> bool:
        node = view.nodes.get(name)
        if node is None:
            return name in view.gone_nodes
        silence_s = silent_for_s(node, now)
        if silence_s is None:
            return False
        if _is_machine_off(node):
            return True
        return policy.fenced_after_s is not None and silence_s >= policy.fenced_after_s

    return frozenset(name for name in names if is_fenced(name))


def _is_machine_off(node: Json) -> bool:
    taints = (node.get("spec") or {}).get("taints") or ()
    return any(taint["key"] in MACHINE_OFF_TAINTS for taint in taints)


class SilentNodes:
    """Logs once to each run that its node is silent, and what has to happen before it continues."""

    def __init__(self, view: ClusterCache) -> None:
        self._view = view
        self._logged: dict[str, str] = {}

    def log(
        self,
        attempts: Iterable[AttemptState],
        fenced: frozenset[str],
        policy: KubernetesPolicy,
        now: datetime,
    ) -> None:
        """Write it to the log of each run that waits for a silent node."""
        logged: dict[str, str] = {}
        for running in attempts:
            attempt_id = running.attempt.attempt_id
            name = self._silent_node_of(attempt_id, fenced, policy, now)
            if name is None:
                continue
            logged[attempt_id] = name
            if self._logged.get(attempt_id) != name:
                silent_s = silent_for_s(self._view.nodes[name], now) or 0.0
                since = datetime.fromtimestamp(now.timestamp() - silent_s, UTC)
                run_log(running).warning("%s", silence_text(name, since, policy))
        self._logged = logged

    def _silent_node_of(
        self, attempt_id: str, fenced: frozenset[str], policy: KubernetesPolicy, now: datetime
    ) -> str | None:
        for pod in self._view.pods_of(attempt_id):
            name = pod["spec"].get("nodeName")
            node = self._view.nodes.get(name) if name else None
            if node is None or not runs(pod, fenced):
                continue
            silent_s = silent_for_s(node, now)
            if silent_s is not None and silent_s >= policy.silent_after_s:
                return str(name)
        return None


def silence_text(node: str, since: datetime, policy: KubernetesPolicy) -> str:
    """The message shown while a node does not report, with the remedy."""
    by_time = (
        (
            "`kubernetes.fenced_after` is not set in the policy, so the run is not restarted "
            "automatically"
        )
        if policy.fenced_after_s is None
        else f"The run is restarted after {policy.fenced_after_s} seconds without a report"
    )
    return (
        f"Node {node} has not reported since {since:%H:%M:%S} UTC and this run may still be "
        f"running there. {by_time}. If the machine is powered off, run `kubectl delete node "
        f"{node}` or `kubectl taint node {node} "
        "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute`."
    )
