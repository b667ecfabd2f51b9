"""Objects of operators go some time after their end, as Jobs do by themselves."""

import logging
from collections.abc import Callable, Container
from datetime import datetime

import anyio

from gpu_core.adapters.kubernetes import KubernetesApi, KubernetesError
from gpu_core.decisions.kubernetes.manifests.names import ATTEMPT_ID_LABEL, POOL_LABEL, label_value
from gpu_core.decisions.kubernetes.operators import has_been_kept
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy
from gpu_core.worker.kubernetes.cluster.rbac_warnings import MissingRights
from gpu_core.worker.kubernetes.jobs.operator_jobs import OperatorJobs, path_of
from gpu_core.worker.operations.throttle import Throttle

_log = logging.getLogger("prefect.gpu.operators")

# It is not urgent, and a worker that was unavailable for long does not flood the cluster.
_POLL_S = 60.0
_AT_ONCE = 20


class TtlCleanup:
    """The RayJobs, TrainJobs and SparkApplications of one pool whose attempts are settled.

    Not every operator deletes them: KubeRay deletes RayJobs only where it is configured for the
    whole cluster, and a TrainJob has no time to live. The objects say which are due, so that a
    restarted worker knows it, too.

    Args:
        api: The cluster.
        custom_jobs: What is there.
        pool: Whose objects.
        may_act: Asked before everything that changes the cluster.
        rights: What the worker lacks.
    """

    def __init__(
        self,
        api: KubernetesApi,
        custom_jobs: OperatorJobs,
        pool: str,
        may_act: Callable[[], bool],
        rights: MissingRights,
    ) -> None:
        self._api = api
        self._custom_jobs = custom_jobs
        self._pool = label_value(pool)
        self._may_act = may_act
        self._rights = rights
        self._polls = Throttle(_POLL_S)

    async def clear(
        self, open_attempts: Container[str], policy: KubernetesPolicy, now: datetime
    ) -> None:
        """Delete what has stayed for `kept_after_end`. Polls about once a minute.

        Args:
            open_attempts: The attempts that are not settled: what they came to is still read.
            policy: Says how long objects stay.
            now: Aware.
        """
        if not self._may_act() or not self._polls.allows(anyio.current_time()):
            return
        due = [
            item
            for item in self._custom_jobs.items
            if item["metadata"]["labels"].get(POOL_LABEL) == self._pool
            and item["metadata"]["labels"][ATTEMPT_ID_LABEL] not in open_attempts
            and "deletionTimestamp" not in item["metadata"]
            and has_been_kept(item, policy.kept_after_end_s, now)
        ]
        for item in due[:_AT_ONCE]:
            self._custom_jobs.forget(item["metadata"]["labels"][ATTEMPT_ID_LABEL])
            try:
                await self._api.delete(path_of(item))
            except KubernetesError as error:
                self._rights.note(error, "objects of operators are retained after they finish")
                _log.debug("%s stays: %s", item["metadata"]["name"], error)
