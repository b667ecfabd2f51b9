"""Asking Prefect's API from a command."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import httpx
from prefect.client.orchestration import PrefectClient, get_client

from gpu_core.decisions.errors import InvalidInput

Answer = TypeVar("Answer")


def ask(question: Callable[[PrefectClient], Awaitable[Answer]]) -> Answer:
    """Ask the server that PREFECT_API_URL or the active profile names.

    Raises:
        InvalidInput: It cannot be reached.
    """

    async def asking() -> Answer:
        async with get_client() as client:
            return await question(client)

    try:
        return asyncio.run(asking())
    except httpx.ConnectError:
        raise InvalidInput(
            "PREFECT_API_URL", "cannot be reached", remedy="start one with `prefect server start`"
        ) from None
