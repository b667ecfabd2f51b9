"""The state of an attempt, as its Job, its pods and their events show it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from gpu_core.decisions.kubernetes.manifests.gang import is_first, rank_of
from gpu_core.decisions.kubernetes.status.outcome import AttemptOutcome, Cause, Phase, outcome
from gpu_core.decisions.kubernetes.status.pod_pending import missing_volume, refusal, waiting_of
from gpu_core.decisions.kubernetes.status.pod_termination import ending_of, main_end, sigterm_at


def observe(
    jobs: Sequence[Mapping[str, Any]],
    pods: Sequence[Mapping[str, Any]] = (),
    events: Sequence[Mapping[str, Any]] = (),
    *,
    size: int = 1,
) -> AttemptOutcome:
    """The outcome of this attempt.

    Of a gang the cause is returned, not the consequences: a disruption of one node comes before the
    errors that it causes on the others, among errors the first counts, and a pod that was asked to
    end after one failed is a consequence.

    Args:
        jobs: Its Jobs: one, or one for each node of a gang; none: Kubernetes has them no more.
        pods: Its pods, in any order.
        events: Events of the Jobs and of its pods, oldest first; they say why no pod is created.
        size: How many pods it needs, at least; the Jobs say so too while they are there.

    Returns:
        Pending, running, succeeded or failed. It has ended only when none of its pods may still
        run: until then the phase is running, even if the cause says more, so that no next
        attempt starts while it may run. A pod on a silent node stays so until the node is gone.
    """
    return not_over_before_its_pods(_verdict(jobs, pods, events, size), pods)


def decisive_pod(pods: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The pod whose end says why the attempt is over.

    Returns:
        The one whose failure is the cause; where none failed the first node's. None: none ended.
    """
    ends = _ends(pods)
    cause = _cause(ends)
    if cause is not None:
        return cause[0]
    return min((pod for pod, _ in ends), key=lambda pod: not is_first(pod), default=None)


def not_over_before_its_pods(
    found: AttemptOutcome, pods: Sequence[Mapping[str, Any]]
) -> AttemptOutcome:
    """The outcome, or that it still runs, while one of these pods may."""
    is_over = found.phase in (Phase.SUCCEEDED, Phase.FAILED)
    if is_over and any(_is_alive(pod) for pod in pods):
        return replace(found, phase=Phase.RUNNING, charge=None)
    return found


_End = tuple[Mapping[str, Any], AttemptOutcome]


def _verdict(
    jobs: Sequence[Mapping[str, Any]],
    pods: Sequence[Mapping[str, Any]],
    events: Sequence[Mapping[str, Any]],
    size: int,
) -> AttemptOutcome:
    ends = _ends(pods)
    cause = _cause(ends)
    if cause is not None:
        return cause[1]
    completions = sum(job.get("spec", {}).get("completions") or 1 for job in jobs)
    wanted = max(size, completions)
    if len(ends) >= wanted:
        return ends[0][1]  # before the Jobs say so too
    if not jobs:
        return outcome(Cause.DELETED, detail="its Job no longer exists")
    ended = [found for job in jobs if (found := _ended_job(job, _pods_of(job, pods))) is not None]
    failed = [found for found in ended if found.phase is Phase.FAILED]
    if failed:
        return min(failed, key=_gravity)
    if len(ended) == len(jobs):
        is_whole = completions >= size
        return (
            ended[0]
            if is_whole
            else outcome(Cause.DELETED, detail="one of its Jobs no longer exists")
        )
    if any(job.get("spec", {}).get("suspend") for job in jobs):
        return outcome(Cause.SUSPENDED)
    waiting = [found for pod in pods if (found := waiting_of(pod)) is not None]
    if waiting:
        first = min(waiting, key=lambda found: _WAITING_ORDER.index(found.cause))
        return (first.cause is Cause.CREATING and missing_volume(events)) or first
    if len(pods) < wanted:
        return refusal(events) or outcome(Cause.CREATING, detail="its pods are being created")
    return outcome(Cause.RUNNING)


def _pods_of(
    job: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]
) -> Sequence[Mapping[str, Any]]:
    """The pods of this Job: of one node's those of its rank, else all."""
    rank = rank_of(job)
    return pods if rank is None else [pod for pod in pods if rank_of(pod) == rank]


def _ends(pods: Sequence[Mapping[str, Any]]) -> list[_End]:
    return [(pod, found) for pod in pods if (found := ending_of(pod)) is not None]


def _cause(ends: Sequence[_End]) -> _End | None:
    """The failure that brought about all others; None: nothing failed."""
    failed = [end for end in ends if end[1].phase is Phase.FAILED]
    own = [found.ended_at for _, found in failed if _is_own(found) and found.ended_at]
    since = min(own, default=None)
    # Kubernetes ends the other pods of a Job that failed, as the worker does.
    causes = [end for end in failed if since is None or not _follows(end, since)]
    return min(causes, key=lambda end: _gravity(end[1]), default=None)


def _follows(end: _End, since: str) -> bool:
    """Was this pod terminating after another had failed?"""
    pod, found = end
    deleted_at = sigterm_at(pod)
    return (
        found.cause in (Cause.DELETED, Cause.KILLED)
        and deleted_at is not None
        and deleted_at >= datetime.fromisoformat(since)
    )


# What needs a person comes before what needs only time.
_WAITING_ORDER = (
    Cause.BAD_IMAGE,
    Cause.BAD_CONFIGURATION,
    Cause.UNSCHEDULABLE,
    Cause.GATED,
    Cause.CREATING,
)


def _gravity(found: AttemptOutcome) -> tuple[bool, str]:
    """The key that puts the cause first: another's fault, then the earliest; no date comes last."""
    return (_is_own(found), found.ended_at or "~")


def _is_own(found: AttemptOutcome) -> bool:
    return found.charge is not None and found.charge.is_the_runs_own


def _ended_job(job: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> AttemptOutcome | None:
    """The end of the Job, where its pods do not show it. None: it has not ended."""
    status = job.get("status") or {}
    conditions = {c["type"]: c for c in status.get("conditions") or () if c["status"] == "True"}
    if conditions.keys() & {"Complete", "SuccessCriteriaMet"}:
        # Only pods that end with 0 complete a Job: its pods may be gone with their node by now.
        return outcome(Cause.COMPLETED, exit_code=0, ended_at=status.get("completionTime"))
    failed = conditions.get("Failed") or conditions.get("FailureTarget")
    if failed is not None:
        return _failed_job(failed, has_pods=bool(pods))
    if (job.get("metadata") or {}).get("deletionTimestamp"):
        return outcome(Cause.DELETED, detail="its Job is being deleted")
    return None


def _failed_job(condition: Mapping[str, Any], *, has_pods: bool) -> AttemptOutcome:
    reason, detail = condition.get("reason"), condition.get("message") or ""
    if reason == "PodFailurePolicy" and "DisruptionTarget" in detail:
        return outcome(Cause.EVICTED, detail=detail)
    if reason == "DeadlineExceeded":
        return outcome(Cause.DEADLINE, detail=detail)
    if not has_pods:
        # Pods that fail stay with their Job, so this one was deleted: a provisioner that loses
        # patience does that without the condition DisruptionTarget.
        return outcome(Cause.DELETED, detail=f"its pod no longer exists ({reason})")
    return outcome(Cause.FAILED, detail=detail or reason)


def _is_alive(pod: Mapping[str, Any]) -> bool:
    has_ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return not has_ended and main_end(pod) is None
