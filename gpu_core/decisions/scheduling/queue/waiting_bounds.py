"""The waiting runs that are refused: too many of them wait, or they are stale."""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.units import count, format_duration
from gpu_core.decisions.model.workload import Hold, Workload
from gpu_core.decisions.policy.waiting import WaitingPolicy


class WaitingRun(NamedTuple):
    """A run that is due and holds no GPUs."""

    workload: Workload
    created_at: datetime
    has_begun: bool
    """It has had an attempt: it is never refused, and counts in no bound."""

    @property
    def place(self) -> tuple[datetime, str]:
        """Its place among runs that wait. A start before its creation moves it before no other."""
        return max(self.workload.submitted_at, self.created_at), self.workload.workload_id


class RefusedRun(NamedTuple):
    """A run that does not wait any longer, and why."""

    workload_id: str
    why: Hold

    @property
    def message(self) -> str:
        """One text for the run's page."""
        return f"{self.why.reason}: {self.why.summary} {self.why.resolution}"


class _Bound(NamedTuple):
    key: str
    limit: int
    whose: str


def refused_runs(
    runs: Iterable[WaitingRun], policy: WaitingPolicy, now: datetime
) -> tuple[RefusedRun, ...]:
    """The waiting runs that are refused, the latest first.

    A run that is not refused is not refused later, except as stale or under lower bounds: only
    earlier runs count before it.

    Args:
        runs: All that wait, in any order.
        policy: The bounds.
        now: Aware.
    """
    waiting: Counter[str] = Counter()
    refused = []
    for run in sorted((run for run in runs if not run.has_begun), key=lambda run: run.place):
        why = _stale(run.workload, policy, now) or _over(run.workload, policy, waiting)
        if why is not None:
            refused.append(RefusedRun(run.workload.workload_id, why))
            continue
        waiting.update(bound.key for bound in _bounds(run.workload, policy))
    return tuple(reversed(refused))


def _stale(workload: Workload, policy: WaitingPolicy, now: datetime) -> Hold | None:
    """Has it waited too long? One that a person holds waits as long as that person wants."""
    longest_s, hold = policy.expires_after_s, workload.hold
    if longest_s is None or (hold is not None and hold.reason == Reason.HELD):
        return None
    waited = now - workload.submitted_at
    if waited <= timedelta(seconds=longest_s):
        return None
    ago = format_duration(waited.total_seconds())
    return Hold(
        reason=Reason.EXPIRED,
        summary=f"Exceeded the maximum waiting time of {format_duration(longest_s)} "
        f"(`waiting.expires_after`): the scheduled start was {ago} ago.",
        resolution="Please submit the run again if it is still required.",
    )


def _over(workload: Workload, policy: WaitingPolicy, waiting: Counter[str]) -> Hold | None:
    for bound in _bounds(workload, policy):
        if waiting[bound.key] >= bound.limit:
            return Hold(
                reason=Reason.QUEUE_FULL,
                summary=f"Refused: the limit of {count(bound.limit, 'pending run')} for "
                f"{bound.whose} has been reached "
                f"(`waiting.{bound.key.partition(' ')[0]}`).",
                resolution="Please submit the run again once fewer runs are waiting.",
            )
    return None


def _bounds(workload: Workload, policy: WaitingPolicy) -> Iterator[_Bound]:
    team, user = workload.team, workload.user
    if policy.max_runs is not None:
        yield _Bound("max_runs", policy.max_runs, "this pool")
    if policy.max_runs_per_team is not None and team is not None:
        yield _Bound(f"max_runs_per_team {team}", policy.max_runs_per_team, f"team {team}")
    if policy.max_runs_per_user is not None and user is not None:
        yield _Bound(f"max_runs_per_user {user}", policy.max_runs_per_user, f"user {user}")
