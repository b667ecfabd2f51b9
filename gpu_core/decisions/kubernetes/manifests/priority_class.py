"""PriorityClasses: the order of our queues, in the kube-scheduler's own words."""

from collections.abc import Container, Mapping

from gpu_core.decisions.kubernetes.manifests.merge import Manifest
from gpu_core.decisions.kubernetes.manifests.names import object_name
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy

# Kubernetes keeps what is above to itself (user-defined classes end at a billion).
_HIGHEST = 1_000_000_000


def priority_class_name(queue: str | None, policy: KubernetesPolicy) -> str | None:
    """The PriorityClass of a pod with the points of this queue; None: pods have no class.

    Only the policy's queues have one: a pod whose class is not there is refused.
    """
    return class_name(queue) if queue is not None and policy.has_priority_classes else None


SHIPPED_QUEUES = ("critical", "high", "medium", "low")
"""The queues whose classes come with every installation."""


def queue_with_class(
    queue: str | None, priorities: Mapping[str, int], installed: Container[str]
) -> str | None:
    """The queue whose class a pod with the points of this queue gets, where not all are installed.

    A pod whose class is not there is refused by the API server. So it gets the class of the queue
    with the most points that has one, and not more points than its own; None: it gets none.

    Args:
        queue: Of the policy; None: no queue is known.
        priorities: Points by queue, from the policy.
    """
    if queue is None:
        return None
    at_most = priorities[queue]
    others = sorted(
        (other for other, points in priorities.items() if points <= at_most),
        # Of queues with the same points its own comes first, then by name.
        key=lambda other: (-priorities[other], other != queue, other),
    )
    return next((other for other in others if class_name(other) in installed), None)


def priority_classes(priorities: Mapping[str, int]) -> tuple[Manifest, ...]:
    """The classes to install, one for each queue.

    They preempt no pods: whose GPUs are taken is our scheduler's decision alone, with notice and
    by what would be lost.

    Args:
        priorities: Points by queue, from the policy.
    """
    return tuple(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": class_name(queue)},
            "value": min(points, _HIGHEST),
            "preemptionPolicy": "Never",
            "globalDefault": False,
            "description": f"Runs of the queue {queue!r}, scheduled by prefect-gpu.",
        }
        for queue, points in priorities.items()
    )


def class_name(queue: str) -> str:
    """The name of this queue's PriorityClass."""
    return object_name("prefect-gpu-", queue)
