"""How far an attempt gets: work, checkpoints, and what an interruption costs."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """What an attempt has done of a job's work, in seconds of undisturbed running."""

    done_s: float
    saved_s: float

    @property
    def lost_s(self) -> float:
        """What has to be done again if it ends now."""
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


def progress(elapsed_s: float, interval_s: float | None, stall_s: float) -> Progress:
    """How far is an attempt after so long? A checkpoint counts when its stall is over.

    Args:
        elapsed_s: Since it began to work; negative while it still restarts.
        interval_s: As in `attempt_s`; None: all work is safe at once.
        stall_s: As in `attempt_s`.
    """
    elapsed_s = max(0.0, elapsed_s)
    if interval_s is None:
        return Progress(elapsed_s, elapsed_s)
    checkpoints, rest_s = divmod(elapsed_s, interval_s + stall_s)
    saved_s = checkpoints * interval_s
    return Progress(saved_s + min(rest_s, interval_s), saved_s)
