"""A process and mount namespace for one cluster: its end is the end of everything in it.

Two kubelets on one machine would delete each other's logs (both use /var/log/pods), and a crash
would leave containers and mounts behind. In namespaces of their own neither happens, and stopping
a cluster is the end of one process.
"""

import ctypes
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from waiting import wait_for

_INIT = Path(__file__).with_name("init.sh")
_ROOM = Path(__file__).with_name("room.sh")
_READY_S = 240
_CLONE_NEWPID = 0x20000000  # linux/sched.h
_CLONE_NEWNS = 0x00020000
_LIBC = ctypes.CDLL(None, use_errno=True)
_children: list[subprocess.Popen] = []
_START_TIME_FIELD = 21  # of /proc/PID/stat, counted from 0; see proc(5)


@dataclass(frozen=True)
class Process:
    """A process that cannot be mistaken for a later one with the same number.

    Args:
        pid: Its number.
        started_ticks: Clock ticks between the machine's start and its own.
    """

    pid: int
    started_ticks: int

    @classmethod
    def of(cls, pid: int) -> "Process":
        """Which process has this number now?"""
        return cls(pid, _started_ticks(pid) or 0)

    def is_alive(self) -> bool:
        """Does it still run?"""
        return _started_ticks(self.pid) == self.started_ticks

    def end(self, number: signal.Signals, within_s: float) -> bool:
        """Send it this signal; has it ended within this time?"""
        if not self.is_alive():
            return True
        with suppress(ProcessLookupError):  # it ended meanwhile
            os.kill(self.pid, number)

        def is_over() -> bool:
            _reap_children()
            return not self.is_alive()

        return wait_for(is_over, within_s)


def create(state: Path, lifeline: int) -> Process:
    """Make the namespaces of the cluster in this folder; the process that holds them.

    Args:
        state: The cluster's folder.
        lifeline: A file descriptor; the cluster ends when reading from it does.
    """
    pid_file = state / "init.pid"
    with (state / "logs" / "init.log").open("w") as log:
        unshare = subprocess.Popen(
            ["unshare", "--fork", "--pid", "--mount", "--propagation", "slave", _INIT, state],
            stdin=lifeline, stdout=log, stderr=log, start_new_session=True, cwd="/",
        )  # fmt: skip
    _children.append(unshare)
    wait_for(lambda: pid_file.exists() or unshare.poll() is not None, _READY_S)
    if not pid_file.exists():
        raise SystemExit(f"no namespaces: {(state / 'logs' / 'init.log').read_text().strip()}")
    return Process.of(int(pid_file.read_text()))


def create_room(init: Process, folder: Path) -> Process:
    """Make a mount namespace for the programs of one node; the process that holds it.

    Args:
        init: The process whose end is also the room's.
        folder: The node's own.
    """
    ready, log = folder / "ready", folder / "room.log"
    command = ["unshare", "--mount", "--propagation", "slave", str(_ROOM), str(folder)]
    room = start(init, command, log, {})
    wait_for(lambda: ready.exists() or not room.is_alive(), _READY_S)
    if not ready.exists():
        raise SystemExit(f"no mount namespace for a node: {log.read_text().strip()}")
    return room


def start(holder: Process, command: list[str], log: Path, env: dict[str, str]) -> Process:
    """Start a program inside the namespaces of this process."""
    with log.open("a") as output, _children_in(holder), _mounts_of(holder) as enter_mounts:
        program = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True, env={**os.environ, **env}, cwd="/", preexec_fn=enter_mounts,
        )  # fmt: skip
    _children.append(program)
    return Process.of(program.pid)


def run(holder: Process, command: list[str]) -> None:
    """Run a program inside the namespaces of this process to its end.

    Raises:
        CalledProcessError: It failed; its output is with it.
    """
    with _children_in(holder), _mounts_of(holder) as enter_mounts:
        subprocess.run(
            command, check=True, capture_output=True, text=True, cwd="/", preexec_fn=enter_mounts
        )


@contextmanager
def _children_in(holder: Process) -> Iterator[None]:
    """Children started in the block are in the process namespace; this process stays outside."""
    with _opened("/proc/self/ns/pid") as own, _opened(f"/proc/{holder.pid}/ns/pid") as theirs:
        _setns(theirs, _CLONE_NEWPID)
        try:
            yield
        finally:
            _setns(own, _CLONE_NEWPID)


@contextmanager
def _mounts_of(holder: Process) -> Iterator:
    with _opened(f"/proc/{holder.pid}/ns/mnt") as mounts:
        yield lambda: _setns(mounts, _CLONE_NEWNS)


@contextmanager
def _opened(path: str) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _reap_children() -> None:
    """Take note of what has ended: a namespace ends only when no process in it is a zombie."""
    for program in _children:
        program.poll()


def _setns(descriptor: int, kind: int) -> None:
    # os.setns came with Python 3.12.
    if _LIBC.setns(descriptor, kind) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def _started_ticks(pid: int) -> int | None:
    """When did the process with this number start? None: there is none, or it is a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name in brackets, which may hold spaces and brackets.
    fields = ["", "", *stat.rpartition(")")[2].split()]
    return None if fields[2] == "Z" else int(fields[_START_TIME_FIELD])
