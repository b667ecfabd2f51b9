"""The last output of pods, for runs that cannot log it themselves."""

import logging
from collections.abc import Mapping
from typing import Any

from gpu_core.adapters.kubernetes import KubernetesApi, KubernetesError
from gpu_core.decisions.kubernetes.status.pod_termination import ending_container
from gpu_core.worker.kubernetes.cluster.rbac_warnings import NO_OUTPUT, MissingRights

_log = logging.getLogger("prefect.gpu.final_logs")

# The two tracebacks of a flow that cannot be loaded are 120 to 250 lines (Prefect 3.8.8), and the
# line before the first one says that the run's log has it.
_LINES = 400
# A line may have any length.
_BYTES = str(16 * 1024**2)


class FinalLogs:
    """The ends of the output of pods that have ended; kept where the pods are to be deleted.

    Args:
        api: The cluster.
        rights: What the worker lacks.
    """

    def __init__(self, api: KubernetesApi, rights: MissingRights) -> None:
        self._api = api
        self._rights = rights
        self._kept: dict[str, tuple[str, ...]] = {}

    async def keep(self, attempt_id: str, pod: Mapping[str, Any]) -> None:
        """Read them while this pod is there; asked for again, nothing more happens."""
        if attempt_id not in self._kept:
            self._kept[attempt_id] = await self._read(pod)

    def of(self, attempt_id: str) -> tuple[str, ...]:
        """The saved output of an attempt."""
        return self._kept.get(attempt_id, ())

    def forget(self, attempt_id: str) -> None:
        """The attempt is settled."""
        self._kept.pop(attempt_id, None)

    async def _read(self, pod: Mapping[str, Any]) -> tuple[str, ...]:
        container = ending_container(pod)
        if container is None:
            return ()
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/log"
        query = {"container": container, "tailLines": str(_LINES), "limitBytes": _BYTES}
        try:
            return tuple((await self._api.text(path, query)).splitlines())
        except KubernetesError as error:
            self._rights.note(error, NO_OUTPUT)
            # Gone with its node, as most: nothing depends on it.
            _log.debug("Failed to read logs from pod %s: %s", metadata["name"], error)
            return ()
