"""The features of each place in the line for a forecast, and its addition to an explanation."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from gpu_core.decisions.model.cluster import Node
from gpu_core.decisions.model.reasons import Explanation
from gpu_core.decisions.model.workload import Workload, planned_s
from gpu_core.decisions.scheduling.forecasting.start_times import QueueFeatures, StartForecast

START_RATE_WINDOW_S = 3600.0
"""Starts of the last hour count: `QueueFeatures.started_gpus_per_s`."""


def gpus_by_type(nodes: Iterable[Node]) -> dict[str, int]:
    """How many GPUs are there of each type? The type with the most first."""
    totals: dict[str, int] = {}
    for node in nodes:
        totals[node.gpu_type] = totals.get(node.gpu_type, 0) + len(node.gpu_ids)
    return dict(sorted(totals.items(), key=lambda item: (-item[1], item[0])))


def waits_for(workload: Workload, totals: Mapping[str, int]) -> str | None:
    """The type of GPU in whose queue it waits; None: for none that there is.

    Of several that would do, the one that it wants most; of any, the one with the most GPUs.
    """
    if not workload.shape.total_gpus:
        return None
    return next((name for name in workload.shape.gpu_types or totals if totals.get(name)), None)


def queue_features(
    line: Sequence[Workload],
    totals: Mapping[str, int],
    started_gpus: Mapping[str, int],
    now: datetime,
) -> dict[str, QueueFeatures]:
    """The features of the queue at each place in it.

    Args:
        line: The pending workloads, the head first.
        totals: GPUs by type, as `gpus_by_type` gives them.
        started_gpus: GPUs of workloads that started in the last hour, by type.

    Returns:
        By workload id; without those that wait for no type that there is.
    """
    features: dict[str, QueueFeatures] = {}
    ahead: dict[str, _Ahead] = {}
    for workload in line:
        gpu_type = waits_for(workload, totals)
        if gpu_type is None:
            continue
        before = ahead.setdefault(gpu_type, _Ahead())
        features[workload.workload_id] = QueueFeatures(
            gpus_wanted=workload.shape.total_gpus,
            gpus_ahead=before.gpus,
            gpu_s_ahead=before.gpu_s,
            total_gpus=totals[gpu_type],
            started_gpus_per_s=started_gpus.get(gpu_type, 0) / START_RATE_WINDOW_S,
            head_waited_s=_waited_s(before.head, now),
        )
        before.join(workload)
    return features


def with_forecast(explanation: Explanation, forecast: StartForecast, now: datetime) -> Explanation:
    """The explanation with the interval that the start falls into four times in five.

    The planner's own expected start is kept, and the interval is widened to hold it.
    """
    start_at = explanation.expected_start_at or now + timedelta(seconds=forecast.median_s)
    return replace(
        explanation,
        expected_start_at=start_at,
        expected_start_from=min(start_at, now + timedelta(seconds=forecast.low_s)),
        expected_start_until=max(start_at, now + timedelta(seconds=forecast.high_s)),
    )


class _Ahead:
    """Those ahead in the line for one type of GPU."""

    def __init__(self) -> None:
        self.head: Workload | None = None
        self.gpus = 0
        self.gpu_s = 0.0

    def join(self, workload: Workload) -> None:
        """One more is ahead of those that follow."""
        self.head = self.head or workload
        self.gpus += workload.shape.total_gpus
        self.gpu_s += workload.shape.total_gpus * (planned_s(workload) or 0.0)


def _waited_s(head: Workload | None, now: datetime) -> float:
    return 0.0 if head is None else max(0.0, (now - head.submitted_at).total_seconds())
