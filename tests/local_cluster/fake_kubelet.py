"""The part of a kubelet that the API server asks for containers' output: `GET /containerLogs/...`.

One HTTPS server answers for all simulated nodes of a process. The parameters are those of
Kubernetes' `PodLogOptions` (1.20), as `pkg/kubelet/server` reads them.
"""

import asyncio
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from simulated_logs import SimulatedLog, line_text

HOST = "127.0.0.1"
# How soon a follower hears that its container has ended.
_LOOK_S = 0.5
# Lines are sent in parts, so that no answer keeps the others waiting.
_LINES_AT_ONCE = 1000
_BACKLOG = 1024
_START_S = 240
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True)
class LogRequest:
    """Which part of which output is asked for?

    Args:
        namespace: Of the pod.
        pod: Its name.
        follow: Go on until the container has ended.
        timestamps: Put its time before each line.
        previous: The output of the container before this one.
        since: Nothing older than this; None: from the beginning.
        since_s: Nothing that is older than so many seconds; None: from the beginning.
        tail_lines: Of what is there so many lines at the end; None: all.
        limit_bytes: End after so many bytes; None: never.
    """

    namespace: str
    pod: str
    follow: bool = False
    timestamps: bool = False
    previous: bool = False
    since: datetime | None = None
    since_s: int | None = None
    tail_lines: int | None = None
    limit_bytes: int | None = None


class Refused(Exception):
    """The request cannot be answered; with HTTP's status and the reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class FakeKubelet:
    """Answers for the pods of simulated nodes.

    Args:
        log_of: The output of the pod of this namespace and name; None: there is no such pod.
        is_silent: Has the node of this name lost its network?
    """

    def __init__(
        self,
        log_of: Callable[[str, str], SimulatedLog | None],
        is_silent: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._log_of = log_of
        self._is_silent = is_silent
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._is_up = threading.Event()
        self._port = 0

    @property
    def port(self) -> int:
        """Where it listens on loopback."""
        return self._port

    def start(self) -> None:
        """Listen; returns when it does.

        Raises:
            SystemExit: It could not.
        """
        self._thread.start()
        if not self._is_up.wait(_START_S):
            raise SystemExit(f"the simulated kubelet does not listen after {_START_S} s")

    def stop(self) -> None:
        """End all answers; returns when nothing listens any more."""
        if self._is_up.is_set():
            self._loop.call_soon_threadsafe(self._ended.set)
            self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        tls = await self._loop.run_in_executor(None, _tls)
        server = await asyncio.start_server(
            self._answer, HOST, 0, ssl=tls, backlog=_BACKLOG, ssl_handshake_timeout=60
        )
        self._port = server.sockets[0].getsockname()[1]
        self._is_up.set()
        await self._ended.wait()
        server.close()  # what is still answered ends with the loop

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            try:
                request = parse(head.split(b" ", 2)[1].decode())
                await self._write(request, reader, writer)
            except Refused as refused:
                body = f"{refused}".encode()
                writer.write(_head(refused.status, b"Content-Length: %d" % len(body)) + body)
                await writer.drain()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    async def _write(
        self, request: LogRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        log = await self._reachable(request)
        line = first_line(request, log, datetime.now(UTC))
        left_bytes = sys.maxsize if request.limit_bytes is None else request.limit_bytes
        writer.write(_head(200, b"Transfer-Encoding: chunked"))
        while True:
            for numbers in batched(line, log.printed(datetime.now(UTC))):
                texts = (line_text(log, n, has_timestamp=request.timestamps) for n in numbers)
                text = b"".join(texts)[:left_bytes]
                left_bytes -= len(text)
                line = numbers.stop
                if text:  # a chunk of no bytes is the end
                    await _send_chunk(writer, text)
            if log.ended_at is not None or not request.follow or left_bytes == 0:
                await _send_chunk(writer, b"")
                return
            if await _hangs_up(reader, _pause_s(log, line)):
                return
            log = await self._reachable(request, log)

    async def _reachable(
        self, request: LogRequest, last: SimulatedLog | None = None
    ) -> SimulatedLog:
        """The log as it is now. A node that is silent does not answer for as long as it is.

        Args:
            request: Whose log.
            last: What it was before: where the pod was removed meanwhile, this ended now.

        Raises:
            Refused: There is none yet. (The API server asks only for pods that there are.)
        """
        while True:
            now = datetime.now(UTC)
            found = self._log_of(request.namespace, request.pod) or (
                last and replace(last, ended_at=last.ended_at or now)
            )
            if found is None:
                raise Refused(400, f'pod "{request.pod}" is waiting to start: ContainerCreating')
            if request.previous:
                raise Refused(400, f'no terminated container before that of pod "{request.pod}"')
            if not self._is_silent(found.node):
                return found
            await asyncio.sleep(_LOOK_S)


def _pause_s(log: SimulatedLog, line: int) -> float:
    """The time until this line is there, or something else may have happened."""
    if line >= log.lines:
        return _LOOK_S
    return min(_LOOK_S, max(0.0, (log.printed_at(line) - datetime.now(UTC)) / _SECOND))


def parse(target: str) -> LogRequest:
    """What does the API server ask for with this path and query?

    Raises:
        Refused: Something else than output, or a parameter that cannot be read.
    """
    parts = urlsplit(target)
    match parts.path.strip("/").split("/"):
        case ["containerLogs", namespace, pod, _]:
            pass
        case _:
            raise Refused(404, f"{parts.path} is not simulated; only containerLogs is")
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}

    def number(name: str) -> int | None:
        return int(query[name]) if name in query else None

    try:
        return LogRequest(
            namespace=namespace,
            pod=pod,
            follow=query.get("follow") == "true",
            timestamps=query.get("timestamps") == "true",
            previous=query.get("previous") == "true",
            since=datetime.fromisoformat(query["sinceTime"]) if "sinceTime" in query else None,
            since_s=number("sinceSeconds"),
            tail_lines=number("tailLines"),
            limit_bytes=number("limitBytes"),
        )
    except ValueError as error:
        raise Refused(400, f"{parts.query}: {error}") from error


def first_line(request: LogRequest, log: SimulatedLog, now: datetime) -> int:
    """Which line does the answer begin with? Of several bounds the latest counts."""
    line = 0
    if request.tail_lines is not None:
        line = max(line, log.printed(now) - request.tail_lines)
    if request.since is not None:
        line = max(line, log.first_since(request.since))
    if request.since_s is not None:
        line = max(line, log.first_since(now - request.since_s * _SECOND))
    return line


def batched(line: int, printed: int) -> Iterator[range]:
    """The numbers of the lines from this one to the last printed one, so many at a time."""
    for begin in range(line, printed, _LINES_AT_ONCE):
        yield range(begin, min(printed, begin + _LINES_AT_ONCE))


async def _send_chunk(writer: asyncio.StreamWriter, text: bytes) -> None:
    writer.write(b"%x\r\n%b\r\n" % (len(text), text))
    await writer.drain()


def _head(status: int, header: bytes) -> bytes:
    return (
        b"HTTP/1.1 %d Simulated\r\nContent-Type: text/plain\r\nConnection: close\r\n%b\r\n\r\n"
        % (status, header)
    )


async def _hangs_up(reader: asyncio.StreamReader, within_s: float) -> bool:
    """Does the other side end the connection within this time?"""
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            return await reader.read(1) == b""
    return False


def _tls() -> ssl.SSLContext:
    """A certificate for this one time: the API server asks a kubelet for one, and checks none."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.TemporaryDirectory() as folder:
        key, certificate = Path(folder, "key"), Path(folder, "certificate")
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
             "-nodes", "-days", "365", "-subj", "/CN=simulated", "-keyout", key,
             "-out", certificate],
            check=True, capture_output=True,
        )  # fmt: skip
        tls.load_cert_chain(certificate, key)
    return tls
