"""What is to be done, by the time at which it is due."""

import heapq
import itertools
import threading
import time
from collections.abc import Callable


class Agenda:
    """Actions in the order of their times; threads may share it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._entries: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()  # of entries at one time, the first comes first

    def add(self, due: float, action: Callable[[], None]) -> None:
        """Put it on the agenda for this time (seconds since 1970)."""
        with self._changed:
            heapq.heappush(self._entries, (due, next(self._numbers), action))
            self._changed.notify()

    def next(self) -> Callable[[], None]:
        """Wait for what is due first; it is taken off."""
        with self._changed:
            while True:
                wait_s = self._entries[0][0] - time.time() if self._entries else None
                if wait_s is not None and wait_s <= 0:
                    return heapq.heappop(self._entries)[2]
                self._changed.wait(wait_s)
