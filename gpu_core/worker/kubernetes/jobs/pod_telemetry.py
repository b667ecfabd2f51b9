"""GPU metrics of ended attempts, from the policy's Prometheus."""

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import anyio

from gpu_core.adapters.prometheus.queries import PrometheusError, query_range
from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.decisions.policy.telemetry import TelemetryPolicy
from gpu_core.decisions.telemetry.pod_summaries import queries_for, summaries_from

_log = logging.getLogger("prefect.gpu.telemetry")

# An end waits for it, at the most.
_ANSWER_S = 5.0

# A Prometheus that fails is left alone: other attempts end meanwhile, and would wait for it, too.
_PAUSE_S = 60.0


class PodTelemetry:
    """Asks about the GPUs of pods. Without an address, or an answer, they are not sampled.

    Args:
        clock_s: Seconds that never go back.
        answer_s: How long all questions about one attempt may take.
    """

    def __init__(
        self, clock_s: Callable[[], float] = anyio.current_time, answer_s: float = _ANSWER_S
    ) -> None:
        self._clock_s = clock_s
        self._answer_s = answer_s
        self._failure: str | None = None
        self._again_at_s: float | None = None

    async def summaries(
        self,
        policy: TelemetryPolicy,
        pods: Sequence[Mapping[str, Any]],
        start: datetime,
        end: datetime,
    ) -> tuple[GpuSummary, ...]:
        """The activity of the GPUs of these pods. Empty: it is unknown. A failure is logged once.

        Args:
            policy: Which Prometheus is asked.
            pods: The attempt's, as the cluster has them.
            start: When the attempt started.
            end: When it ended, or now.
        """
        url = policy.prometheus_url
        is_paused = self._again_at_s is not None and self._clock_s() < self._again_at_s
        if url is None or is_paused or not pods or end <= start:
            return ()
        try:
            with anyio.fail_after(self._answer_s):
                found = await self._ask(url, pods, start, end)
        except (PrometheusError, TimeoutError) as error:
            self._note_failure(
                str(error) or f"the request to {url} timed out after {self._answer_s:g} seconds"
            )
            return ()
        if self._failure is not None:
            _log.warning("Resumed sampling of pod GPUs")
        self._failure = self._again_at_s = None
        return found

    async def _ask(
        self, url: str, pods: Sequence[Mapping[str, Any]], start: datetime, end: datetime
    ) -> tuple[GpuSummary, ...]:
        namespace = pods[0]["metadata"]["namespace"]
        names = sorted({str(pod["metadata"]["name"]) for pod in pods})
        found: list[GpuSummary] = []
        for query in queries_for(namespace, names, start, end):
            series = await query_range(url, query, self._answer_s)
            found += summaries_from(series, query.step_s)
        return tuple(found)

    def _note_failure(self, failure: str) -> None:
        if self._failure is None:
            _log.warning("Unable to sample pod GPUs: %s", failure)
        self._failure, self._again_at_s = failure, self._clock_s() + _PAUSE_S
