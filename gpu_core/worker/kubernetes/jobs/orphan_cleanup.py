"""Objects in the cluster that belong to a run of this pool and to no open attempt."""

import logging
from collections.abc import Callable, Collection

import anyio
from prefect.client.orchestration import PrefectClient

from gpu_core.adapters.kubernetes import KubernetesError
from gpu_core.adapters.kubernetes.api import Json
from gpu_core.adapters.prefect.flow_runs import read_flow_run
from gpu_core.decisions.kubernetes.manifests.names import FLOW_RUN_LABEL, POOL_LABEL, label_value
from gpu_core.worker.infrastructure import NotStarted
from gpu_core.worker.kubernetes.cluster.cluster_cache import ClusterCache
from gpu_core.worker.kubernetes.jobs.attempt_objects import AttemptObjects
from gpu_core.worker.kubernetes.jobs.job_status import runs, wants_pods
from gpu_core.worker.operations.throttle import Throttle

_log = logging.getLogger("prefect.gpu.orphans")

# What one poll finds may be about to be recorded, or to be gone.
_POLL_S = 60.0


class OrphanCleanup:
    """Ends what a request made that was heard after its attempt had been given up.

    A worker that stalls during a creation may lose its lease before the API server hears
    of it. The worker that acts by then has given the attempt up, and the run starts elsewhere: what
    comes of the late request would run it a second time, on GPUs that no plan counts.

    Args:
        view: What the watches have seen.
        objects: Takes them away.
        client: Prefect's: another server's pool may have the same name in the same cluster, and
            its runs are not ours to end.
        pool: Our pool's name.
        may_act: Asked before everything that changes the cluster.
    """

    def __init__(
        self,
        view: ClusterCache,
        objects: AttemptObjects,
        client: PrefectClient,
        pool: str,
        may_act: Callable[[], bool],
    ) -> None:
        self._view = view
        self._objects = objects
        self._client = client
        self._pool = pool
        self._may_act = may_act
        self._polls = Throttle(_POLL_S)
        self._seen: frozenset[str] = frozenset()
        self._has_logged = False

    async def end(self, open_attempts: Collection[str], fenced: Collection[str]) -> None:
        """End those that were there a minute ago, too. Polls once a minute.

        Args:
            open_attempts: The attempts of the pool that are open, as labels have them.
            fenced: The nodes whose pods count as gone: what is there is dealt with already.
        """
        if not self._may_act() or not self._polls.allows(anyio.current_time()):
            return
        found = {
            attempt_id
            for attempt_id in self._view.attempt_ids - set(open_attempts)
            if self._is_ours_and_lives(attempt_id, fenced)
        }
        for attempt_id in sorted(found & self._seen):
            await self._end(attempt_id, fenced)
        self._seen = frozenset(found)

    def _is_ours_and_lives(self, attempt_id: str, fenced: Collection[str]) -> bool:
        jobs, pods = self._view.jobs_of(attempt_id), self._view.pods_of(attempt_id)
        if not wants_pods(jobs, pods) and not any(runs(pod, fenced) for pod in pods):
            return False
        return _label((*jobs, *pods), POOL_LABEL) == label_value(self._pool)

    async def _end(self, attempt_id: str, fenced: Collection[str]) -> None:
        items = (*self._view.jobs_of(attempt_id), *self._view.pods_of(attempt_id))
        flow_run_id = _label(items, FLOW_RUN_LABEL) or ""
        run = await read_flow_run(self._client, flow_run_id)
        if run is None:
            self._log_others(items)
            return
        if run.work_pool_name not in (None, self._pool):
            return
        _log.warning(
            "Deleting objects of %r that do not belong to an open attempt (%s)",
            run.name,
            attempt_id,
        )
        try:
            await self._objects.delete(attempt_id, fenced, grace_s=None)
        except (KubernetesError, NotStarted) as error:
            _log.warning("Failed to delete it in this cycle: %s", error)

    def _log_others(self, items: Collection[Json]) -> None:
        """Say once that another installation has a pool of our name: each plans with all GPUs."""
        if self._has_logged:
            return
        self._has_logged = True
        metadata = next(iter(items))["metadata"]
        _log.warning(
            "%s in namespace %s belongs to a pool that is also named %r, but its run was "
            "not found on this Prefect server. If it belongs to another installation, "
            "rename one of the pools so that both do not schedule the same GPUs.",
            metadata["name"],
            metadata["namespace"],
            self._pool,
        )


def _label(items: Collection[Json], name: str) -> str | None:
    labels = (item["metadata"].get("labels") or {} for item in items)
    return next((found[name] for found in labels if name in found), None)
