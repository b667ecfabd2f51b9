"""Requests of a command to Prefect's API, and the errors for a server that does not answer."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import httpx
from prefect.client.base import ServerType
from prefect.client.orchestration import PrefectClient, get_client
from prefect.settings import get_current_settings
from pydantic import ValidationError

from gpu_core.adapters.prefect.request_errors import SLOW_SERVER, why_failed
from gpu_core.decisions.checks.prefect.api_address import (
    NAME,
    check_api_address,
    no_api,
    unreachable,
)
from gpu_core.decisions.model.errors import GpuSchedulingError, InvalidInput, sentences
from gpu_core.decisions.model.redaction import redact

Answer = TypeVar("Answer")

_CREDENTIALS = (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)
_NOT_THERE = (httpx.codes.NOT_FOUND, httpx.codes.METHOD_NOT_ALLOWED)
_LONGEST_ANSWER = 300


class ApiError(GpuSchedulingError):
    """Prefect's server refused or failed, gave no answer in time, or ended during the command."""


def ask(question: Callable[[PrefectClient], Awaitable[Answer]]) -> Answer:
    """Ask the server that PREFECT_API_URL or the active profile names.

    Raises:
        InvalidInput: Its address cannot be used, or no Prefect API answers there.
        ApiError: It refused or failed, gave no answer in time, or ended during the command.
    """

    async def asking() -> Answer:
        async with get_client() as client:
            await _check_server(client, address)
            with _failures_named(address):
                return await question(client)

    address = check_api_address(get_current_settings().api.url)
    return asyncio.run(asking())


async def _check_server(client: PrefectClient, address: str) -> None:
    """Refuse an address at which there is no Prefect API, before anything is asked of it."""
    if client.server_type is ServerType.CLOUD:
        return
    with _failures_named(address):
        try:
            await client.api_version()
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise unreachable(address, why_failed(error)) from None
        except httpx.HTTPStatusError as error:
            if error.response.status_code in _NOT_THERE:
                raise no_api(address) from None
            raise
        except (ValueError, httpx.ProtocolError):
            # An answer that is no JSON, or not even HTTP.
            raise no_api(address) from None


@contextmanager
def _failures_named(address: str) -> Iterator[None]:
    """Turn a failed request into an error of one sentence, with its cause and the remedy."""
    try:
        yield
    except httpx.HTTPStatusError as error:
        raise _refusal(address, error.response) from None
    except ValidationError:
        raise ApiError(
            f"Prefect's API at {redact(address)} returned an unexpected response. Please ensure "
            "that the client and the server use the same version of Prefect"
        ) from None
    except httpx.ReadTimeout as error:
        raise ApiError(
            sentences(
                f"Prefect's API at {redact(address)} did not respond: {why_failed(error)}",
                SLOW_SERVER,
            )
        ) from None
    except httpx.TransportError as error:
        raise ApiError(
            f"Prefect's API at {redact(address)} is no longer reachable: {why_failed(error)}. "
            "Please check the server logs, ensure that the server is running and try again"
        ) from None


def _refusal(address: str, answer: httpx.Response) -> GpuSchedulingError:
    code = answer.status_code
    if code in _CREDENTIALS:
        return InvalidInput(
            NAME,
            f"rejected the provided credentials (HTTP status {code})",
            got=address,
            remedy="set PREFECT_API_AUTH_STRING, or PREFECT_API_KEY on Prefect Cloud",
        )
    said = redact(" ".join(answer.text.split()))[:_LONGEST_ANSWER]
    return ApiError(
        f"Prefect's API at {redact(address)} answered {answer.request.method} "
        f"{answer.request.url.path} with HTTP status {code}: {said or 'nothing'}"
    )
