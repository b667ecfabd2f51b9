"""The latest starts of each deployment, with what was measured of each of them."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Generic, TypeVar

T = TypeVar("T")

_DEPLOYMENTS_KEPT = 5_000


class RecentStarts(Generic[T]):
    """The last starts of each deployment. The oldest start, and the deployment that was seen
    longest ago, are forgotten first.

    Args:
        kept: How many starts of a deployment are kept, at least 1.
    """

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._starts: OrderedDict[str, OrderedDict[str, T]] = OrderedDict()

    def observe(self, deployment: str | None, found: Mapping[str, T]) -> None:
        """Learn from a run, as often as it is read.

        Args:
            deployment: Its id or name; None: nothing is learned.
            found: The measurements of its starts, by attempt id, oldest first.
        """
        if deployment is None or not found:
            return
        known = self._starts.setdefault(deployment, OrderedDict())
        self._starts.move_to_end(deployment)
        known.update(found)
        while len(known) > self._kept:
            known.popitem(last=False)
        while len(self._starts) > _DEPLOYMENTS_KEPT:
            self._starts.popitem(last=False)

    def of(self, deployment: str | None) -> tuple[T, ...]:
        """The measurements of its starts, oldest first; empty: nothing is known of it."""
        if deployment is None:
            return ()
        return tuple(self._starts.get(deployment, {}).values())
