"""The moment since when a workload could have had spot, or asked for on-demand without success."""

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple


class _Sight(NamedTuple):
    is_up: bool
    since: datetime


class OnDemandRequests:
    """Since when each workload has asked for on-demand without getting any."""

    def __init__(self) -> None:
        self._asked_at: dict[str, datetime] = {}
        self._free_at: dict[str, datetime] = {}

    def waited_s(
        self, workload_id: str, *, is_free: bool, ended_at: datetime | None, now: datetime
    ) -> float:
        """For how long has it not been given on-demand that it asks for?

        Where on-demand seems free, only the time since then counts: the next plan gives it away,
        unless a quota or a reservation keeps the workload from it.

        Args:
            is_free: Whether on-demand has room for it at this moment.
            ended_at: The end of its last attempt, after which it asks anew; None: it had none.
            now: Aware, never before an earlier call.
        """
        asked_at = self._asked_at.get(workload_id)
        if asked_at is None or (ended_at is not None and asked_at < ended_at):
            self.forget(workload_id)
            asked_at = self._asked_at[workload_id] = now
        if is_free:
            asked_at = self._free_at.setdefault(workload_id, now)
        else:
            self._free_at.pop(workload_id, None)
        return (now - asked_at).total_seconds()

    def forget(self, workload_id: str) -> None:
        """It does not ask for on-demand any more."""
        self._asked_at.pop(workload_id, None)
        self._free_at.pop(workload_id, None)

    def keep(self, workload_ids: Collection[str]) -> None:
        """Forget all others."""
        self._asked_at = {key: at for key, at in self._asked_at.items() if key in workload_ids}
        self._free_at = {key: at for key, at in self._free_at.items() if key in workload_ids}


class SpotAvailabilityTracker:
    """Spot as earlier looks saw it, by workload. A new tracker has seen nothing yet."""

    def __init__(self) -> None:
        self._availability: dict[str, _Sight] = {}
        self.on_demand = OnDemandRequests()

    def age_s(self, workload_id: str, *, is_up: bool, now: datetime) -> float:
        """For how long has it been so? A change is taken to be new.

        Args:
            now: Aware, never before an earlier look.
        """
        sight = self._availability.get(workload_id)
        if sight is None or sight.is_up is not is_up:
            sight = self._availability[workload_id] = _Sight(is_up, now)
        return max(0.0, (now - sight.since).total_seconds())

    def forget(self, workload_id: str) -> None:
        """It has seen nothing yet."""
        self._availability.pop(workload_id, None)

    def keep(self, workload_ids: Collection[str]) -> None:
        """Forget all others."""
        self._availability = {
            key: s for key, s in self._availability.items() if key in workload_ids
        }
        self.on_demand.keep(workload_ids)
