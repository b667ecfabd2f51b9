"""Shows that the quickstart waits: a spinner on a terminal, else a line every two seconds."""

import threading
import time
from types import TracebackType

from rich.console import Console

_SILENCE_S = 1.8


class WaitIndicator:
    """Shows what is waited for while the context lasts.

    Args:
        console: Where it is shown. A pipe or a log gets a line after each 1.8 s without another.
    """

    def __init__(self, console: Console, what: str) -> None:
        self._console = console
        self._what = what
        self._status = console.status(what) if console.is_terminal else None
        self._started_at = self._printed_at = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._repeat, daemon=True)

    def update(self, what: str) -> None:
        """Show this from now on."""
        if what != self._what:
            self._started_at = time.monotonic()
        self._what = what
        if self._status is not None:
            self._status.update(what)

    def printed(self) -> None:
        """Note that a line was printed, so that none is due for a while."""
        self._printed_at = time.monotonic()

    def __enter__(self) -> "WaitIndicator":
        if self._status is not None:
            self._status.start()
        else:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._status is not None:
            self._status.stop()
        else:
            self._thread.join()

    def _repeat(self) -> None:
        while not self._over.wait(0.1):
            if time.monotonic() - self._printed_at >= _SILENCE_S:
                elapsed_s = time.monotonic() - self._started_at
                # Unlike an event's line it does not begin with the time since the start.
                line = f"  ... {elapsed_s:.0f}s: {self._what}"
                self._console.print(line, no_wrap=True, overflow="ellipsis")
                self.printed()
