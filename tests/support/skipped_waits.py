"""An event loop that waits for no clock: a timeout is over once nothing else is left to do."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any

import anyio


class _Selector(selectors.SelectSelector):
    """Counts the time that a wait would have taken, and does not take it."""

    def __init__(self) -> None:
        super().__init__()
        self.skipped_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:  # nothing but an event from outside can go on
            return super().select()
        found = super().select(0)
        if not found:
            self.skipped_s += max(timeout, 0.0)
        return found


class SkippingLoop(asyncio.SelectorEventLoop):
    """Its time goes on to the next timeout where it would wait for that.

    Only for what runs in the loop alone: what a thread or another process does takes real time.
    """

    def __init__(self) -> None:
        self._skipping = _Selector()
        super().__init__(self._skipping)

    def time(self) -> float:
        """The time of the loop: the clock's, and what was skipped."""
        return super().time() + self._skipping.skipped_s


def run_without_waits(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """What this returns, where its waits take no time."""
    return anyio.run(main, backend_options={"loop_factory": SkippingLoop})
