"""The deployments of the pending runs."""

from collections.abc import Callable
from uuid import UUID

import anyio
from anyio.abc import TaskGroup
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.responses import DeploymentResponse
from prefect.exceptions import ObjectNotFound

from gpu_core.adapters.prefect.deployments import read_deployments_by_id
from gpu_core.worker.operations.outage_errors import is_outage
from gpu_core.worker.operations.patient_read import PATIENCE_S, PatientRead
from gpu_core.worker.operations.throttle import Throttle

_INTERVAL_S = 10.0

# Prefect's server writes these when a worker polls: no run depends on them.
_WRITTEN_BY_POLLS = dict.fromkeys(("last_polled", "status", "updated"))


class DeploymentReader:
    """Reads a deployment when a run needs it first, and all of them together every ten seconds.

    Those with a concurrency limit are read for each cycle, so that no run is preempted for one that
    has no free slot. If the server is slow, a cycle does not wait: it uses what was read before,
    which is at most a minute old.

    Args:
        client: Prefect's client.
        tasks: Where known deployments are read again.
        wake: Called when Prefect has answered late.
    """

    def __init__(self, client: PrefectClient, tasks: TaskGroup, wake: Callable[[], None]) -> None:
        self._client = client
        self._known: dict[UUID, DeploymentResponse | None] = {}
        self._used: set[UUID] = set()
        """Of the known ones, those of which a run was read since all were read again."""
        self._intervals = Throttle(_INTERVAL_S)
        self._reads = PatientRead(self._read_again, tasks, wake, PATIENCE_S)

    def ask(self) -> None:
        """Begin to read again what is due, for the `refresh` that follows."""
        if self._due() and not self._reads.is_wanted:
            self._reads.ask()

    async def refresh(self) -> None:
        """Use what Prefect has answered.

        Raises:
            Exception: Prefect's API is unavailable.
        """
        self.ask()
        if self._reads.is_wanted:
            await self._reads.newest()

    async def of(self, deployment_id: UUID | None) -> DeploymentResponse | None:
        """The deployment as it was read last; None: the run has none, or it was deleted.

        The same object as before while no run would be read differently.
        """
        if deployment_id is None:
            return None
        self._used.add(deployment_id)
        if deployment_id not in self._known:
            self._known[deployment_id] = await self._read_one(deployment_id)
        return self._known[deployment_id]

    def _due(self) -> list[UUID]:
        if self._intervals.is_due(anyio.current_time()):
            return list(self._known)
        return [
            key for key, known in self._known.items() if known and known.global_concurrency_limit
        ]

    async def _read_again(self) -> None:
        due = self._due()
        if self._intervals.allows(anyio.current_time()):
            due = [key for key in due if key in self._used]
            self._known = {key: self._known[key] for key in due}
            self._used = set()
        try:
            found = await read_deployments_by_id(self._client, due)
        except Exception as error:
            if is_outage(error):
                raise
            # One that cannot be read is the fault of its own runs: each is read by itself.
            self._known = {}
            return
        for key in due:
            read, known = found.get(key), self._known.get(key)
            self._known[key] = known if known and read and _is_same(known, read) else read

    async def _read_one(self, deployment_id: UUID) -> DeploymentResponse | None:
        try:
            return await self._client.read_deployment(deployment_id)
        except ObjectNotFound:
            return None


def _is_same(one: DeploymentResponse, other: DeploymentResponse) -> bool:
    return {**vars(one), **_WRITTEN_BY_POLLS} == {**vars(other), **_WRITTEN_BY_POLLS}
