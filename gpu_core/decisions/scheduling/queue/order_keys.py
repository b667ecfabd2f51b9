"""The measure that each ordering key of the policy compares.

A new key is a member of `OrderKey` and a measure here; one with more than a few lines gets its own
file.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpu_core.decisions.model.units import SECONDS_PER_HOUR, epoch_s
from gpu_core.decisions.model.workload import Workload
from gpu_core.decisions.policy.ordering import OrderingPolicy, OrderKey


@dataclass(frozen=True, slots=True)
class AttainedService:
    """GPU-seconds that a workload has had, and the run time it has left."""

    attained_gpu_s: float
    remaining_s: float | None


Measure = Callable[[Workload, float, AttainedService], float]
"""The measure that one key compares, of a workload, its time of submission and its progress; less
is first."""


def run_time_left_s(workload: Workload) -> float | None:
    """How much run time is left of a pending workload? None: unknown."""
    if workload.remaining_s is not None:
        return workload.remaining_s
    return _run_time_s(workload)


def _run_time_s(workload: Workload) -> float | None:
    if workload.run_time is not None:
        return workload.run_time.median_s
    return workload.expected_duration_s


def _or_last(value: float | None) -> float:
    return math.inf if value is None else value


def _by_priority(policy: OrderingPolicy) -> Measure:
    per_s = policy.aging_points_per_hour / SECONDS_PER_HOUR
    return lambda w, submitted_s, _: per_s * submitted_s - w.priority


def _by_slack(_: OrderingPolicy) -> Measure:
    def latest_start_s(workload: Workload, _: float, progress: AttainedService) -> float:
        if workload.deadline_at is None:
            return math.inf
        return epoch_s(workload.deadline_at) - (progress.remaining_s or 0.0)

    return latest_start_s


def _by_job(_: OrderingPolicy) -> Measure:
    return lambda w, _submitted_s, _progress: _or_last(_run_time_s(w))


def _by_remaining_time(_: OrderingPolicy) -> Measure:
    return lambda _w, _submitted_s, progress: _or_last(progress.remaining_s)


def _by_remaining_service(_: OrderingPolicy) -> Measure:
    return lambda w, _submitted_s, progress: (
        _or_last(progress.remaining_s) * max(1, w.shape.total_gpus)
    )


def _by_attained_service(policy: OrderingPolicy) -> Measure:
    quantum_gpu_s = policy.service_quantum_gpu_s
    last = math.inf if policy.service_levels is None else policy.service_levels - 1

    def level(_workload: Workload, _submitted_s: float, progress: AttainedService) -> float:
        # Level n ends at (2^(n+1) - 1) quanta: 1, 3, 7, 15, ...
        return min(last, math.floor(math.log2(1 + progress.attained_gpu_s / quantum_gpu_s)))

    return level


def _by_gpus(_: OrderingPolicy) -> Measure:
    return lambda w, _submitted_s, _progress: -w.shape.total_gpus


def _by_submission(_: OrderingPolicy) -> Measure:
    return lambda _w, submitted_s, _progress: submitted_s


MEASURES: Mapping[OrderKey, Callable[[OrderingPolicy], Measure]] = {
    OrderKey.PRIORITY: _by_priority,
    OrderKey.DEADLINE_SLACK: _by_slack,
    OrderKey.SHORTEST_JOB: _by_job,
    OrderKey.SHORTEST_REMAINING_TIME: _by_remaining_time,
    OrderKey.SHORTEST_REMAINING_SERVICE: _by_remaining_service,
    OrderKey.LEAST_ATTAINED_SERVICE: _by_attained_service,
    OrderKey.MOST_GPUS: _by_gpus,
    OrderKey.SUBMITTED: _by_submission,
}
"""The measure of each key but the fair share, which is not constant while a workload waits."""
