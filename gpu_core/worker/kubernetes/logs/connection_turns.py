"""A bounded number of places that are taken in turns while there are not enough of them."""

from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

_NEVER = float("inf")


@dataclass(slots=True)
class Turn:
    """One holder's time in a place.

    Attributes:
        turn_s: How long it is where another waits, in seconds.
        scope: Cancelled when the turn is over.
        is_limited: Another waits for the place.
        began_s: When it came to use the place; None: not yet, and its turn takes no time.
    """

    turn_s: float
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    is_limited: bool = False
    began_s: float | None = None

    def begin(self) -> None:
        """From now on it uses the place."""
        self.began_s = anyio.current_time()
        self.limit(self.is_limited)

    async def over(self) -> None:
        """Wait until the time of a turn has passed, so that places change hands no faster."""
        if self.began_s is not None:
            await anyio.sleep_until(self.began_s + self.turn_s)

    def limit(self, is_limited: bool) -> None:
        """Let the turn end in time, or as late as it likes."""
        self.is_limited = is_limited
        if is_limited and self.began_s is not None:
            self.scope.deadline = self.began_s + self.turn_s
        else:
            self.scope.deadline = _NEVER


class ConnectionTurns:
    """A holder keeps its place while no other waits; else for one turn.

    Args:
        count: How many there are.
        turn_s: How long a turn is while another waits, in seconds.
    """

    def __init__(self, count: int, turn_s: float) -> None:
        self._free = count
        self._turn_s = turn_s
        self._waiting: OrderedDict[str, anyio.Event] = OrderedDict()
        self._holders: dict[str, Turn] = {}
        self._urgent: set[str] = set()

    @asynccontextmanager
    async def take(self, key: str) -> AsyncIterator[Turn]:
        """Wait for a place and have it; what runs within is cancelled when the turn is over.

        Args:
            key: Who takes it: each has one place at a time.
        """
        await self._wait(key)
        turn = self._holders[key] = Turn(self._turn_s)
        self._end_turns()
        try:
            with turn.scope:
                yield turn
        finally:
            del self._holders[key]
            self._give_up()

    def hurry(self, key: str) -> None:
        """Give it the next place that becomes free, and let it keep its place until `forget`."""
        self._urgent.add(key)
        if key in self._waiting:
            self._waiting.move_to_end(key, last=False)
        if key in self._holders:
            self._holders[key].limit(False)
            self._end_turns()

    def forget(self, key: str) -> None:
        """It is not urgent any more."""
        self._urgent.discard(key)

    async def _wait(self, key: str) -> None:
        if self._free > 0:
            self._free -= 1
            return
        event = self._waiting[key] = anyio.Event()
        if key in self._urgent:
            self._waiting.move_to_end(key, last=False)
        self._end_turns()
        try:
            await event.wait()
        except BaseException:
            if self._waiting.pop(key, None) is None:
                self._give_up()  # it was its turn at this very moment
            raise

    def _give_up(self) -> None:
        if not self._waiting:
            self._free += 1
            return
        _, event = self._waiting.popitem(last=False)
        event.set()

    def _end_turns(self) -> None:
        """Limit the turns of as many holders as there are who wait, the oldest ones first."""
        limited = sum(turn.is_limited for turn in self._holders.values())
        for key, turn in self._holders.items():
            if limited >= len(self._waiting):
                return
            if not turn.is_limited and key not in self._urgent:
                turn.limit(True)
                limited += 1
