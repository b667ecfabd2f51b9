"""The progress of an attempt: work, checkpoints, and the cost of an interruption."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SimulatedProgress:
    """The part of a job's work that an attempt has done, in seconds of undisturbed running."""

    done_s: float
    saved_s: float
    stalled_s: float
    """How long it stood still for checkpoints; with `done_s` all of its time."""

    @property
    def lost_s(self) -> float:
        """The work that has to be done again if it ends now."""
        return self.done_s - self.saved_s


def attempt_s(work_s: float, interval_s: float | None, stall_s: float) -> float:
    """How long does so much work take, with a checkpoint after each interval but the last?

    Args:
        work_s: Work left, 0 or more.
        interval_s: Work between two checkpoints, over 0; None: no checkpoints.
        stall_s: What each checkpoint takes, 0 or more.
    """
    if interval_s is None:
        return work_s
    checkpoints = max(0, math.ceil(work_s / interval_s) - 1)
    return work_s + checkpoints * stall_s


def progress(
    elapsed_s: float, interval_s: float | None, stall_s: float, notice_s: float = 0.0
) -> SimulatedProgress:
    """How far is an attempt after this time? A checkpoint counts when its stall is over.

    An attempt that gets notice `notice_s` before its end and can save in that time saves at once
    and gets no further.

    Args:
        elapsed_s: Since it started to work; negative while it still restarts.
        interval_s: As in `attempt_s`; None: all work is safe at once.
        stall_s: As in `attempt_s`.
        notice_s: From the notice to its end; 0: no notice.
    """
    elapsed_s = max(0.0, elapsed_s)
    if interval_s is None:
        return SimulatedProgress(elapsed_s, elapsed_s, 0.0)
    regular = _with_checkpoints(elapsed_s, interval_s, stall_s)
    if not stall_s <= notice_s <= elapsed_s or not notice_s:
        return regular
    noticed = _with_checkpoints(elapsed_s - notice_s, interval_s, stall_s)
    stalled_s = noticed.stalled_s + stall_s
    # A regular checkpoint after the notice may have saved more than one at the notice.
    return max(
        SimulatedProgress(elapsed_s - stalled_s, noticed.done_s, stalled_s),
        regular,
        key=lambda reached: reached.saved_s,
    )


def _with_checkpoints(elapsed_s: float, interval_s: float, stall_s: float) -> SimulatedProgress:
    checkpoints, rest_s = divmod(elapsed_s, interval_s + stall_s)
    saved_s = checkpoints * interval_s
    done_s = saved_s + min(rest_s, interval_s)
    return SimulatedProgress(done_s, saved_s, elapsed_s - done_s)
