"""Lets the flow of a gang begin once all pods of the gang exist."""

import logging
from collections.abc import Callable, Iterable

from gpu_core.adapters.kubernetes import KubernetesApi, KubernetesError
from gpu_core.adapters.kubernetes.api import Json
from gpu_core.decisions.kubernetes.manifests.gang import is_first
from gpu_core.decisions.kubernetes.manifests.names import GANG_ANNOTATION
from gpu_core.worker.attempts.run_log import run_fields
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.kubernetes.cluster.cluster_cache import ClusterCache, has_pod_ended
from gpu_core.worker.kubernetes.jobs.attempt_objects import path_in

_log = logging.getLogger("prefect.gpu.kubernetes")


class GangStart:
    """Annotates the first pod of each gang that is complete.

    Args:
        api: The cluster.
        view: The pods that the watch has seen.
        may_act: Asked before each change of the cluster.
    """

    def __init__(self, api: KubernetesApi, view: ClusterCache, may_act: Callable[[], bool]) -> None:
        self._api = api
        self._view = view
        self._may_act = may_act

    async def reconcile(self, gangs: Iterable[AttemptState]) -> None:
        """Let the flows of these gangs begin whose pods all exist.

        Args:
            gangs: Attempts of flows on several nodes. One that was postponed begins no more.
        """
        for running in gangs:
            if running.start_failure is not None or running.is_stop_requested:
                continue
            pods = self._view.pods_of(running.attempt.attempt_id)
            held = _held_first_pod(pods, running.workload.shape.nodes)
            if held is None or not self._may_act():
                continue
            body = {"metadata": {"annotations": {GANG_ANNOTATION: "complete"}}}
            try:
                await self._api.patch(path_in(held), body)
            except KubernetesError as error:
                name, fields = running.record.name, run_fields(running)
                _log.warning("Flow run %r cannot start yet: %s", name, error, extra=fields)


def _held_first_pod(pods: Iterable[Json], nodes: int) -> Json | None:
    """The first pod of a complete gang whose flow is still held; None: there is none."""
    present = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    first = next((pod for pod in present if is_first(pod) and not has_pod_ended(pod)), None)
    if first is None or len(present) < nodes:
        return None
    annotations = first["metadata"].get("annotations") or {}
    return None if GANG_ANNOTATION in annotations else first
