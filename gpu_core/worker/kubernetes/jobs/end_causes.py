"""The pods that say why an attempt ended. The worker's own deletions are no cause."""

from gpu_core.adapters.kubernetes.api import Json
from gpu_core.decisions.kubernetes.status.pod_termination import ending_of
from gpu_core.worker.kubernetes.cluster.cluster_cache import ClusterCache
from gpu_core.worker.kubernetes.jobs.job_status import is_done


class EndCauses:
    """The pods of each attempt that were ending before the worker ended the others.

    Args:
        view: What the cluster has.
    """

    def __init__(self, view: ClusterCache) -> None:
        self._view = view
        self._causes: dict[str, dict[str, Json]] = {}

    def note(self, attempt_id: str) -> None:
        """Note the pods that end without the worker.

        What the worker ends from here on is no cause.
        """
        pods = self._view.pods_of(attempt_id)
        causes = {pod["metadata"]["uid"]: pod for pod in pods if ending_of(pod) is not None}
        if causes:
            self._causes.setdefault(attempt_id, causes)

    def has(self, attempt_id: str) -> bool:
        """Did a pod of it end without the worker?"""
        return attempt_id in self._causes

    def pods_of(self, attempt_id: str) -> list[Json]:
        """The pods whose ends say why the attempt ended."""
        pods = self._view.last_pods_of(attempt_id)
        causes = self._causes.get(attempt_id)
        if causes is None:
            return pods
        return [
            _as_ended(causes[uid], pod) for pod in pods if (uid := pod["metadata"]["uid"]) in causes
        ]

    def forget(self, attempt_id: str) -> None:
        """The attempt is settled."""
        self._causes.pop(attempt_id, None)


def _as_ended(then: Json, now: Json) -> Json:
    """The pod as it ended: the worker's deletion of what a sidecar keeps alive is no cause.

    Kubernetes dates both to the second, so that the order is not known afterwards.
    """
    return then if is_done(then) and "deletionTimestamp" not in then["metadata"] else now
