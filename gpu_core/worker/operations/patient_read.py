"""The answer to a question for which a busy server may take long: the new one, or the last one."""

import math
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio
from anyio.abc import TaskGroup

_T = TypeVar("_T")

PATIENCE_S = 0.25
"""How long a cycle, which should take less than a second, waits for what it can do without."""

MOST_AGE_S = 60.0
"""An answer that was asked for longer ago is not used: in an outage a cycle waits for the next.

That of Prefect, or that of the ledger, in which cycles fail before they come for their answers."""


class PatientRead(Generic[_T]):
    """Asks in a task of its own. A caller that has an answer waits only a moment for a new one.

    A caller with several questions asks them all (`ask`) before it waits for the first answer: the
    moment of each begins when it is asked.

    A quick server is asked for each caller. One that takes longer than callers wait is asked again
    after it has had as long a pause, as its other clients need it, too; a caller who gets the
    earlier answer is called when the new one is there. After an answer that took so long, callers
    do not wait for the next one either.

    Args:
        ask: Asks. Where it fails, the next `newest` raises its error.
        tasks: Where it is asked.
        answered: Called when an answer has come for which nothing waits any more.
        patience_s: How long a caller waits that could have an earlier answer, 0 or more. One that
            was asked for more than `MOST_AGE_S` ago is too old.
    """

    def __init__(
        self,
        ask: Callable[[], Awaitable[_T]],
        tasks: TaskGroup,
        answered: Callable[[], None],
        patience_s: float,
    ) -> None:
        self._ask = ask
        self._tasks = tasks
        self._answered = answered
        self._patience_s = patience_s
        self._is_over: anyio.Event | None = None
        """Set when what is being asked is answered; None: nothing is."""
        self._has_begun = False
        self._is_asked_again = False
        self._is_unseen = False
        self._waiting = 0
        self._answers: list[_T] = []
        self._errors: list[Exception] = []
        self._asked_at_s = float("-inf")
        """When was what `_answers` has asked for?"""
        self._tried_at_s = float("-inf")
        """When was it asked last of what is over, answered or failed?"""
        self._is_awaited = False
        """Has a caller asked that has not come for its answer yet?"""
        self._awaited_since_s = float("-inf")
        self._pause_until_s = float("-inf")
        self._is_slow = False
        """Did the last answer take longer than callers wait?"""

    @property
    def is_wanted(self) -> bool:
        """Has a caller asked, or was one called for a late answer, that did not get one yet?"""
        return self._is_unseen or self._is_awaited

    def ask(self) -> None:
        """Ask now, for a call of `newest` that follows."""
        if self._is_over is None and not (self._is_unseen and _is_recent(self._tried_at_s)):
            self._start()
        # What this caller looks for may have come too late for an answer that is under way.
        self._is_asked_again |= self._has_begun
        self._is_awaited, self._awaited_since_s = True, anyio.current_time()

    async def newest(self) -> _T:
        """The answer to what was asked, or is asked now; where that takes long, the one before."""
        is_old = self._is_over is None and not _is_recent(self._tried_at_s)
        if not self._is_awaited or is_old:
            self.ask()
        self._is_awaited = False
        if self._is_over is not None:
            await self._wait(self._is_over)
        self._is_unseen = False
        if self._errors:
            raise self._errors.pop()
        return self._answers[-1]

    async def _wait(self, is_over: anyio.Event) -> None:
        self._waiting += 1
        try:
            is_recent = _is_recent(self._asked_at_s)
            patience_s = 0.0 if self._is_slow else self._patience_s
            until_s = self._awaited_since_s + patience_s if is_recent else math.inf
            with anyio.CancelScope(deadline=until_s):
                await is_over.wait()
        finally:
            self._waiting -= 1

    def _start(self) -> None:
        self._is_over = anyio.Event()
        self._tasks.start_soon(self._answer, self._is_over)

    async def _answer(self, is_over: anyio.Event) -> None:
        await anyio.sleep_until(self._pause_until_s)
        began_s = anyio.current_time()
        self._has_begun = True
        try:
            answer = await self._ask()
        except Exception as error:
            self._errors = [error]
        else:
            self._answers, self._errors, self._asked_at_s = [answer], [], began_s
            took_s = anyio.current_time() - began_s
            self._is_slow = took_s > self._patience_s
            if self._is_slow:
                self._pause_until_s = anyio.current_time() + took_s
        finally:
            self._tried_at_s = began_s
            self._is_over, self._has_begun = None, False
            is_over.set()
        if self._is_asked_again:
            self._is_asked_again = False
            self._start()
        if not self._waiting and not self._is_awaited:
            self._is_unseen = True
            self._answered()


def _is_recent(asked_at_s: float) -> bool:
    return anyio.current_time() - asked_at_s <= MOST_AGE_S
