"""The processes of attempts on this machine: start, find again, end.

Every process of an attempt carries the attempt's id in its environment and inherits it to its
children, in any session and under any parent. That mark, not a process tree, says what
belongs to an attempt: it survives the death of the worker and of any parent in between. Only a
program that starts another one with an environment of its own making breaks the chain: such a
child is found as long as the process that started it lives.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from gpu_core.adapters.files.private_folder import make_private_folder
from gpu_core.adapters.host.attempt_mark import attempt_id_of, environment_of
from gpu_core.decisions.model.attempts import Attempt
from gpu_core.decisions.requests.runs.run_context import ATTEMPT_ID_VARIABLE

PROGRAMS = Path(__file__).parent
"""The folder of the programs that run beside an attempt."""

_LAUNCHER = PROGRAMS / "launcher.py"
_OUTPUT = "output.log"

# A process that is becoming another program shows no environment for a moment (30% of the looks at
# one that does nothing else, Linux 6.18). Kernel threads and some servers never show one.
_LOOKS = 3
_BETWEEN_LOOKS_S = 0.005

# Some hundred lines, unless they are long.
_LAST_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class StartedProcess:
    """A process that was created; a later one with its number has another start time."""

    pid: int
    created_at: float


class LocalProcesses:
    """The attempts' processes of one worker."""

    def __init__(self) -> None:
        # Ours to reap; attempts that an earlier worker started are not among them.
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._descriptors: dict[int, int] = {}

    def start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        run_dir: Path,
        observer: Sequence[str] = (),
    ) -> StartedProcess:
        """Start an attempt in a session of its own, its output kept in `run_dir/output.log`.

        Args:
            command: What runs it.
            environment: Of the command.
            folder: Where the command works.
            run_dir: The run's folder.
            observer: A program that observes it; empty: none does.

        Raises:
            OSError: The process could not be created.
        """
        make_private_folder(run_dir)
        with open(run_dir / _OUTPUT, "ab", opener=_private) as output:
            child = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    str(_LAUNCHER),
                    str(run_dir),
                    *observer,
                    "--",
                    *command,
                ],
                env=dict(environment),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._children[child.pid] = child
        return StartedProcess(child.pid, psutil.Process(child.pid).create_time())

    def last_lines(self, run_dir: Path) -> tuple[str, ...]:
        """The end of an attempt's output; empty: it wrote nothing, or its folder is gone."""
        try:
            with (run_dir / _OUTPUT).open("rb") as output:
                size = output.seek(0, os.SEEK_END)
                output.seek(max(0, size - _LAST_BYTES))
                return tuple(output.read().decode(errors="replace").splitlines())
        except FileNotFoundError:
            return ()

    def lives(self, attempt: Attempt) -> bool:
        """Is the attempt's launcher alive? False also before it was started."""
        if attempt.pid is None:
            return False
        child = self._children.get(attempt.pid)
        if child is not None:
            if child.poll() is None:
                return True
            del self._children[attempt.pid]
            return False
        try:
            # Not its start time, which changes when the clock is set.
            return attempt_id_of(psutil.Process(attempt.pid)) == attempt.attempt_id
        except psutil.NoSuchProcess:
            return False

    def marked(self) -> dict[str, list[psutil.Process]]:
        """All living processes of attempts on this machine, by attempt id."""
        found: dict[str, list[psutil.Process]] = {}
        left = list(psutil.process_iter())
        for look in range(_LOOKS):
            if look:
                time.sleep(_BETWEEN_LOOKS_S)
            shown = [(process, environment_of(process)) for process in left]
            for process, environment in shown:
                attempt_id = (environment or {}).get(ATTEMPT_ID_VARIABLE)
                if attempt_id is not None:
                    found.setdefault(attempt_id, []).append(process)
            left = [process for process, environment in shown if environment == {}]
            if not left:
                break
        return found

    def kill(self, attempt_id: str) -> bool:
        """End every process of the attempt at once, grandchildren and orphans too.

        False: some do not end, for example because they wait for a driver that hangs.
        """
        # Again until none is left: a process may fork while its siblings are being killed.
        for _ in range(5):
            marked = self.marked().get(attempt_id, [])
            if not marked:
                return True
            processes = _with_descendants(marked)
            for process in processes:
                _signal(process.pid, signal.SIGKILL)
            psutil.wait_procs(processes, timeout=2)
            for child in list(self._children.values()):
                child.poll()
        return attempt_id not in self.marked()

    def terminate(self, attempt: Attempt) -> None:
        """Ask an attempt to end: SIGTERM to its launcher, which hands it to Prefect's process."""
        if attempt.pid is not None and self.lives(attempt):
            _signal(attempt.pid, signal.SIGTERM)

    def watch(self, pid: int, on_exit: Callable[[], None]) -> bool:
        """Call `on_exit` in the event loop when the process ends; False: it has to be polled."""
        if sys.platform != "linux":
            return False
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            return False
        loop = asyncio.get_running_loop()

        def fire() -> None:
            self._forget(descriptor, loop)
            on_exit()

        self._descriptors[descriptor] = pid
        loop.add_reader(descriptor, fire)
        return True

    def close(self) -> None:
        """Stop watching. The processes go on: the next worker finds them by their mark."""
        loop = asyncio.get_running_loop()
        for descriptor in list(self._descriptors):
            self._forget(descriptor, loop)
        for child in self._children.values():
            # Without a result the object warns that its process is not waited for.
            if child.poll() is None:
                child.returncode = 0
        self._children.clear()

    def _forget(self, descriptor: int, loop: asyncio.AbstractEventLoop) -> None:
        if self._descriptors.pop(descriptor, None) is not None:
            loop.remove_reader(descriptor)
            os.close(descriptor)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _with_descendants(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    """The processes and what they started, also with an environment of its own."""
    found = {process.pid: process for process in processes}
    for process in processes:
        try:
            found.update({child.pid: child for child in process.children(recursive=True)})
        except psutil.NoSuchProcess:
            continue
    return list(found.values())


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
