"""CPU time of one task, without that of others that run while it waits."""

import time
from collections.abc import Awaitable, Generator
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")


class OwnCpu:
    """Adds up the CPU time of what is awaited through it. What it lets threads do does not count.

    Attributes:
        seconds: Until its last wait.
    """

    def __init__(self) -> None:
        self.seconds = 0.0

    async def of(self, awaited: Awaitable[_T]) -> _T:
        """Await this, and add the CPU time of its steps."""
        return await _Counted(awaited, self)


class _Counted(Generic[_T]):
    """Passes on what an event loop sends to and throws into the awaited, step by step."""

    def __init__(self, awaited: Awaitable[_T], cpu: OwnCpu) -> None:
        self._awaited = awaited
        self._cpu = cpu

    def __await__(self) -> Generator[Any, Any, _T]:
        steps: Any = self._awaited.__await__()
        step, value = steps.send, None
        while True:
            began_s = time.thread_time()
            try:
                waits_for = step(value)
            except StopIteration as end:
                result: _T = end.value
                return result
            finally:
                self._cpu.seconds += time.thread_time() - began_s
            try:
                step, value = steps.send, (yield waits_for)
            except BaseException as error:
                step, value = steps.throw, error
