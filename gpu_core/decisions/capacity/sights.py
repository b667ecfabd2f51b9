"""Since when has a workload been able to have spot, or not?"""

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple


class _Sight(NamedTuple):
    is_up: bool
    since: datetime


class SpotSights:
    """What was seen in earlier looks, by workload. Who looks anew has seen nothing yet."""

    def __init__(self) -> None:
        self._sights: dict[str, _Sight] = {}

    def age_s(self, workload_id: str, *, is_up: bool, now: datetime) -> float:
        """For how long has it been so? A change is taken to be new.

        Args:
            workload_id: Who looks.
            is_up: Whether it could have spot at this moment.
            now: Aware, never before an earlier look.
        """
        sight = self._sights.get(workload_id)
        if sight is None or sight.is_up is not is_up:
            sight = self._sights[workload_id] = _Sight(is_up, now)
        return max(0.0, (now - sight.since).total_seconds())

    def forget(self, workload_id: str) -> None:
        """It has seen nothing yet."""
        self._sights.pop(workload_id, None)

    def keep(self, workload_ids: Collection[str]) -> None:
        """Forget all others."""
        self._sights = {key: s for key, s in self._sights.items() if key in workload_ids}
