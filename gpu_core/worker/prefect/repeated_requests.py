"""Requests that an outage of Prefect's API cut off are repeated when it is back."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import anyio
import httpx
from prefect.client.orchestration import PrefectClient

# What Prefect's client repeats, after pauses of 2 to 32 s that begin before the API is back.
_REPEATED_ERRORS = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.ReadError,
    httpx.ReadTimeout,
    httpx.RemoteProtocolError,
    httpx.WriteError,
)
_REPEATED_STATUSES = frozenset({httpx.codes.BAD_GATEWAY, httpx.codes.SERVICE_UNAVAILABLE})

# As long as Prefect's client repeats a request.
_LONGEST_WAIT_S = 60.0

_UNAWAITED = "gpu_core.unawaited"

UNAWAITED = {_UNAWAITED: True}
"""The extensions of a request that is answered as it is, such as a poll of the API itself."""


class ApiAway(httpx.TransportError):
    """The API is unavailable for longer than a request waits; Prefect's client does not retry."""


class AwaitingTransport(httpx.AsyncBaseTransport):
    """Holds a request that fails during an outage of the API, and repeats it after the outage.

    Args:
        inner: Sends the requests.
        is_away: Is the API known to be unavailable?
        wait_for_return: Returns when it is back.
        longest_wait_s: How long one request waits.
    """

    def __init__(
        self,
        inner: httpx.AsyncBaseTransport,
        is_away: Callable[[], bool],
        wait_for_return: Callable[[], Awaitable[None]],
        longest_wait_s: float = _LONGEST_WAIT_S,
    ) -> None:
        self._inner = inner
        self._is_away = is_away
        self._wait_for_return = wait_for_return
        self._longest_wait_s = longest_wait_s

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The response, of the server that is back where the first one was cut off.

        Raises:
            ApiAway: The API was not back in time.
            httpx.TransportError: The request failed, and the API is not known to be away.
        """
        if _UNAWAITED in request.extensions:
            return await self._inner.handle_async_request(request)
        try:
            response = await self._inner.handle_async_request(request)
        except _REPEATED_ERRORS:
            if not self._is_away():
                raise
        else:
            if response.status_code not in _REPEATED_STATUSES or not self._is_away():
                return response
            await response.aclose()
        with anyio.move_on_after(self._longest_wait_s):
            while self._is_away():
                await self._wait_for_return()
        if self._is_away():
            text = f"the Prefect API was unavailable for {self._longest_wait_s:.0f} seconds"
            raise ApiAway(text, request=request)
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        """Close what sends the requests."""
        await self._inner.aclose()


@contextmanager
def awaiting_return(
    client: PrefectClient,
    is_away: Callable[[], bool],
    wait_for_return: Callable[[], Awaitable[None]],
) -> Iterator[None]:
    """Let the requests of this client wait for the API's return, as long as this context lasts."""
    http = client._client
    direct, proxied = http._transport, dict(http._mounts)
    http._transport = AwaitingTransport(direct, is_away, wait_for_return)
    http._mounts = {
        pattern: None if inner is None else AwaitingTransport(inner, is_away, wait_for_return)
        for pattern, inner in proxied.items()
    }
    try:
        yield
    finally:
        http._transport, http._mounts = direct, proxied
