"""Servers of one command: started on free loopback ports, and stopped when the command ends."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from urllib.error import URLError
from urllib.request import urlopen

from gpu_core.decisions.model.errors import GpuSchedulingError

_STOP_S = 15.0


class ServiceError(GpuSchedulingError):
    """A server did not come up, or went away."""


@dataclass(frozen=True, slots=True)
class Service:
    """A started server."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses of the quickstart's two servers."""

    prefect: str
    mlflow: str


class Services:
    """The servers of one command. As a context manager it stops them in reverse order."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = dict(environment)
        self._started: list[Service] = []

    def start(self, name: str, command: Sequence[str]) -> Service:
        """Start a server in a session of its own, so that Ctrl-C reaches only this command."""
        self._folder.mkdir(parents=True, exist_ok=True)
        log = self._folder / f"{name}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        service = Service(name, process, log)
        self._started.append(service)
        return service

    def use(self, environment: Mapping[str, str]) -> None:
        """Set the environment of the servers that are started after this call."""
        self._environment = dict(environment)

    def wait_until_up(self, service: Service, url: str, timeout_s: float) -> None:
        """Wait until the server answers.

        Raises:
            ServiceError: It ended, or did not answer in time; with the end of its log.
        """
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if service.process.poll() is not None:
                raise ServiceError(f"{service.name} exited during startup:\n{_tail(service.log)}")
            if _answers(url):
                return
            time.sleep(0.2)
        raise ServiceError(
            f"{service.name} did not answer within {timeout_s:.0f} s:\n{_tail(service.log)}"
        )

    def check(self) -> None:
        """Are all servers alive?

        Raises:
            ServiceError: One ended.
        """
        for service in self._started:
            if service.process.poll() is not None:
                raise ServiceError(f"{service.name} exited unexpectedly:\n{_tail(service.log)}")

    def stop(self, service: Service) -> None:
        """Stop one server: SIGINT, then SIGTERM, then SIGKILL, each after a pause."""
        if service not in self._started:
            return
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            _signal_group(service.process, number)
            try:
                service.process.wait(timeout=_STOP_S if number != signal.SIGTERM else 5)
                break
            except subprocess.TimeoutExpired:
                continue
        # Children that the server left behind in its session.
        _signal_group(service.process, signal.SIGKILL)
        self._started.remove(service)

    def stop_all(self) -> None:
        """Stop all servers, the last one first."""
        for service in reversed(list(self._started)):
            self.stop(service)

    def __enter__(self) -> "Services":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop_all()


def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=2) as response:  # noqa: S310 - a loopback address of our own
            return bool(200 <= response.status < 300)
    except (URLError, OSError):
        return False


def _signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return


def _tail(log: Path, lines: int = 15) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
