"""Blocking work outside the event loop."""

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

import anyio.to_thread

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


async def in_thread(function: Callable[[*Ts], T], *arguments: *Ts) -> T:
    """Run a blocking function in a worker thread."""
    return await anyio.to_thread.run_sync(function, *arguments)
