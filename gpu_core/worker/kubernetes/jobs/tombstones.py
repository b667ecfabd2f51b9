"""Keeps attempts that were given up from being created by a request that is still on its way."""

import logging
from collections.abc import Awaitable, Callable, Mapping

from gpu_core.adapters.kubernetes import KubernetesApi, KubernetesError
from gpu_core.adapters.kubernetes.api import Json
from gpu_core.decisions.kubernetes.manifests.job import owned_by
from gpu_core.decisions.kubernetes.manifests.tombstone import (
    is_tombstone,
    tombstone_custom_job,
    tombstone_jobs,
)
from gpu_core.decisions.kubernetes.variables.frameworks import FRAMEWORKS
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.infrastructure import NotStarted

_log = logging.getLogger("prefect.gpu.tombstones")

_JOBS = "/apis/batch/v1/namespaces/{namespace}/jobs"


class Tombstones:
    """Takes the names of attempts whose creation may still be on its way.

    Args:
        api: The cluster.
        pool: Ours.
        namespace_of: In which namespace the Job with these job variables is created.
        may_act: Asked before everything that changes the cluster.
    """

    def __init__(
        self,
        api: KubernetesApi,
        pool: str,
        namespace_of: Callable[[Mapping[str, object]], Awaitable[str]],
        may_act: Callable[[], bool],
    ) -> None:
        self._api = api
        self._pool = pool
        self._namespace_of = namespace_of
        self._may_act = may_act

    async def put(self, running: AttemptState, framework: str, policy: KubernetesPolicy) -> bool:
        """Take the names of this attempt. False: the request has arrived; try again.

        What has arrived is deleted. Where the cluster refuses the tombstone itself, the log says
        so, and a late creation is only ended by `OrphanCleanup`.

        Args:
            running: The attempt, of which nothing is seen.
            framework: Its job variable.
            policy: Says how long the names stay taken.

        Raises:
            NotStarted: Another worker acts by now.
            KubernetesError: The cluster does not answer.
        """
        namespace = await self._namespace_of(running.variables)
        attempt = running.attempt
        jobs = _JOBS.format(namespace=namespace)
        try:
            kept = None
            for job in tombstone_jobs(
                attempt.attempt_id, attempt.flow_run_id, self._pool, len(attempt.held), policy
            ):
                found = await self._take(jobs, job)
                if found is None:
                    return False
                kept = kept or found
            kind = FRAMEWORKS.get(framework)
            if kind is None or kept is None:
                return True
            item = tombstone_custom_job(
                attempt.attempt_id, attempt.flow_run_id, self._pool, framework, policy
            )
            path = kind.path(namespace)
            found = await self._take(path, owned_by(item, kept))
            if found is None:
                return False
            await self._require_suspended(path, found)
        except KubernetesError as error:
            if error.is_retryable or error.status == 401:
                raise
            _log.warning(
                "Failed to reserve object names for flow run %r: %s",
                running.record.name,
                error,
            )
        return True

    async def _take(self, path: str, body: Json) -> Json | None:
        """The tombstone that has this name now; None: something else had it, and is deleted."""
        self._check_lease()
        try:
            return {**body, **await self._api.create(path, body)}
        except KubernetesError as error:
            if error.reason != "AlreadyExists":
                raise
        at = f"{path}/{body['metadata']['name']}"
        found = await self._api.find(at)
        if found is not None and is_tombstone(found):
            return {**body, **found}
        self._check_lease()
        await self._api.delete(at, propagation="Foreground")
        return None

    async def _require_suspended(self, path: str, item: Json) -> None:
        """An operator that does not know `suspend` would run the tombstone."""
        if (item.get("spec") or {}).get("suspend") is not True:
            await self._api.delete(f"{path}/{item['metadata']['name']}")
            _log.warning("%s of this cluster cannot be suspended", item["kind"])

    def _check_lease(self) -> None:
        if not self._may_act():
            raise NotStarted("another worker is or might be active for this pool")
