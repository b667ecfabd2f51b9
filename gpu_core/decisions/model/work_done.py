"""How much work did a run do, as its attempts show it?"""

from collections.abc import Sequence

from gpu_core.decisions.model.attempts import Attempt


def has_ended(attempts: Sequence[Attempt]) -> bool:
    """Is the run over: does nothing hold GPUs, and nothing wait to resume?

    Args:
        attempts: All of one run, by number.
    """
    last = attempts[-1]
    if last.released_at is None:
        return False
    return last.end_reason is None or not last.end_reason.resumes


def work_s(attempts: Sequence[Attempt]) -> float:
    """How long would these attempts' work have taken without interruption?

    What an interrupted attempt did after its last checkpoint was done again by the next one, and
    counts once. With no checkpoint, nothing of the attempt counts.

    Args:
        attempts: All of one run that has ended, by number.
    """
    total_s = 0.0
    for attempt in attempts:
        since = attempt.first_step_at or attempt.started_at or attempt.admitted_at
        until = attempt.checkpointed_at if attempt is not attempts[-1] else attempt.released_at
        if until is not None:
            total_s += max(0.0, (until - since).total_seconds())
    return total_s
