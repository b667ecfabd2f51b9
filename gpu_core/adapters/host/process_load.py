"""How much processor, and how many reads and writes, does a process with its descendants use?"""

import time
from collections.abc import Callable
from typing import NamedTuple

import psutil


class HostUse(NamedTuple):
    """The resource use of processes between two calls; None: unknown."""

    cores: float | None = None
    """Mean processor cores."""
    io_bytes_per_s: float | None = None
    """Bytes that they read and wrote: files, pipes and, by `read` and `write`, sockets."""


class _Counters(NamedTuple):
    seconds: float
    io_bytes: int | None


class ProcessLoad:
    """The resource use between two calls.

    Args:
        pid: The process; its own time counts, and that of all that it started.
        without: A descendant that does not count.
        clock_s: Seconds that never go back.
    """

    def __init__(
        self, pid: int, without: int, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._pid = pid
        self._without = without
        self._clock_s = clock_s
        self._counters: dict[int, _Counters] = {}
        self._at_s: float | None = None

    def cores(self) -> float | None:
        """Mean cores since the last question; None at the first one. What ended is left out."""
        return self.use().cores

    def use(self) -> HostUse:
        """The use since the last call of any kind; unknown at the first call."""
        now_s, counters = self._clock_s(), self._read()
        before, self._counters = self._counters, counters
        began_s, self._at_s = self._at_s, now_s
        if began_s is None or now_s <= began_s:
            return HostUse()
        nothing = _Counters(0.0, 0)
        pairs = [(before.get(pid, nothing), now) for pid, now in counters.items()]
        spent_s = sum(now.seconds - was.seconds for was, now in pairs)
        moved = [
            None if was.io_bytes is None or now.io_bytes is None else now.io_bytes - was.io_bytes
            for was, now in pairs
        ]
        known = [each for each in moved if each is not None]
        passed_s = now_s - began_s
        return HostUse(
            cores=max(0.0, spent_s / passed_s),
            io_bytes_per_s=sum(known) / passed_s if len(known) == len(moved) else None,
        )

    def _read(self) -> dict[int, _Counters]:
        try:
            root = psutil.Process(self._pid)
            found = [root, *root.children(recursive=True)]
        except psutil.Error:
            return {}
        counters = {}
        for process in found:
            if process.pid == self._without:
                continue
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            counters[process.pid] = _Counters(times.user + times.system, _io_bytes(process))
        return counters


def _io_bytes(process: psutil.Process) -> int | None:
    """The bytes read and written so far; None: not available on this system."""
    try:
        counters = process.io_counters()
        return int(counters.read_chars + counters.write_chars)
    except (psutil.Error, AttributeError, OSError):
        return None
