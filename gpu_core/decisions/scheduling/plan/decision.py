"""The decision for one pending workload, and for its group behind it."""

import math
from typing import NamedTuple, Protocol

from gpu_core.decisions.model.reasons import Explanation
from gpu_core.decisions.model.workload import Workload


class Explain(Protocol):
    """Makes the explanation of one workload from values shared by several."""

    def __call__(self, workload: Workload, /, *, position: int) -> Explanation:
        """The workload's explanation, given its position in the queue."""


class WorkloadDecision(NamedTuple):
    """The decision for one workload, and for its group behind it."""

    explain: Explain | None
    """None: the workload waits behind others."""
    considers_next: bool
    """The next workload of the group may start."""
    shorter_than_s: float = math.inf
    """Only workloads of the group that end sooner may start."""
    is_queued: bool = True
    is_for_whole_group: bool = False
    """The decision holds for the whole group behind it."""


class SharedExplain:
    """The explanation of workloads that have all in common that it is made from: worded once.

    Args:
        explain: Reads only those fields of a workload that are part of its group.
    """

    __slots__ = ("_explain", "_first")

    def __init__(self, explain: Explain) -> None:
        self._explain = explain
        self._first: Explanation | None = None

    def __call__(self, workload: Workload, /, *, position: int) -> Explanation:
        """The workload's explanation, given its position in the queue."""
        first = self._first
        if first is None:
            first = self._first = self._explain(workload, position=position)
            return first
        return Explanation(
            workload_id=workload.workload_id,
            reason=first.reason,
            summary=first.summary,
            resolution=first.resolution,
            position=position,
            expected_start_at=first.expected_start_at,
            expected_start_from=first.expected_start_from,
            expected_start_until=first.expected_start_until,
            numbers=first.numbers,
        )


def not_queued(explain: Explain) -> WorkloadDecision:
    """The workload is not queued; the next one is considered."""
    return WorkloadDecision(explain, True, is_queued=False)


def for_whole_group(explain: Explain, *, is_queued: bool = True) -> WorkloadDecision:
    """The decision holds for all workloads of the group."""
    shared = SharedExplain(explain)
    return WorkloadDecision(shared, False, is_queued=is_queued, is_for_whole_group=True)
