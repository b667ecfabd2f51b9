"""The loss of a start on other capacity, measured for each deployment from its own attempts.

A start loses the time from the admission to the first new step, and the work that the run did
after the checkpoint that it continues from.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from gpu_core.decisions.model.attempts import Attempt, EndReason
from gpu_core.decisions.model.recent_sample import RecentSample
from gpu_core.decisions.model.recent_starts import RecentStarts
from gpu_core.decisions.model.workload import MIN_MEASURED_STARTS, Changeover

QUANTILE = 0.95
"""A deadline is lost by one slow start only where it is the last one and no slack is left: a start
that is slower than this in one of twenty, at a moment that most runs never reach."""
SHORTEST_S = 60.0
"""The worker decides anew every minute: it may learn of an interruption that much later."""
_STARTS_KEPT = 100


class ChangeoverHistory:
    """The time that the latest starts of each deployment lost."""

    def __init__(self) -> None:
        self._losses_s = RecentStarts[float](_STARTS_KEPT)

    def observe(self, deployment: str | None, attempts: Sequence[Attempt]) -> None:
        """Learn from a run, as often as it is read.

        Args:
            deployment: Its id or name; None: nothing is learned.
            attempts: All of the run, by number.
        """
        self._losses_s.observe(deployment, start_losses_s(attempts))

    def changeover(self, deployment: str | None, default_s: float) -> Changeover:
        """The loss of a start of this deployment.

        Args:
            deployment: Its id or name; None: nothing is known of it.
            default_s: What the policy says, for too few measured starts.
        """
        return changeover(self._losses_s.of(deployment), default_s)


def changeover(losses_s: Iterable[float], default_s: float) -> Changeover:
    """The largest loss to expect of the next start, by the losses of earlier ones.

    From 19 starts on their 95% quantile. Before that none is sure: the largest, and more of it
    the fewer there are. The next of `n + 1` alike values is the largest with probability
    `1 / (n + 1)`; the margin is as large.

    >>> changeover([900, 1000, 960], 720).loss_s
    1250.0

    Args:
        losses_s: What measured starts lost, 0 or more each.
        default_s: What the policy says, over 0. It holds for fewer than three starts.
    """
    losses = sorted(losses_s)
    starts = len(losses)
    if starts < MIN_MEASURED_STARTS:
        return Changeover(default_s, starts)
    upper_s = RecentSample(starts, losses).upper(QUANTILE)
    if upper_s is None:
        upper_s = losses[-1] * (1 + 1 / (starts + 1))
    return Changeover(max(SHORTEST_S, upper_s), starts)


def start_losses_s(attempts: Sequence[Attempt]) -> dict[str, float]:
    """The loss of each start of this run, by attempt id.

    Those that cannot be measured are left out.

    Work that an interruption lost counts in the next start that does a new step: attempts in
    between that do none repeat none of it. Where no interruption lost work, the next one may lose
    twice the mean: all of the time between two saves.

    Args:
        attempts: All of the run, by number.
    """
    found: dict[str, float] = {}
    lost_s: float | None = None
    for attempt in attempts:
        if attempt.first_step_at is not None:
            start_s = max(0.0, (attempt.first_step_at - attempt.admitted_at).total_seconds())
            redone_s = 2 * (attempt.expected_loss_s or 0.0) if lost_s is None else lost_s
            found[attempt.attempt_id] = start_s + redone_s
        safe_at = attempt.checkpointed_at or attempt.first_step_at
        if safe_at is not None:
            lost_s = _lost_s(attempt, safe_at)
    return found


def _lost_s(attempt: Attempt, safe_at: datetime) -> float | None:
    """The work that an interruption of this attempt lost; None: it was not interrupted."""
    if attempt.end_reason is not EndReason.INTERRUPTED or attempt.released_at is None:
        return None
    return max(0.0, (attempt.released_at - safe_at).total_seconds())
