"""The pool itself as Prefect has it: which runs it keeps back, and which other workers serve it."""

import logging
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import NamedTuple

import anyio
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun

from gpu_core.adapters.prefect.work_pool import read_pool_status, read_strangers_runs, read_waiting
from gpu_core.decisions.checks.prefect.concurrency_limits import kept_back
from gpu_core.decisions.checks.prefect.pool_status import NO_WORKER, PoolNotice, PoolStatus, notices
from gpu_core.decisions.model.workload import Hold
from gpu_core.worker.attempts.run_log import log_of_run
from gpu_core.worker.operations.throttle import Throttle

_log = logging.getLogger("prefect.gpu.pool")

# A poll is four short requests, or more where something is paused.
_POLL_S = 5.0


class KeptBack(NamedTuple):
    """A run that Prefect hands out to no worker for now."""

    flow_run: FlowRun
    queue: str
    hold: Hold


class PoolWatch:
    """Looks at the pool every few seconds, and says in the log what has changed.

    Args:
        client: Prefect's client.
        pool: The pool's name.
        queues: The queues that this worker serves; empty: all.
        wake: Called when other runs than before are kept back.
    """

    def __init__(
        self, client: PrefectClient, pool: str, queues: Collection[str], wake: Callable[[], None]
    ) -> None:
        self._client = client
        self._pool = pool
        self._queues = frozenset(queues)
        self._wake = wake
        self._polls = Throttle(_POLL_S)
        self._notices: dict[str, PoolNotice] = {}
        self._said: set[str] = set()
        self._warned: set[str] = set()
        self._kept_back: tuple[KeptBack, ...] = ()

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices about the pool for users, as of the last poll."""
        return tuple(notice.text for notice in self._notices.values())

    def kept_back(self, handed_out: Collection[str]) -> tuple[KeptBack, ...]:
        """The runs that wait and that Prefect hands out to no worker.

        Args:
            handed_out: What it has handed out since the last poll: they are kept back no more.
        """
        self._kept_back = tuple(k for k in self._kept_back if str(k.flow_run.id) not in handed_out)
        return self._kept_back

    async def refresh(self, now: datetime) -> None:
        """Read the pool, if that is due."""
        if not self._polls.allows(anyio.current_time()):
            return
        status = await read_pool_status(self._client, self._pool)
        # That no worker is online is no news from a worker.
        self._say({notice.key: notice for notice in notices(status) if notice.key != NO_WORKER})
        if status.strangers:
            await self._warn_owners(status)
        found: tuple[KeptBack, ...] = ()
        if status.may_keep_back:
            runs, _ = await read_waiting(self._client, self._pool, now)
            queues = {run.id: run.work_queue_name or "" for run in runs}
            holds = kept_back(status, [(str(run.id), queues[run.id]) for run in runs])
            found = tuple(
                KeptBack(run, queues[run.id], holds[str(run.id)])
                for run in runs
                if str(run.id) in holds and self._serves(queues[run.id])
            )
        before, self._kept_back = self._kept_back, found
        if _essence(before) != _essence(found):
            self._wake()

    async def _warn_owners(self, status: PoolStatus) -> None:
        for run in await read_strangers_runs(self._client, status):
            if run.run_id not in self._warned:
                log_of_run(run.run_id, run.run).warning(run.text(status))
                self._warned.add(run.run_id)

    def _serves(self, queue: str) -> bool:
        return not self._queues or queue in self._queues

    def _say(self, found: Mapping[str, PoolNotice]) -> None:
        for key, notice in found.items():
            # A full pool has room and is full again with each run: that is said the first time.
            if key not in self._said:
                _log.warning(notice.text)
        for key, notice in self._notices.items():
            if key not in found and not key.endswith("is full"):
                _log.info(notice.over)
                self._said.discard(key)
        self._said |= found.keys()
        self._notices = dict(found)


def _essence(kept: Collection[KeptBack]) -> set[tuple[str, str]]:
    return {(str(each.flow_run.id), each.hold.reason) for each in kept}
