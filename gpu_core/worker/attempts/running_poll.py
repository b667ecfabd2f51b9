"""Polls Prefect for started attempts that are Running: until then they are not preempted."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

import anyio
from anyio.abc import TaskGroup
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun, StateType

from gpu_core.adapters.prefect.flow_runs import read_flow_runs_by_id
from gpu_core.adapters.prefect.moments import plain_moment
from gpu_core.decisions.attempts.phase import AttemptPhase
from gpu_core.decisions.model.workload import Workload
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.operations.patient_read import PATIENCE_S, PatientRead
from gpu_core.worker.operations.throttle import Throttle

# Starts are many at times, and Prefect's server has to serve them all.
_POLL_S = 1.0

_NOT_BEGUN = [StateType.SCHEDULED, StateType.PENDING]


class RunningPoll:
    """Moves started attempts to Running when the flow or the container of each has started.

    Args:
        client: Prefect's.
        tasks: Where Prefect is asked.
        wake: Called when it has answered late.
    """

    def __init__(self, client: PrefectClient, tasks: TaskGroup, wake: Callable[[], None]) -> None:
        self._client = client
        self._polls = Throttle(_POLL_S)
        self._started: dict[str, AttemptState] = {}
        self._reads = PatientRead(self._begun, tasks, wake, PATIENCE_S)

    def ask(self, attempts: Iterable[AttemptState]) -> None:
        """Ask which of these have started, at most once a second, for the next `poll`."""
        self._started = {
            running.attempt.flow_run_id: running
            for running in attempts
            if running.phase is AttemptPhase.STARTED
        }
        if not self._started or self._reads.is_wanted:
            return
        if self._polls.allows(anyio.current_time()):
            self._reads.ask()

    async def poll(self, attempts: Iterable[AttemptState], now: datetime) -> None:
        """Note which of these have started.

        A worker that was restarted learns it from Prefect, too.
        """
        self.ask(attempts)
        if not self._started or not self._reads.is_wanted:
            return
        for running, run in await self._reads.newest():
            # It may have ended, or been asked to stop, while Prefect answered.
            if running.phase is AttemptPhase.STARTED:
                began_at = _began_at(run, running.attempt.admitted_at, now)
                running.move_to(AttemptPhase.RUNNING, began_at)

    async def _begun(self) -> list[tuple[AttemptState, FlowRun]]:
        started = self._started
        begun = await read_flow_runs_by_id(self._client, started, not_in_states=_NOT_BEGUN)
        return [(started[flow_run_id], run) for flow_run_id, run in begun.items()]

    def next_poll_at(
        self, attempts: Iterable[AttemptState], pending: Iterable[Workload], now: datetime
    ) -> datetime | None:
        """The moment at which it is worth polling again.

        None: no pending workload waits for a start.

        Args:
            pending: Those that were not admitted.
        """
        most_urgent = max((w.priority for w in pending if w.hold is None), default=None)
        if most_urgent is None:
            return None
        is_awaited = any(
            running.phase is AttemptPhase.STARTED
            and running.workload.is_preemptible
            and running.workload.priority < most_urgent
            for running in attempts
        )
        return now + timedelta(seconds=_POLL_S) if is_awaited else None


def _began_at(run: FlowRun, admitted_at: datetime, now: datetime) -> datetime:
    """The moment at which it began, as far as its state says.

    Other machines' clocks may be wrong.
    """
    said_at = now if run.state is None else plain_moment(run.state.timestamp)
    return max(admitted_at, min(said_at, now))
