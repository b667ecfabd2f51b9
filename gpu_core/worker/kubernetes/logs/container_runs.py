"""Runs without Prefect inside: the worker reports their states and their output to Prefect."""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

import anyio
from anyio.abc import TaskGroup
from prefect.client.orchestration import PrefectClient
from prefect.states import Running

from gpu_core.adapters.kubernetes.api import Json
from gpu_core.adapters.prefect.flow_runs import read_flow_runs_by_id
from gpu_core.decisions.attempts.phase import AttemptPhase
from gpu_core.decisions.kubernetes.manifests.names import HEAD, ROLE_LABEL, SUBMITTER
from gpu_core.decisions.model.errors import sentences
from gpu_core.worker.attempts.run_log import OutputLog
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.kubernetes.logs.log_position import LogLine, LogPosition
from gpu_core.worker.kubernetes.logs.output import ContainerOutput, OutputFollower
from gpu_core.worker.kubernetes.logs.written_output import WrittenOutput
from gpu_core.worker.operations.outage_errors import RETRIED_IN_CYCLE
from gpu_core.worker.prefect.batch_loader import BatchLoader
from gpu_core.worker.prefect.starts_first import StartsFirst

_log = logging.getLogger("prefect.gpu.containers")

# Prefect refuses a log line of more than a million characters; more than this is not readable.
_LONGEST_LINE = 8_000
_LAST_LINES = 20

_REPORTS_AT_ONCE = 2

_TELLERS = {SUBMITTER: 0, HEAD: 1}


class ContainerRuns:
    """The container jobs of one pool.

    Args:
        client: Prefect's client.
        output: Reads what they write.
        tasks: Where logs are followed.
        is_over: Has this attempt's pod of this uid ended, so that no more output comes?
        starts: The starts that are under way: a running container is reported after them.
        hidden: A text as people may read it: what the run's log has of a line.
    """

    def __init__(
        self,
        client: PrefectClient,
        output: OutputFollower,
        tasks: TaskGroup,
        is_over: Callable[[AttemptState, str], bool],
        starts: StartsFirst,
        hidden: Callable[[str], str] = str,
    ) -> None:
        self._client = client
        self._hidden = hidden
        self._written_output = WrittenOutput(client)
        self._begun: set[str] = set()
        self._output = output
        self._tasks = tasks
        self._is_over = is_over
        self._starts = starts
        self._runs = BatchLoader(partial(read_flow_runs_by_id, client))
        self._turns: dict[str, anyio.Lock] = {}
        self._reporting = anyio.Semaphore(_REPORTS_AT_ONCE)
        self._being_reported: set[str] = set()
        self._reported_running: set[str] = set()
        self._followed: dict[str, dict[str, deque[str]]] = {}
        self._unread: dict[str, dict[str, anyio.Event]] = {}

    def begin(self, attempt_id: str) -> None:
        """This worker creates the attempt: no other one has followed its output."""
        self._begun.add(attempt_id)

    def follow(self, running: AttemptState, pod: Json, container: str, *, prefix: str = "") -> None:
        """Follow a pod's output; asked for again, what may be gone soon is read first.

        The output of an attempt that was created before this worker became the leader is followed
        from the last line of it that the run's log has.

        Args:
            running: The attempt, whose run's log has the output.
            pod: One of its pods.
            container: Which of its containers.
            prefix: What each line begins with, where several pods write to one log.
        """
        attempt_id, uid = running.attempt.attempt_id, str(pod["metadata"]["uid"])
        key, followed = f"{attempt_id}/{uid}", self._followed.setdefault(attempt_id, {})
        if uid in followed:
            if running.phase.is_stopping:
                self._output.hurry(key)
            return
        name, lines = str(pod["metadata"]["name"]), deque[str](maxlen=_LAST_LINES)
        followed[uid], log = lines, OutputLog(running, name)

        def shown(text: str) -> str:
            return self._hidden(f"{prefix}{text[:_LONGEST_LINE]}")

        def emit(line: LogLine) -> None:
            lines.append(line.text[:_LONGEST_LINE])
            log.write(line.at, f"{prefix}{line.text[:_LONGEST_LINE]}")

        async def position() -> LogPosition:
            if attempt_id in self._begun:
                return LogPosition()
            written = await self._written_output.of(running.flow_run_id, name)
            lines.extend(line.text.removeprefix(prefix) for line in written)
            log.continue_after(written[-1].at if written else None)
            return LogPosition(written, shown)

        output = ContainerOutput(
            key=key,
            namespace=pod["metadata"]["namespace"],
            pod=name,
            container=container,
            emit=emit,
            is_over=lambda: self._is_over(running, uid),
            position=position,
        )
        unread = self._unread.setdefault(attempt_id, {})
        unread[uid] = anyio.Event()
        self._tasks.start_soon(self._read, output, unread, uid)

    async def _read(
        self, output: ContainerOutput, unread: dict[str, anyio.Event], uid: str
    ) -> None:
        try:
            await self._output.follow(output)
        finally:
            unread.pop(uid).set()

    async def wait_until_read(self, attempt_id: str, uid: str) -> None:
        """Wait until the output of a pod that has ended was read to its end, if it is followed.

        Args:
            attempt_id: Whose pod.
            uid: Of the pod.
        """
        event = self._unread.get(attempt_id, {}).get(uid)
        if event is not None:
            self._output.hurry(f"{attempt_id}/{uid}")
            await event.wait()

    def follows(self, attempt_id: str, uid: str) -> bool:
        """Is this pod's output in the run's log?"""
        return uid in self._followed.get(attempt_id, {})

    def follows_any(self, attempt_id: str) -> bool:
        """Is the output of any pod of the attempt in the run's log?"""
        return bool(self._followed.get(attempt_id))

    def begin_to_report_running(self, running: AttemptState) -> None:
        """Report to Prefect that it runs, in a task of its own; the next call retries."""
        attempt_id = running.attempt.attempt_id
        if attempt_id not in self._reported_running and attempt_id not in self._being_reported:
            self._being_reported.add(attempt_id)
            self._tasks.start_soon(self._report_running_alone, running)

    async def _report_running_alone(self, running: AttemptState) -> None:
        attempt_id = running.attempt.attempt_id
        try:
            await self._starts.let_pass()
            async with self._reporting, self._turn_of(attempt_id):
                # The settlement reports it then. The run may have another attempt by now.
                if not running.phase.has_ended:
                    await self._report_running(running)
        except Exception as error:
            _log.debug(
                "Failed to set flow run %r to Running state: %s",
                running.record.name,
                sentences(str(error), RETRIED_IN_CYCLE),
            )
        finally:
            self._being_reported.discard(attempt_id)
            if running.phase is AttemptPhase.SETTLED:  # meanwhile: nothing else forgets it again
                self.forget(attempt_id)

    async def report_running(self, running: AttemptState) -> None:
        """Report to Prefect that it runs, or has run; asked for again, nothing more happens.

        The settlement asks for it first, so that Prefect has it before the end and not after it:
        Prefect would believe that it runs. And its page has a time at which it started.
        """
        async with self._turn_of(running.attempt.attempt_id):
            await self._report_running(running)

    async def _report_running(self, running: AttemptState) -> None:
        attempt_id = running.attempt.attempt_id
        if attempt_id in self._reported_running:
            return
        run = await self._runs.of(running.flow_run_id)
        if run is not None and run.state is not None and run.state.is_pending():
            await self._client.set_flow_run_state(run.id, Running())
        self._reported_running.add(attempt_id)

    def _turn_of(self, attempt_id: str) -> anyio.Lock:
        return self._turns.setdefault(attempt_id, anyio.Lock())

    def last_lines(self, attempt_id: str, uid: str | None) -> tuple[str, ...]:
        """The end of what a pod wrote, as far as it was followed.

        Args:
            attempt_id: Whose pod.
            uid: Of the pod that says why the attempt ended; None, or not followed: where only one
                was, that one.
        """
        followed = self._followed.get(attempt_id, {})
        only = next(iter(followed.values())) if len(followed) == 1 else ()
        return tuple(followed.get(uid or "", only))

    def forget(self, attempt_id: str) -> None:
        """The attempt is settled."""
        self._begun.discard(attempt_id)
        self._reported_running.discard(attempt_id)
        self._turns.pop(attempt_id, None)
        self._followed.pop(attempt_id, None)
        self._unread.pop(attempt_id, None)


def begun_pods(pods: Sequence[Json]) -> list[Json]:
    """The pods that have started. The one that leads comes first, else by name."""
    running = [pod for pod in pods if (pod.get("status") or {}).get("phase") != "Pending"]
    return sorted(running, key=_rank_as_teller)


def _rank_as_teller(pod: Json) -> tuple[int, str]:
    metadata = pod["metadata"]
    role = (metadata.get("labels") or {}).get(ROLE_LABEL, "")
    return _TELLERS.get(role, len(_TELLERS)), metadata["name"]
