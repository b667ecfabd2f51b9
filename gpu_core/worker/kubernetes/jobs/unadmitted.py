"""Attempts in Kueue's queue, which hold no GPUs until their pods are on nodes."""

from gpu_core.decisions.kubernetes.operators import custom_job_outcome
from gpu_core.decisions.kubernetes.status.outcome import Cause
from gpu_core.worker.kubernetes.cluster.cluster_cache import ClusterCache


class UnadmittedAttempts:
    """Remembers which attempts had no pod on a node when they were seen last.

    Args:
        view: The watched objects. It forgets a Job that is deleted, so that an attempt is
            observed before its end.
    """

    def __init__(self, view: ClusterCache) -> None:
        self._view = view
        self._attempt_ids: set[str] = set()

    def observe(self, attempt_id: str) -> None:
        """Note whether this attempt is on a node. What cannot be seen changes nothing."""
        pods = self._view.last_pods_of(attempt_id)
        if any("nodeName" in pod["spec"] for pod in pods):
            self._attempt_ids.discard(attempt_id)
        elif pods or self._is_suspended(attempt_id):
            self._attempt_ids.add(attempt_id)

    def has(self, attempt_id: str) -> bool:
        """Was no pod of this attempt ever on a node? False: one was, or it is not known."""
        self.observe(attempt_id)
        return attempt_id in self._attempt_ids

    def forget(self, attempt_id: str) -> None:
        """The attempt is settled."""
        self._attempt_ids.discard(attempt_id)

    def _is_suspended(self, attempt_id: str) -> bool:
        item = self._view.custom_jobs.last_of(attempt_id)
        if item is not None:
            return custom_job_outcome(item).cause is Cause.SUSPENDED
        return any(job["spec"].get("suspend") for job in self._view.jobs_of(attempt_id))
