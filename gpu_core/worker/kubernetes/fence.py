"""Nodes that nobody waits for any more: what lives on them cannot be ended."""

from datetime import datetime

from gpu_core.decisions.kubernetes.policy import KubernetesPolicy
from gpu_core.worker.kubernetes.ending import silent_for_s
from gpu_core.worker.kubernetes.view import ClusterView


def fenced_nodes(view: ClusterView, policy: KubernetesPolicy, now: datetime) -> frozenset[str]:
    """Which nodes with pods of ours are gone, or have been silent for too long?

    One that the watch has not told of may be new: pods and nodes are watched apart, and what runs
    there must not be taken for lost.
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
        return silence_s is not None and silence_s >= policy.fenced_after_s

    return frozenset(name for name in names if is_fenced(name))
