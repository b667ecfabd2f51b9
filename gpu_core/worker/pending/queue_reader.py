"""The runs that Prefect hands out to the workers of the pool."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
from anyio.abc import TaskGroup
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.responses import WorkerFlowRunResponse

from gpu_core.adapters.prefect.paging import PAGE
from gpu_core.adapters.prefect.scheduled_runs import read_scheduled_runs
from gpu_core.worker.attempts.run_faults import RunFaults
from gpu_core.worker.operations.patient_read import PATIENCE_S, PatientRead

# How far ahead to read, so that a run that is due before the next poll starts on time.
LOOK_AHEAD = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class QueueReading:
    """The queue as Prefect had it at one moment."""

    responses: dict[str, WorkerFlowRunResponse]
    """By flow run id; the head of the queue first."""
    outdated: set[str]
    """Of these runs it says nothing: they had an attempt when it began, or have had one since, or
    have been refused since."""


class QueueReader:
    """Reads the queues of one pool, for a long queue less often than it is asked.

    A thousand runs in the queue take a busy server seconds. GPUs that become free meanwhile go to
    those that were in the queue when it was read last.

    Args:
        client: Prefect's client.
        pool: The pool's name.
        queues: The queues to read; empty: all.
        turn: Held while queued runs are written to. On PostgreSQL Prefect leaves out of its
            answer what is being written to at that moment (`FOR UPDATE SKIP LOCKED`), and a later
            run would overtake it.
        faults: Holds runs back that cannot be read.
        held: The runs that have an attempt now.
        tasks: Where the queues are read.
        wake: Called when a new reading is there for the next cycle.
    """

    def __init__(
        self,
        *,
        client: PrefectClient,
        pool: str,
        queues: Iterable[str],
        turn: anyio.Lock,
        faults: RunFaults,
        held: Callable[[], Iterable[str]],
        tasks: TaskGroup,
        wake: Callable[[], None],
    ) -> None:
        self._client = client
        self._pool = pool
        self._queues = frozenset(queues)
        self._turn = turn
        self._faults = faults
        self._held = held
        self._parsed: dict[str, tuple[Any, WorkerFlowRunResponse]] = {}
        self._is_one_page = True
        self._last: QueueReading | None = None
        self._under_way: QueueReading | None = None
        self._reads = PatientRead(self._read, tasks, wake, PATIENCE_S)

    def ask(self) -> None:
        """Begin to read, for the call of `newest` that follows."""
        self._reads.ask()

    async def newest(self) -> QueueReading:
        """The runs that are due now or soon, as far as Prefect has answered."""
        reading = await self._reads.newest()
        self.note_outdated(self._held())
        return reading

    def note_outdated(self, flow_run_ids: Iterable[str]) -> None:
        """These runs were started or refused: what has been read of them does not hold any more."""
        known = frozenset(flow_run_ids)
        for reading in (self._last, self._under_way):
            if reading is not None:
                reading.outdated.update(known)

    async def _read(self) -> QueueReading:
        reading = QueueReading(responses={}, outdated=set(self._held()))
        self._under_way = reading
        async with self._turn:
            responses = await read_scheduled_runs(
                *(self._client, self._pool, self._queues),
                *(datetime.now(UTC) + LOOK_AHEAD, self._response),
                is_one_page=self._is_one_page,
            )
        reading.responses.update(responses)
        self._last = reading
        self._is_one_page = len(responses) < PAGE
        self._forget_others(responses.keys())
        return reading

    def _forget_others(self, there: Collection[str]) -> None:
        self._parsed = {key: known for key, known in self._parsed.items() if key in there}

    def _response(self, data: Any) -> WorkerFlowRunResponse | None:
        """The row as Prefect's class; of the many that wait for long few change between polls."""
        run = data.get("flow_run", {})
        key = str(run.get("id"))
        row, response = self._parsed.get(key, (None, None))
        if row == data:
            return response
        with self._faults.contained(key, str(run.get("name")), "read"):
            response = WorkerFlowRunResponse.model_validate(data)
            self._parsed[key] = data, response
            return response
        return None
