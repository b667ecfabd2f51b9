"""Blocking work outside the event loop."""

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

import anyio
import anyio.to_thread

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


async def in_thread(function: Callable[[*Ts], T], *arguments: *Ts) -> T:
    """Run a blocking function in a worker thread."""
    return await anyio.to_thread.run_sync(function, *arguments)


async def in_abandonable_thread(
    threads: anyio.CapacityLimiter, function: Callable[[*Ts], T], *arguments: *Ts
) -> T:
    """Run a blocking function that may hang in one of these threads; a worker that stops leaves it.

    The threads of `in_thread` stay free for the cycle.
    """
    return await anyio.to_thread.run_sync(
        function, *arguments, abandon_on_cancel=True, limiter=threads
    )
