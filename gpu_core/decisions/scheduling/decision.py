"""What became of one waiting workload, and of those of its kind behind it."""

import math
from typing import NamedTuple, Protocol

from gpu_core.decisions.model.reasons import Explanation
from gpu_core.decisions.model.workload import Workload


class Explain(Protocol):
    """What is so of one workload, or of several: says it of one of them."""

    def __call__(self, workload: Workload, /, *, position: int) -> Explanation:
        """The workload's explanation, given its position in the line."""


class Decision(NamedTuple):
    """What became of one workload, and of those of its kind behind it."""

    explain: Explain | None
    """None: it waits behind others."""
    considers_next: bool
    """The next of its kind may fare better."""
    shorter_than_s: float = math.inf
    """Of its kind, only those that end sooner may fare better."""
    is_queued: bool = True
    is_for_whole_group: bool = False
    """The same is true of those of its kind behind it."""


def not_queued(explain: Explain) -> Decision:
    """It does not stand in line, and says nothing about the next one."""
    return Decision(explain, True, is_queued=False)


def for_whole_group(explain: Explain, *, is_queued: bool = True) -> Decision:
    """What is true of this one is true of all of its kind."""
    return Decision(explain, False, is_queued=is_queued, is_for_whole_group=True)
