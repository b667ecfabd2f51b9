"""What became of one waiting workload, and of those of its kind behind it."""

import math
from typing import NamedTuple, Protocol

from gpu_core.decisions.model.reasons import Explanation
from gpu_core.decisions.model.workload import Workload


class Tell(Protocol):
    """What is so of one workload, or of several: says it of one of them."""

    def __call__(self, workload: Workload, /, *, position: int) -> Explanation:
        """The workload's explanation, given its position in the line."""


class Verdict(NamedTuple):
    """What became of one workload, and of those of its kind behind it."""

    tell: Tell | None
    """None: it waits behind others."""
    next_is_open: bool
    """The next of its kind may fare better."""
    shorter_than_s: float = math.inf
    """Of its kind, only those that end sooner may fare better."""
    is_in_line: bool = True
    is_of_all: bool = False
    """The same is true of those of its kind behind it."""


def aside(tell: Tell) -> Verdict:
    """It does not stand in line, and says nothing about the next one."""
    return Verdict(tell, True, is_in_line=False)


def of_all(tell: Tell, *, is_in_line: bool = True) -> Verdict:
    """What is true of this one is true of all of its kind."""
    return Verdict(tell, False, is_in_line=is_in_line, is_of_all=True)
