"""When is a run tried again that the cluster would not take?"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import takewhile

from gpu_core.decisions.accounting import Attempt, EndReason
from gpu_core.decisions.plan import Reason
from gpu_core.decisions.workload import Hold

# A try costs a Job and two states of the run, so it need not be rare; but what makes room is the
# end of other GPU runs, and those take minutes.
_FIRST_S = 30
_LONGEST_S = 300


def postponed_hold(attempts: Sequence[Attempt], now: datetime) -> Hold | None:
    """What keeps a run from its next attempt, if the cluster would not take the last one?

    It is tried again after 30 s, and after twice as long each further time in a row, up to 5 min.

    Args:
        attempts: All attempts of the run so far, by number.
        now: Aware.

    Returns:
        None: its last attempt was taken, or it is time to try again.
    """
    in_a_row = list(takewhile(is_postponed, reversed(attempts)))
    last = in_a_row[0] if in_a_row else None
    if last is None or last.released_at is None:
        return None
    wait_s = min(_FIRST_S * 2 ** (len(in_a_row) - 1), _LONGEST_S)
    until = last.released_at + timedelta(seconds=wait_s)
    if until <= now:
        return None
    return Hold(
        reason=Reason.WAITING_FOR_CLUSTER_QUOTA,
        summary=last.end_message or "The cluster would not take it.",
        resolution="It starts when other pods of the namespace have ended, or the quota is raised; "
        f"it is tried again at {until:%H:%M:%S} UTC.",
    )


def is_postponed(attempt: Attempt) -> bool:
    """Did this attempt end before anything of it ran, because the cluster would not take it?"""
    return attempt.end_reason is EndReason.POSTPONED
