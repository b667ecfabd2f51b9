"""How many processor cores does a process with its descendants use?"""

import time
from collections.abc import Callable

import psutil


class ProcessLoad:
    """Cores in use between two questions.

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
        self._used_s: dict[int, float] = {}
        self._at_s: float | None = None

    def cores(self) -> float | None:
        """Mean cores since the last question; None at the first one. What ended is left out."""
        now_s, used_s = self._clock_s(), self._seconds()
        before_s, self._used_s = self._used_s, used_s
        began_s, self._at_s = self._at_s, now_s
        if began_s is None or now_s <= began_s:
            return None
        spent_s = sum(used - before_s.get(pid, 0.0) for pid, used in used_s.items())
        return max(0.0, spent_s / (now_s - began_s))

    def _seconds(self) -> dict[int, float]:
        try:
            root = psutil.Process(self._pid)
            found = [root, *root.children(recursive=True)]
        except psutil.Error:
            return {}
        seconds = {}
        for process in found:
            if process.pid == self._without:
                continue
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            seconds[process.pid] = times.user + times.system
        return seconds
