"""The queues with a PriorityClass in the cluster, read once a minute, as they rarely change."""

import logging

import anyio

from gpu_core.adapters.kubernetes import KubernetesApi, KubernetesError
from gpu_core.decisions.kubernetes.manifests.priority_class import (
    SHIPPED_QUEUES,
    class_name,
    queue_with_class,
)
from gpu_core.decisions.policy.policy import Policy
from gpu_core.worker.kubernetes.cluster.rbac_warnings import MissingRights
from gpu_core.worker.operations.throttle import Throttle

_log = logging.getLogger("prefect.gpu.priority_classes")

_PATH = "/apis/scheduling.k8s.io/v1/priorityclasses"
_POLL_S = 60.0


class PriorityClasses:
    """The classes of the policy's queues, where the policy says that there are some.

    Args:
        api: The cluster.
        rights: What the worker lacks.
    """

    def __init__(self, api: KubernetesApi, rights: MissingRights) -> None:
        self._api = api
        self._rights = rights
        # Until the cluster has answered: those that every installation has.
        self._installed = frozenset(map(class_name, SHIPPED_QUEUES))
        self._polls = Throttle(_POLL_S)
        self._warned_of: frozenset[str] = frozenset()

    async def refresh(self, policy: Policy) -> None:
        """Read which are there, and say once which queues have none."""
        if not policy.kubernetes.has_priority_classes:
            return
        if not self._polls.allows(anyio.current_time()):
            return
        await self._read()
        self._warn(policy)

    def queue_for(self, queue: str | None, policy: Policy) -> str | None:
        """The queue whose class the pods of a run with the points of this queue get; None: none."""
        return queue_with_class(queue, policy.priorities, self._installed)

    async def _read(self) -> None:
        try:
            answer = await self._api.get(_PATH)
        except KubernetesError as error:
            self._rights.note(
                error,
                f"PriorityClasses are assumed to exist only for {', '.join(SHIPPED_QUEUES)}",
            )
            _log.debug("Failed to list PriorityClasses: %s", error)
            return
        self._installed = frozenset(item["metadata"]["name"] for item in answer.get("items") or ())

    def _warn(self, policy: Policy) -> None:
        missing = frozenset(
            queue for queue in policy.priorities if class_name(queue) not in self._installed
        )
        for queue in sorted(missing - self._warned_of):
            other = self.queue_for(queue, policy)
            _log.warning(
                "PriorityClass %s for queue %r was not found, using %s for its pods. "
                "Install the class or set `kubernetes.priority_classes` to false.",
                class_name(queue),
                queue,
                "no class" if other is None else class_name(other),
            )
        self._warned_of = missing
