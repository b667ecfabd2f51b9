"""What became of one waiting workload, and of those of its kind behind it."""

import math
from collections.abc import Callable
from typing import NamedTuple

from gpu_core.decisions.plan import Explanation
from gpu_core.decisions.workload import Workload

Tell = Callable[[int], Explanation]
"""Makes a workload's explanation, given its position in the line."""


class Verdict(NamedTuple):
    """What became of one workload, and of those of its kind behind it."""

    tell: Tell | None
    """None: it waits behind others."""
    next_is_open: bool
    """The next of its kind may fare better."""
    shorter_than_s: float = math.inf
    """Of its kind, only those that end sooner may fare better."""
    is_in_line: bool = True
    tell_rest: Callable[[Workload], Tell] | None = None
    """The same is true of those of its kind behind it, and they are told so."""


def aside(tell: Tell) -> Verdict:
    """It does not stand in line, and says nothing about the next one."""
    return Verdict(tell, True, is_in_line=False)


def of_all(
    workload: Workload, tell: Callable[[Workload], Tell], *, is_in_line: bool = True
) -> Verdict:
    """What is true of this one is true of all of its kind."""
    return Verdict(tell(workload), False, is_in_line=is_in_line, tell_rest=tell)
