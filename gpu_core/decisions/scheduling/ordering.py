"""The order of the queue: the keys of the policy, compared one after the other."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_core.decisions.model.units import SECONDS_PER_HOUR, epoch_s
from gpu_core.decisions.model.workload import Workload
from gpu_core.decisions.policy.ordering import OrderingPolicy, OrderKey

Key = tuple[Any, ...]
"""Sorts ascending. It ends with the id, so no two are equal."""


@dataclass(frozen=True, slots=True)
class Progress:
    """GPU-seconds that a workload has had, and the run time it has left."""

    attained_gpu_s: float
    remaining_s: float | None


_NORMAL, _STARVING = 1, 0
_OWN_KEYS = ("moved up", "waiting too long")


class WorkloadOrder:
    """The policy's order, ready to make keys.

    A key is `(-moved_up, is not starving, *policy's keys, submitted, id)`. All but the fair share
    is constant while a workload waits: aging and slack change for all at the same rate, so points
    in time are compared instead of amounts.

    Args:
        policy: The keys.
    """

    def __init__(self, policy: OrderingPolicy) -> None:
        self._policy = policy
        self._makers = [self._maker(key) for key in policy.keys if key is not OrderKey.FAIR_SHARE]
        self.fair_share_at: int | None = (
            len(_OWN_KEYS) + policy.keys.index(OrderKey.FAIR_SHARE)
            if OrderKey.FAIR_SHARE in policy.keys
            else None
        )
        """The position of the fair share in a key; None: it does not count."""
        self.names: tuple[str, ...] = (*_OWN_KEYS, *policy.keys, "submitted", "id")
        """The names of the parts of a key."""

    def starves_from_s(self, workload: Workload, submitted_s: float) -> float | None:
        """When does the workload start to precede all others? None: never.

        Only a workload that has had no GPU starves. Preempted workloads make progress, and would
        otherwise soon be many that starve.
        """
        limit = self._policy.starvation_after_s
        return None if limit is None or workload.attained_gpu_s else submitted_s + limit

    def key(self, workload: Workload, submitted_s: float, *, is_starving: bool = False) -> Key:
        """The workload's key, without its fair share."""
        if is_starving:
            return (-workload.moved_up, _STARVING, submitted_s, workload.workload_id)
        progress = Progress(workload.attained_gpu_s, _run_time_left_s(workload))
        return (
            -workload.moved_up,
            _NORMAL,
            *[make(workload, submitted_s, progress) for make in self._makers],
            submitted_s,
            workload.workload_id,
        )

    def running_key(
        self, workload: Workload, submitted_s: float, held_gpu_s: float, held_s: float
    ) -> Key:
        """The key that a running workload would have in the queue now."""
        left_s = _run_time_left_s(workload)
        progress = Progress(
            workload.attained_gpu_s + held_gpu_s,
            None if left_s is None else max(0.0, left_s - held_s),
        )
        return (
            -workload.moved_up,
            _NORMAL,
            *[make(workload, submitted_s, progress) for make in self._makers],
            submitted_s,
            workload.workload_id,
        )

    def with_share(self, key: Key, share: tuple[float, ...]) -> Key:
        """The key with the fair share in its place."""
        at = self.fair_share_at
        # Starving workloads are in order of age, whatever their share.
        if at is None or key[1] == _STARVING:
            return key
        return (*key[:at], share, *key[at:])

    def policy_part(self, key: Key) -> Key:
        """The policy's part of a key, without the age and id that make the order total.

        A preemptor by order must be ahead by this part: by age alone equals would take turns.
        """
        return key[:-2]

    def deciding_key(self, ahead: Key, behind: Key) -> str:
        """Which key puts one before the other?"""
        if ahead[1] == _STARVING:
            return _OWN_KEYS[1] if ahead[0] == behind[0] else _OWN_KEYS[0]
        for name, one, other in zip(self.names, ahead, behind, strict=False):
            if one != other:
                return name
        return self.names[-1]

    def _maker(self, key: OrderKey) -> Callable[[Workload, float, Progress], float]:
        return _MAKERS[key](self._policy)


def in_order(workloads: Sequence[Workload], policy: OrderingPolicy | None = None) -> list[Workload]:
    """In which order are workloads considered whose shares are equal?"""
    order = WorkloadOrder(policy or OrderingPolicy())
    return sorted(workloads, key=lambda w: order.key(w, epoch_s(w.submitted_at)))


def _run_time_left_s(workload: Workload) -> float | None:
    if workload.remaining_s is not None:
        return workload.remaining_s
    return _run_time_s(workload)


def _run_time_s(workload: Workload) -> float | None:
    if workload.run_time is not None:
        return workload.run_time.median_s
    return workload.expected_duration_s


def _or_last(value: float | None) -> float:
    return math.inf if value is None else value


def _by_priority(policy: OrderingPolicy) -> Callable[[Workload, float, Progress], float]:
    per_s = policy.aging_points_per_hour / SECONDS_PER_HOUR
    return lambda w, submitted_s, _: per_s * submitted_s - w.priority


def _by_slack(_: OrderingPolicy) -> Callable[[Workload, float, Progress], float]:
    def latest_start_s(workload: Workload, _: float, progress: Progress) -> float:
        if workload.deadline_at is None:
            return math.inf
        return epoch_s(workload.deadline_at) - (progress.remaining_s or 0.0)

    return latest_start_s


def _by_job(_: OrderingPolicy) -> Callable[[Workload, float, Progress], float]:
    return lambda w, _submitted_s, _progress: _or_last(_run_time_s(w))


def _by_remaining_time(_: OrderingPolicy) -> Callable[[Workload, float, Progress], float]:
    return lambda _w, _submitted_s, progress: _or_last(progress.remaining_s)


def _by_remaining_service(_: OrderingPolicy) -> Callable[[Workload, float, Progress], float]:
    return lambda w, _submitted_s, progress: _or_last(progress.remaining_s) * max(1, w.total_gpus)


def _by_attained_service(
    policy: OrderingPolicy,
) -> Callable[[Workload, float, Progress], float]:
    quantum_gpu_s = policy.service_quantum_gpu_s
    last = math.inf if policy.service_levels is None else policy.service_levels - 1

    def level(_workload: Workload, _submitted_s: float, progress: Progress) -> float:
        # Level n ends at (2^(n+1) - 1) quanta: 1, 3, 7, 15, ...
        return min(last, math.floor(math.log2(1 + progress.attained_gpu_s / quantum_gpu_s)))

    return level


def _by_gpus(_: OrderingPolicy) -> Callable[[Workload, float, Progress], float]:
    return lambda w, _submitted_s, _progress: -w.total_gpus


def _by_submission(_: OrderingPolicy) -> Callable[[Workload, float, Progress], float]:
    return lambda _w, submitted_s, _progress: submitted_s


_MAKERS: Mapping[
    OrderKey, Callable[[OrderingPolicy], Callable[[Workload, float, Progress], float]]
] = {
    OrderKey.PRIORITY: _by_priority,
    OrderKey.DEADLINE_SLACK: _by_slack,
    OrderKey.SHORTEST_JOB: _by_job,
    OrderKey.SHORTEST_REMAINING_TIME: _by_remaining_time,
    OrderKey.SHORTEST_REMAINING_SERVICE: _by_remaining_service,
    OrderKey.LEAST_ATTAINED_SERVICE: _by_attained_service,
    OrderKey.MOST_GPUS: _by_gpus,
    OrderKey.SUBMITTED: _by_submission,
}
