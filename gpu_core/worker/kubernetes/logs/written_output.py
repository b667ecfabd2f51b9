"""The output of a container that an earlier follower wrote, read from the run's log."""

import logging
from collections.abc import Sequence
from uuid import UUID

import anyio
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId
from prefect.client.schemas.objects import Log
from prefect.client.schemas.sorting import LogSort
from prefect.logging.handlers import APILogHandler

from gpu_core.adapters.prefect.paging import read_pages
from gpu_core.decisions.model.errors import sentences
from gpu_core.worker.attempts.run_log import output_log_name
from gpu_core.worker.kubernetes.logs.log_position import OVERLAP, LogLine
from gpu_core.worker.operations.outage_errors import is_unanswered

_log = logging.getLogger("prefect.gpu.output")

# A pod of a gang without a line among the last 10,000 of its run has nothing to continue from.
_MOST_LINES = 10_000
# A worker that takes over asks for each of its runs, while others of them start and end.
_AT_ONCE = 4
_RETRY_S = 2.0


class WrittenOutput:
    """Reads it, for a worker that has become the leader, or is the leader again.

    Args:
        client: Prefect's.
    """

    def __init__(self, client: PrefectClient) -> None:
        self._client = client
        self._turns = anyio.Semaphore(_AT_ONCE)
        self._sending = anyio.Lock()
        self._is_sent = False

    async def of(self, flow_run_id: str, pod: str) -> tuple[LogLine, ...]:
        """The newest lines of this pod in the log of the run, with all of the last two seconds.

        Waits for a server that does not answer: until it does, no line can be written. Where it
        refuses there are none: a line that is written twice is not lost.
        """
        async with self._turns:
            while True:
                try:
                    await self._send_what_is_queued()
                    return await self._read(flow_run_id, output_log_name(pod))
                except Exception as error:
                    if not is_unanswered(error):
                        _log.warning(
                            "Restarting the log stream from pod %s from the beginning: %s",
                            pod,
                            error,
                        )
                        return ()
                    why = sentences(str(error), f"retrying in {_RETRY_S:.0f} seconds")
                    _log.debug("Failed to stream logs from pod %s: %s", pod, why)
                await anyio.sleep(_RETRY_S)

    async def _send_what_is_queued(self) -> None:
        """Send queued lines: those from before the loss of the lease may not have arrived yet."""
        async with self._sending:
            if not self._is_sent:
                await APILogHandler.aflush()
                self._is_sent = True

    async def _read(self, flow_run_id: str, name: str) -> tuple[LogLine, ...]:
        of_run = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[UUID(flow_run_id)]))

        async def read(limit: int, offset: int) -> Sequence[Log]:
            return await self._client.read_logs(
                of_run, limit=limit, offset=offset, sort=LogSort.TIMESTAMP_DESC
            )

        found: list[LogLine] = []
        n_read = 0
        async for page in read_pages(read):
            found += [LogLine(log.timestamp, log.message) for log in page if log.name == name]
            n_read += len(page)
            if _is_enough(found, page):
                break
            if n_read >= _MOST_LINES:
                found = found or [LogLine(page[-1].timestamp, "")]
                break
        return tuple(reversed(found))


def _is_enough(newest_first: Sequence[LogLine], page: Sequence[Log]) -> bool:
    return bool(newest_first) and page[-1].timestamp < newest_first[0].at - 2 * OVERLAP
