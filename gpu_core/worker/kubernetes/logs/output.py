"""The output of containers, read over a bounded number of connections."""

import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import NamedTuple

import anyio

from gpu_core.adapters.kubernetes import KubernetesApi, KubernetesError
from gpu_core.worker.kubernetes.cluster.rbac_warnings import NO_OUTPUT, MissingRights
from gpu_core.worker.kubernetes.logs.connection_turns import ConnectionTurns
from gpu_core.worker.kubernetes.logs.log_position import LogLine, LogPosition

_log = logging.getLogger("prefect.gpu.output")

CONNECTIONS = 40
"""Each followed log holds one. aiohttp's client has 100 (its `TCPConnector.limit`)."""

_TURN_S = 1.0

# A container that prints nothing for this long is asked again; its log continues where it was.
_SILENCE_S = 300.0
_RETRY_S = 2.0


async def _beginning() -> LogPosition:
    return LogPosition()


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerOutput:
    """The output of one container.

    Attributes:
        key: Unique among all that are followed.
        namespace: Of the pod.
        pod: Its name.
        container: Its name in the pod.
        emit: Gets each line once, in the order of the log.
        is_over: Has the container ended, so that no more comes?
        position: How far it was read before it is followed here.
    """

    key: str
    namespace: str
    pod: str
    container: str
    emit: Callable[[LogLine], None]
    is_over: Callable[[], bool]
    position: Callable[[], Awaitable[LogPosition]] = _beginning


class _Answer(NamedTuple):
    """An answer that was read to its end."""

    new_lines: int
    has_ended: bool
    """Whether the container had ended when it was asked for: no more comes."""


class OutputFollower:
    """Follows many logs. With more of them than connections they are read in turns.

    Args:
        api: The cluster, over connections that nothing else needs.
        rights: What the worker lacks.
        connections: How many logs are read at a time.
        turn_s: How long one is read while others wait.
    """

    def __init__(
        self,
        api: KubernetesApi,
        rights: MissingRights,
        *,
        connections: int = CONNECTIONS,
        turn_s: float = _TURN_S,
    ) -> None:
        self._api = api
        self._rights = rights
        self._places = ConnectionTurns(connections, turn_s)

    async def follow(self, output: ContainerOutput) -> None:
        """Pass on all that it prints, until it has ended and everything is passed on."""
        try:
            await self._follow(output)
        except Exception:
            # The output of one run ends no worker.
            _log.exception("Stopped streaming logs from pod %s", output.pod)
        finally:
            self._places.forget(output.key)

    async def _follow(self, output: ContainerOutput) -> None:
        position, has_answer = await output.position(), False
        while True:
            was_over = output.is_over()
            try:
                answer = await self._read_on(output, position)
            except KubernetesError as error:
                if error.is_missing:
                    return
                self._rights.note(error, NO_OUTPUT)
                _log.debug("Failed to read logs from %s: %s", output.pod, error)
                if was_over and not error.is_retryable:
                    return
                await anyio.sleep(_RETRY_S)
                continue
            if answer is None:
                continue
            # The API server ends its answer as if it were complete where the kubelet goes away.
            is_last = answer.has_ended and not position.is_cut
            if is_last and has_answer and answer.new_lines == 0:
                return
            has_answer = True
            if not is_last:
                await anyio.sleep(_RETRY_S)

    def hurry(self, key: str) -> None:
        """Read this one next and to its end: its pod may be gone soon."""
        self._places.hurry(key)

    async def _read_on(self, output: ContainerOutput, position: LogPosition) -> _Answer | None:
        """Read until the answer ends. None: others had to be read before.

        Args:
            output: Of which container.
            position: How far it was read.
        """
        path = f"/api/v1/namespaces/{output.namespace}/pods/{output.pod}/log"
        query = {"container": output.container, "timestamps": "true"}
        new_lines = 0
        async with self._places.take(output.key) as turn:
            # What a container wrote is there when its pod is said to be over: it may have ended
            # while this waited for its place.
            has_ended = output.is_over()
            since = position.begin_again()
            if since is not None:
                query["sinceTime"] = since
            # A followed log ends with its connection where its turn is over, and a new connection
            # costs more than the log: one that others wait for is read as far as it is.
            is_followed = not turn.is_limited
            query["follow"] = "true" if is_followed else "false"
            # An answer that is slow to come takes no time of the turn: each turn gets on.
            read = self._api.lines(path, query, silence_s=_SILENCE_S, on_answer=turn.begin)
            async with aclosing(read) as lines:
                async for raw in lines:
                    if not position.is_whole(raw, has_ended=has_ended):
                        new_lines += 1
                    elif (line := position.take(raw)) is not None:
                        output.emit(line)
                        new_lines += 1
            if is_followed or has_ended:
                return _Answer(new_lines, has_ended)
            await turn.over()
        return None
