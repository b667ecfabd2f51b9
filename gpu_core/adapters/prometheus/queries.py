"""Questions to a Prometheus, by its HTTP API."""

import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx

from gpu_core.decisions.model.errors import GpuSchedulingError
from gpu_core.decisions.telemetry.pod_summaries import RangeQuery
from gpu_core.decisions.telemetry.series import Series

# 8 pods with 8 GPUs each, 12 series of 1,000 points: about 25 MB.
_LARGEST_BYTES = 64 * 2**20


class PrometheusError(GpuSchedulingError):
    """It does not answer, refuses, or is none."""


async def query_range(url: str, asked: RangeQuery, timeout_s: float) -> tuple[Series, ...]:
    """The values of a query at every step of a span.

    Args:
        url: Of the Prometheus, without a slash at the end.
        asked: The query.
        timeout_s: For each step of the answer.

    Raises:
        PrometheusError: There is no answer, or none of a Prometheus.
    """
    form = {
        "query": asked.query,
        "start": str(asked.start.timestamp()),
        "end": str(asked.end.timestamp()),
        "step": str(asked.step_s),
    }
    return await _ask(url, "query_range", form, timeout_s)


async def query_samples(
    url: str, query: str, now: datetime, timeout_s: float
) -> tuple[Series, ...]:
    """The samples of a query for a span before now, each with the moment of its scrape.

    Args:
        url: Of the Prometheus, without a slash at the end.
        query: A selector with its span, such as `up[2m]`.
        now: Aware.
        timeout_s: For each step of the answer.

    Raises:
        PrometheusError: There is no answer, or none of a Prometheus.
    """
    return await _ask(url, "query", {"query": query, "time": str(now.timestamp())}, timeout_s)


async def _ask(url: str, path: str, form: dict[str, str], timeout_s: float) -> tuple[Series, ...]:
    # Loading the system's certificates takes longer than the answer.
    is_encrypted = url.startswith("https:")
    try:
        async with (
            httpx.AsyncClient(timeout=timeout_s, verify=is_encrypted) as client,
            client.stream("POST", f"{url}/api/v1/{path}", data=form) as answer,
        ):
            body = bytearray()
            async for part in answer.aiter_bytes():
                body += part
                if len(body) > _LARGEST_BYTES:
                    raise PrometheusError(f"the response from {url} exceeds {_LARGEST_BYTES} bytes")
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise PrometheusError(f"failed to query {url}: {error or type(error).__name__}") from error
    try:
        document = json.loads(body)
        if not answer.is_success or document["status"] != "success":
            raise PrometheusError(f"{url} refuses: {str(document.get('error'))[:200]}")
        return tuple(_points(document["data"]["result"]))
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        OSError,  # a moment far beyond what the platform's clock has
        OverflowError,
        RecursionError,
    ) as error:
        text = (
            f"unexpected response from {url}: status {answer.status_code}, not a "
            "Prometheus response"
        )
        raise PrometheusError(text) from error


def _points(result: Any) -> Iterator[Series]:
    for row in result:
        labels = {str(name): str(value) for name, value in row["metric"].items()}
        name = labels.pop("__name__", "")
        for at_s, value in row["values"]:
            number = float(value)
            if math.isfinite(number):
                yield Series(
                    name=name, labels=labels, value=number, at=datetime.fromtimestamp(at_s, UTC)
                )
