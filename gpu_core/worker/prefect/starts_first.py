"""Starts come first: what reports to Prefect's server waits a moment while runs start."""

from collections.abc import Iterator
from contextlib import contextmanager

import anyio

LONGEST_YIELD_S = 5.0
"""How long a report waits for starts: a queue that never empties must not keep it for longer."""


class StartsFirst:
    """The starts that are under way; other reports to Prefect wait for them.

    Prefect's server is one process, and the GPUs of a run idle until it starts. The report that a
    run has started or ended can wait a moment: its GPUs are free before its end is reported.
    """

    def __init__(self) -> None:
        self._under_way = 0
        self._over = anyio.Event()

    @contextmanager
    def start(self) -> Iterator[None]:
        """A start is under way until the block ends."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._over.set()
                self._over = anyio.Event()

    async def let_pass(self) -> None:
        """Wait until no start is under way, `LONGEST_YIELD_S` at most."""
        with anyio.move_on_after(LONGEST_YIELD_S):
            while self._under_way:
                await self._over.wait()
