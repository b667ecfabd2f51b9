"""The order of the queue: the keys of the policy, compared one after the other."""

from typing import Any

from gpu_core.decisions.model.units import SECONDS_PER_HOUR
from gpu_core.decisions.model.workload import Workload
from gpu_core.decisions.policy.ordering import OrderingPolicy, OrderKey
from gpu_core.decisions.scheduling.queue.order_keys import (
    MEASURES,
    AttainedService,
    run_time_left_s,
)

Key = tuple[Any, ...]
"""Sorts ascending. It ends with the id, so no two are equal."""


_NORMAL, _STARVING = 1, 0
_OWN_KEYS = ("moved up", "waiting too long")


class WorkloadOrder:
    """The policy's order, ready to make keys.

    A key is `(-priority_override, is not starving, *policy's keys, submitted, id)`. All but the
    fair share is constant while a workload waits: aging and slack change for all at the same rate,
    so points in time are compared instead of amounts.

    Args:
        policy: The keys.
    """

    def __init__(self, policy: OrderingPolicy) -> None:
        self._policy = policy
        self.fair_share_at: int | None = (
            len(_OWN_KEYS) + policy.keys.index(OrderKey.FAIR_SHARE)
            if OrderKey.FAIR_SHARE in policy.keys
            else None
        )
        """The position of the fair share in a key; None: it does not count."""
        measured = [key for key in policy.keys if key is not OrderKey.FAIR_SHARE]
        self._measures = [MEASURES[key](policy) for key in measured]
        self._priority_at = (
            len(_OWN_KEYS) + measured.index(OrderKey.PRIORITY)
            if OrderKey.PRIORITY in measured
            else None
        )
        self.names: tuple[str, ...] = (*_OWN_KEYS, *policy.keys, "submitted", "id")
        """The names of the parts of a key."""

    def starves_from_s(self, workload: Workload, submitted_s: float) -> float | None:
        """The moment from which the workload precedes all others; None: never.

        Only a workload that has had no GPU starves. Preempted workloads make progress, and would
        otherwise soon be many that starve.
        """
        limit = self._policy.starvation_after_s
        return None if limit is None or workload.attained_gpu_s else submitted_s + limit

    def points(self, workload: Workload, submitted_s: float, now_s: float) -> float:
        """How many points has it, with those that it has gained by waiting until now?"""
        waited_s = max(0.0, now_s - submitted_s)
        return workload.priority + self._policy.aging_points_per_hour * waited_s / SECONDS_PER_HOUR

    def starves(self, workload: Workload, submitted_s: float, now_s: float) -> bool:
        """Does it precede all others now, as it has waited too long?"""
        starves_from_s = self.starves_from_s(workload, submitted_s)
        return starves_from_s is not None and starves_from_s <= now_s

    def key(self, workload: Workload, submitted_s: float, *, is_starving: bool = False) -> Key:
        """The workload's key, without its fair share."""
        if is_starving:
            return (-workload.priority_override, _STARVING, submitted_s, workload.workload_id)
        progress = AttainedService(workload.attained_gpu_s, run_time_left_s(workload))
        return (
            -workload.priority_override,
            _NORMAL,
            *[measure(workload, submitted_s, progress) for measure in self._measures],
            submitted_s,
            workload.workload_id,
        )

    def is_starving(self, key: Key) -> bool:
        """Is it the key of a workload that has waited too long?"""
        return bool(key[1] == _STARVING)

    def running_key(
        self, workload: Workload, submitted_s: float, held_gpu_s: float, held_s: float
    ) -> Key:
        """The key that a running workload would have in the queue now."""
        left_s = run_time_left_s(workload)
        progress = AttainedService(
            workload.attained_gpu_s + held_gpu_s,
            None if left_s is None else max(0.0, left_s - held_s),
        )
        return (
            -workload.priority_override,
            _NORMAL,
            *[measure(workload, submitted_s, progress) for measure in self._measures],
            submitted_s,
            workload.workload_id,
        )

    def with_share(self, key: Key, share: tuple[float, ...]) -> Key:
        """The key with the fair share in its place."""
        at = self.fair_share_at
        # Starving workloads are in order of age; their shares do not count.
        if at is None or key[1] == _STARVING:
            return key
        return (*key[:at], share, *key[at:])

    def policy_part(self, key: Key) -> Key:
        """The policy's part of a key, without the age and id that make the order total.

        A preemptor by order must be ahead by this part: by age alone equals would take turns.
        """
        return key[:-2]

    def aged_until(self, key: Key, moment_s: float) -> Key:
        """The key without the points that a workload gains by waiting after this moment."""
        at = self._priority_at
        if at is None or not self._policy.aging_points_per_hour:
            return key
        gained = self._policy.aging_points_per_hour / SECONDS_PER_HOUR * moment_s
        return (*key[:at], key[at] - gained, *key[at + 1 :])

    def deciding_key(self, ahead: Key, behind: Key) -> str:
        """The key that puts one before the other."""
        if ahead[1] == _STARVING:
            return _OWN_KEYS[1] if ahead[0] == behind[0] else _OWN_KEYS[0]
        for name, one, other in zip(self.names, ahead, behind, strict=False):
            if one != other:
                return name
        return self.names[-1]
