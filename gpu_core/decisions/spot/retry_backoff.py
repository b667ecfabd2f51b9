"""The time of the next try of a run that the cluster refused, or whose platform was unavailable."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import takewhile

from gpu_core.decisions.model.attempts import MAX_EXCUSED, Attempt
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.workload import Hold

# A try costs a Job and two states of the run, so it need not be rare; but what makes room is the
# end of other GPU runs, and those take minutes.
_FIRST_S = 30
_LONGEST_S = 300

# The API answers again when such an end is written down, and a restarted server has much to do.
_FIRST_EXCUSED_S = 5

# By then a person has to correct something, and each try writes an attempt down.
_AFTER_LAST_EXCUSE_S = 900


def postponed_hold(attempts: Sequence[Attempt], now: datetime) -> Hold | None:
    """The hold of a run whose last attempt the cluster refused, or an outage of the platform ended.

    It is tried again after 30 s, after an outage 5 s, and after twice as long each further time in
    a row, up to 5 min; after 15 min where more attempts were excused than are tried again soon.

    Args:
        attempts: All attempts of the run so far, by number.
        now: Aware.

    Returns:
        None: its last attempt was taken, or it is time to try again.
    """
    last = attempts[-1] if attempts else None
    if last is None:
        return None
    belongs = _is_excused if last.is_excused else is_refused_by_cluster
    first_s = _FIRST_EXCUSED_S if last.is_excused else _FIRST_S
    longest_s = _AFTER_LAST_EXCUSE_S if is_past_excuses(attempts) else _LONGEST_S
    until = _pause_until(attempts, belongs, first_s, longest_s)
    if until is None or until <= now:
        return None
    if last.is_excused:
        return Hold(
            reason=Reason.WAITING_FOR_PLATFORM,
            summary=last.end_message or "The platform was unavailable.",
            resolution=f"The next attempt starts at {until:%H:%M:%S} UTC.",
        )
    return Hold(
        reason=Reason.WAITING_FOR_CLUSTER_QUOTA,
        summary=last.end_message or "The cluster rejected the pods.",
        resolution="You can increase the quota or wait for other pods in the namespace to "
        f"finish. The next attempt starts at {until:%H:%M:%S} UTC.",
    )


def _pause_until(
    attempts: Sequence[Attempt], belongs: Callable[[Attempt], bool], first_s: int, longest_s: int
) -> datetime | None:
    """The end of the pause after the last attempts that belong together; None: there are none."""
    in_a_row = list(takewhile(belongs, reversed(attempts)))
    since = (in_a_row[0].excused_at or in_a_row[0].released_at) if in_a_row else None
    if since is None:
        return None
    wait_s = min(first_s * 2 ** min(len(in_a_row) - 1, 16), longest_s)
    return since + timedelta(seconds=wait_s)


def is_postponed(attempt: Attempt) -> bool:
    """Did this attempt end before its flow started, for a reason that is not its run's?"""
    return not attempt.has_run


def is_refused_by_cluster(attempt: Attempt) -> bool:
    """Did this attempt end before anything of it ran, because the cluster would not take it?"""
    return is_postponed(attempt) and not attempt.is_excused


def is_past_excuses(attempts: Sequence[Attempt]) -> bool:
    """Were as many attempts in a row excused unstarted as make a person's action necessary?

    Until then the run takes free GPUs only: no run is preempted for a start that fails.

    Args:
        attempts: All attempts of the run so far, by number.
    """
    excused = len([*takewhile(_is_excused, reversed(attempts))])
    return excused > MAX_EXCUSED and is_postponed(attempts[-1])


def _is_excused(attempt: Attempt) -> bool:
    return attempt.is_excused
