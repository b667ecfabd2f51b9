"""The decision for one pending workload, and for its group behind it."""

import math
from typing import NamedTuple, Protocol

from gpu_core.decisions.model.reasons import Explanation
from gpu_core.decisions.model.workload import Workload


class Explain(Protocol):
    """Makes the explanation of one workload from values shared by several."""

    def __call__(self, workload: Workload, /, *, position: int) -> Explanation:
        """The workload's explanation, given its position in the queue."""


class Decision(NamedTuple):
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


def not_queued(explain: Explain) -> Decision:
    """The workload is not queued; the next one is considered."""
    return Decision(explain, True, is_queued=False)


def for_whole_group(explain: Explain, *, is_queued: bool = True) -> Decision:
    """The decision holds for all workloads of the group."""
    return Decision(explain, False, is_queued=is_queued, is_for_whole_group=True)
