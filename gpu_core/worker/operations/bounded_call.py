"""Calls that may hang: in a thread of their own, with a bounded wait."""

from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from threading import Thread
from typing import Generic, TypeVar

T = TypeVar("T")


class BoundedCall(Generic[T]):
    """Makes one call at a time and waits for its answer for a bounded time.

    A call that hangs cannot be ended. It keeps its thread, and no second call begins before it
    returns, so that a driver that does not answer costs one thread at most. An answer that comes
    too late is dropped.
    """

    def __init__(self) -> None:
        self._call: Future[T] | None = None

    def of(self, function: Callable[[], T], wait_s: float) -> T:
        """The answer of this function.

        Args:
            function: The function to call.
            wait_s: How long to wait for its answer, 0 or more.

        Raises:
            TimeoutError: There is no answer in time, or the previous call is still running.
            Exception: What the call raised.
        """
        if self._call is not None and not self._call.done():
            raise TimeoutError("the previous call is still running")
        self._call = begin(function)
        return self._call.result(wait_s)


def begin(function: Callable[[], T]) -> Future[T]:
    """Call this in a thread of its own that does not keep the program from its end."""
    future: Future[T] = Future()

    def call() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    # A program that exits waits for threads that are no daemons, for a hanging one for ever.
    # What is set for this call alone, such as Prefect's settings, holds there, too.
    run = copy_context().run
    Thread(target=run, args=(call,), name="bounded call", daemon=True).start()
    return future
