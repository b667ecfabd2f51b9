"""When cycles run: as soon as something wakes them, else when the next run becomes due."""

import logging
from collections.abc import Awaitable, Callable

import anyio

from gpu_core.worker.startup.checks import CannotStart

# Between two cycles, however often something wakes them.
_SHORTEST_REST_S = 0.1
_LONGEST_REST_S = 1.0

# How often ends are looked up while a cycle waits for an answer, where no event announces them.
_RELEASE_S = 5.0

AnyLogger = logging.Logger | logging.LoggerAdapter[logging.Logger]


class CycleLoop:
    """Runs cycles, one after the other.

    Args:
        cycle: One cycle.
        sleep_s: How many seconds until the next run that is known becomes due?
        logger: Where a failure is logged.
        between: Called after each cycle, while no run waits for a decision.
    """

    def __init__(
        self,
        cycle: Callable[[], Awaitable[object]],
        sleep_s: Callable[[], float],
        logger: Callable[[], AnyLogger],
        between: Callable[[], None] = lambda: None,
    ) -> None:
        self._cycle = cycle
        self._sleep_s = sleep_s
        self._logger = logger
        self._between = between
        self._woken = anyio.Event()
        self._noticed = anyio.Event()

    def wake(self) -> None:
        """Something has changed that the next cycle should see: it begins at once."""
        self._woken.set()
        self._noticed.set()

    async def run(self) -> None:
        """Run cycles for ever.

        Raises:
            CannotStart: A person has to change something first.
        """
        while True:
            with anyio.move_on_after(self._sleep_s()):
                await self._woken.wait()
            self._woken = anyio.Event()
            began_s = anyio.current_time()
            try:
                await self._cycle()
            except CannotStart:
                raise
            except Exception:
                self._logger().exception(
                    "Scheduling cycle failed. The worker retries in the next cycle."
                )
            took_s = anyio.current_time() - began_s
            self._between()
            # Each of a hundred starts wakes the cycle: one serves all events meanwhile.
            await anyio.sleep(rest_s(took_s))

    async def release_while_cycle_waits(
        self, is_under_way: Callable[[], bool], release: Callable[[], None]
    ) -> None:
        """Notice ends also while a cycle waits: a request may take minutes in an outage.

        Args:
            is_under_way: Is there a cycle at this moment?
            release: Frees the GPUs of what has ended.
        """
        while True:
            with anyio.move_on_after(_RELEASE_S):
                await self._noticed.wait()
            self._noticed = anyio.Event()
            if is_under_way():
                try:
                    release()
                except Exception:
                    self._logger().exception(
                        "Failed to check for ended attempts. The worker retries in the next cycle."
                    )
            await anyio.sleep(_SHORTEST_REST_S)


def rest_s(took_s: float) -> float:
    """How long does the next cycle wait after one that took so long? It leaves time for starts."""
    return min(max(_SHORTEST_REST_S, 2 * took_s), _LONGEST_REST_S)
