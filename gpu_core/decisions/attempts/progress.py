"""What a run has behind it: the part of its work that its earlier attempts made safe."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from gpu_core.decisions.forecasting.run_times import RunKind, RunTimeHistory, remaining_s, run_time
from gpu_core.decisions.model.attempts import Attempt, EndReason
from gpu_core.decisions.model.workload import RunTimeSource, Workload
from gpu_core.decisions.policy.run_times import RunTimePolicy


def with_history(
    workload: Workload,
    attempts: Sequence[Attempt],
    *,
    deployment: str | None,
    limit_s: float | None,
    history: RunTimeHistory,
    policy: RunTimePolicy,
) -> Workload:
    """What does the scheduler know of this workload, with what the past says about it?

    Args:
        workload: As its request made it.
        attempts: All attempts of the run so far, by number; one that is not over is left out.
        deployment: What its run time is learned by.
        limit_s: When an attempt of it would be stopped; None: never.
        history: What earlier runs took.
        policy: How run times are estimated.
    """
    over = [attempt for attempt in attempts if attempt.released_at is not None]
    kind = RunKind(deployment=deployment, team=workload.team, gpus=workload.total_gpus)
    estimate = run_time(
        kind, history, policy, stated_s=workload.expected_duration_s, limit_s=limit_s
    )
    left_s = None
    # A limit is for each attempt: what others saved does not shorten it.
    if over and estimate is not None and estimate.source is not RunTimeSource.LIMIT:
        done_s = saved_s(over)
        if done_s is not None:
            left_s = remaining_s(estimate, done_s, history, kind, policy)
    return replace(
        workload, run_time=estimate, remaining_s=left_s, attained_gpu_s=attained_gpu_s(over)
    )


def attained_gpu_s(attempts: Sequence[Attempt]) -> float:
    """How many GPU-seconds has the run had, in its attempts that are over?

    What it held counts, whatever came of it.
    """
    return sum(
        float(attempt.gpus) * (attempt.released_at - attempt.admitted_at).total_seconds()
        for attempt in attempts
        if attempt.released_at is not None
    )


def saved_s(attempts: Sequence[Attempt]) -> float | None:
    """How much run time need not be repeated, because a checkpoint holds it?

    Args:
        attempts: All attempts of one run, by number.

    Returns:
        Seconds of uninterrupted run time up to the newest checkpoint; 0: nothing was saved. None:
        the ledger does not say what that checkpoint was built on.
    """
    newest = next((a for a in reversed(attempts) if a.checkpoint is not None), None)
    if newest is None:
        return 0.0
    return _worked_s(newest, newest.checkpointed_at, _by_checkpoint(attempts))


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
    """From which moment on does the time of this attempt count as work of its run?

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
