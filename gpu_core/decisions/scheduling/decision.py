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

    tell: Explain | None
    """None: it waits behind others."""
    next_is_open: bool
    """The next of its kind may fare better."""
    shorter_than_s: float = math.inf
    """Of its kind, only those that end sooner may fare better."""
    is_in_line: bool = True
    is_of_all: bool = False
    """The same is true of those of its kind behind it."""


def aside(tell: Explain) -> Decision:
    """It does not stand in line, and says nothing about the next one."""
    return Decision(tell, True, is_in_line=False)


def of_all(tell: Explain, *, is_in_line: bool = True) -> Decision:
    """What is true of this one is true of all of its kind."""
    return Decision(tell, False, is_in_line=is_in_line, is_of_all=True)
