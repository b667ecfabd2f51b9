"""The progress of a run: the part of its work that its earlier attempts made safe."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from gpu_core.decisions.model.attempts import Attempt, EndReason


def attained_gpu_s(attempts: Sequence[Attempt]) -> float:
    """How many GPU-seconds has the run had, in its attempts that are over?

    What it held counts, also where the work was lost.
    """
    return sum(
        float(attempt.gpus) * (attempt.released_at - attempt.admitted_at).total_seconds()
        for attempt in attempts
        if attempt.released_at is not None
    )


def preemption_cost_s(attempts: Sequence[Attempt]) -> float | None:
    """The time on its GPUs that preemptions have cost the run so far.

    The work after the newest checkpoint, which is lost, with the time in which the attempt saved
    and ended; and the time until the next attempt had done its first new step. What is not over yet
    costs nothing yet.

    Args:
        attempts: All of one run, by number.

    Returns:
        Seconds, 0 or more. None: no attempt that is over was preempted.
    """
    cost_s: float | None = None
    was_preempted = False
    for attempt in attempts:
        if attempt.released_at is None:
            break
        begins_at = attempt.first_step_at or attempt.started_at or attempt.admitted_at
        if was_preempted and cost_s is not None:
            cost_s += max(0.0, (begins_at - attempt.admitted_at).total_seconds())
        was_preempted = attempt.end_reason is EndReason.PREEMPTED
        if was_preempted:
            safe_at = attempt.checkpointed_at or begins_at
            lost_s = max(0.0, (attempt.released_at - safe_at).total_seconds())
            cost_s = (cost_s or 0.0) + lost_s
    return cost_s


def saved_s(attempts: Sequence[Attempt]) -> float | None:
    """How much run time need not be repeated, because a checkpoint holds it?

    Args:
        attempts: All attempts of one run, by number.

    Returns:
        Seconds of uninterrupted run time up to the newest checkpoint of an attempt that is over; 0:
        nothing was saved. None: no attempt is over, or the ledger does not say what that checkpoint
        was built on.
    """
    over = [attempt for attempt in attempts if attempt.released_at is not None]
    if not over:
        return None
    newest = next((a for a in reversed(over) if a.checkpoint is not None), None)
    if newest is None:
        return 0.0
    return _worked_s(newest, newest.checkpointed_at, _by_checkpoint(over))


def completed_s(attempts: Sequence[Attempt]) -> float | None:
    """How long did the run take without what was lost and repeated?

    Args:
        attempts: All attempts of one run, by number.

    Returns:
        Seconds. None: it did not complete, or nothing says what its last attempt went on from.
    """
    last = attempts[-1] if attempts else None
    if last is None or last.end_reason is not EndReason.COMPLETED:
        return None
    return _worked_s(last, last.released_at, _by_checkpoint(attempts))


def work_since(attempt: Attempt) -> datetime:
    """The moment from which the time of this attempt counts as work of its run.

    A run time holds one start-up, that of the first attempt. An attempt that restored a checkpoint
    repeats it, which brings the end no nearer: its work begins with its first new step.
    """
    if attempt.restored_from is None or attempt.first_step_at is None:
        return attempt.admitted_at
    return attempt.first_step_at


def _by_checkpoint(attempts: Sequence[Attempt]) -> dict[str, Attempt]:
    return {a.checkpoint: a for a in attempts if a.checkpoint is not None}


def _worked_s(
    attempt: Attempt, until: datetime | None, by_checkpoint: Mapping[str, Attempt]
) -> float | None:
    """From the run's beginning to this moment of the attempt, along the checkpoints it came by."""
    worked_s = 0.0
    while until is not None:
        worked_s += max(0.0, (until - work_since(attempt)).total_seconds())
        if attempt.restored_from is None:
            return worked_s
        earlier = by_checkpoint.get(attempt.restored_from)
        # Numbers fall along the chain, so that a broken ledger cannot make it endless.
        if earlier is None or earlier.number >= attempt.number:
            return None
        attempt, until = earlier, earlier.checkpointed_at
    return None
