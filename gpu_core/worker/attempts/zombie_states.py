"""Runs that wait for their next attempt, while a process of the last one may still speak for them.

What lives on a node that does not answer cannot be ended, so its run is requeued without
waiting for it (the fence). If it is Prefect's own process and lives on, it reports later that
the run crashed, or runs. Prefect has no fencing tokens and believes it; a crashed run is over, and
no worker would start it again.
"""

import logging
from collections.abc import Collection, Iterable, Sequence, Set
from datetime import datetime, timedelta
from typing import Any

import anyio
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.states import AwaitingRetry

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.prefect.flow_runs import read_flow_runs_by_id
from gpu_core.adapters.prefect.states import read_states
from gpu_core.worker.attempts.run_faults import RunFaults
from gpu_core.worker.operations.threads import in_thread
from gpu_core.worker.operations.throttle import Throttle

_log = logging.getLogger("prefect.gpu.zombies")

_POLL_S = 5.0
# How far back a worker that takes over reads: longer than a node that is back needs to end what it
# must not run any more.
_REMEMBERED = timedelta(hours=1)


class ZombieStateGuard:
    """Requeues runs that a process of an ended attempt has taken out of the queue."""

    def __init__(self, client: PrefectClient, faults: RunFaults | None = None) -> None:
        self._client = client
        self._faults = faults or RunFaults()
        self._waiting: dict[str, str] = {}
        self._polls = Throttle(_POLL_S)

    async def recover(self, ledger: Ledger, pool: str, now: datetime) -> None:
        """Watch what an earlier worker has requeued."""
        records = await in_thread(lambda: ledger.usage(now - _REMEMBERED, now, pool=pool))
        for record, attempts in records:
            last = attempts[-1]
            with self._faults.contained(record.flow_run_id, record.name, "guarded", now):
                if record.final_state is None and last.end_reason is not None:
                    self.watch(record.flow_run_id, last.end_message or "")

    def watch(self, flow_run_id: str, message: str) -> None:
        """This run was requeued.

        Args:
            message: That of its state, for when it has to be put back again.
        """
        self._waiting[flow_run_id] = message

    @property
    def watched(self) -> Set[str]:
        """The runs that wait for their next attempt, as far as is known."""
        return self._waiting.keys()

    def forget(self, flow_run_ids: Iterable[str]) -> None:
        """These start again: what they say now is their own."""
        for flow_run_id in flow_run_ids:
            self._waiting.pop(flow_run_id, None)

    async def requeue_missing(self, queued: Collection[str]) -> None:
        """Requeue those that should be queued and are not."""
        missing = [flow_run_id for flow_run_id in self._waiting if flow_run_id not in queued]
        if not missing or not self._polls.allows(anyio.current_time()):
            return
        runs = await read_flow_runs_by_id(self._client, missing)
        self.forget(set(missing) - runs.keys())
        for run in runs.values():
            with self._faults.contained(str(run.id), run.name, "requeued"):
                await self._look_after(run)

    async def _look_after(self, run: FlowRun) -> None:
        state = run.state
        if state is None or not (state.is_final() or state.is_running()):
            return  # it is not due, or its queue is paused
        if state.type not in (StateType.CRASHED, StateType.RUNNING):
            self.forget([str(run.id)])
            return
        if not was_taken_out(await read_states(self._client, run)):
            self.forget([str(run.id)])
            return
        _log.warning(
            "A process of an ended attempt set %r to %s. Requeuing the run.",
            run.name,
            state.name,
        )
        again: State[Any] = AwaitingRetry(message=self._waiting[str(run.id)])
        await self._client.set_flow_run_state(run.id, again, force=True)


def was_taken_out(oldest_first: Sequence[State[Any]]) -> bool:
    """Did a process change this run's state to which no worker had given it?

    A start in good order makes a run Pending first.
    """
    for state in reversed(oldest_first):
        if state.type is StateType.PENDING:
            return False
        if state.type is StateType.SCHEDULED:
            return True
    return False
