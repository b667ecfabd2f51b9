"""PriorityClasses: the order of our queues, in the kube-scheduler's own words."""

from collections.abc import Mapping

from gpu_core.decisions.kubernetes.merge import Manifest
from gpu_core.decisions.kubernetes.names import object_name
from gpu_core.decisions.kubernetes.policy import KubernetesPolicy

# Kubernetes keeps what is above to itself (user-defined classes end at a billion).
_HIGHEST = 1_000_000_000


def priority_class_name(queue: str | None, policy: KubernetesPolicy) -> str | None:
    """Which class has a pod with the points of this queue? None: pods have no class.

    Only the policy's queues have one: a pod whose class is not there is refused.
    """
    return _name(queue) if queue is not None and policy.has_priority_classes else None


def priority_classes(priorities: Mapping[str, int]) -> tuple[Manifest, ...]:
    """The classes to install, one for each queue.

    They preempt nobody: whose GPUs are taken is our scheduler's decision alone, with notice and
    by what would be lost.

    Args:
        priorities: Points by queue, from the policy.
    """
    return tuple(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": _name(queue)},
            "value": min(points, _HIGHEST),
            "preemptionPolicy": "Never",
            "globalDefault": False,
            "description": f"Runs of the queue {queue!r}, scheduled by prefect-gpu.",
        }
        for queue, points in priorities.items()
    )


def _name(queue: str) -> str:
    return object_name("prefect-gpu-", queue)
