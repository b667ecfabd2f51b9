"""What happened to an attempt, as its Job, its pods and their events tell."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpu_core.decisions.kubernetes.gang import is_first
from gpu_core.decisions.kubernetes.outcome import Cause, Outcome, Phase, outcome
from gpu_core.decisions.kubernetes.pod_endings import ending_of
from gpu_core.decisions.kubernetes.pod_waiting import refusal, waiting_of


def observe(
    job: Mapping[str, Any] | None,
    pods: Sequence[Mapping[str, Any]] = (),
    events: Sequence[Mapping[str, Any]] = (),
) -> Outcome:
    """What happened to this attempt?

    Of a gang the cause is told, not the consequences: a disruption of one node comes before the
    errors that it causes on the others, and among errors the first counts.

    Args:
        job: The Job; None: Kubernetes does not have it any more.
        pods: Its pods, in any order.
        events: Events of the Job and of its pods, oldest first; they tell why pods cannot be made.

    Returns:
        Pending, running, succeeded or failed. It has ended only when none of its pods may still
        run: until then the phase is running, whatever the cause says already, so that no next
        attempt starts beside it. A pod on a silent node stays so until the node is gone.
    """
    return not_over_before_its_pods(_verdict(job, pods, events), pods)


def combined(outcomes: Sequence[Outcome]) -> Outcome:
    """What happened to a gang that has a Job for each node? What ended one of them ends all.

    Args:
        outcomes: Of each of its Jobs, one at least.
    """
    failed = [found for found in outcomes if found.phase is Phase.FAILED]
    if failed:
        first = min(failed, key=_gravity)
        is_over = all(found.phase in (Phase.SUCCEEDED, Phase.FAILED) for found in outcomes)
        return first if is_over else replace(first, phase=Phase.RUNNING, charge=None)
    order = (Phase.PENDING, Phase.RUNNING, Phase.SUCCEEDED)
    return min(outcomes, key=lambda found: order.index(found.phase))


def telling_pod(pods: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Which of these pods ended in the way that says why the attempt is over?

    Args:
        pods: Of one attempt, in any order.

    Returns:
        The first that failed, what others did to it before what it did itself; where none failed
        the first node's. None: none has ended.
    """
    ended = [(pod, found) for pod in pods if (found := ending_of(pod)) is not None]
    failed = [(pod, found) for pod, found in ended if found.phase is Phase.FAILED]
    if failed:
        return min(failed, key=lambda end: _gravity(end[1]))[0]
    return min((pod for pod, _ in ended), key=lambda pod: not is_first(pod), default=None)


def not_over_before_its_pods(found: Outcome, pods: Sequence[Mapping[str, Any]]) -> Outcome:
    """The outcome, or that it still runs, while one of these pods may."""
    is_over = found.phase in (Phase.SUCCEEDED, Phase.FAILED)
    if is_over and any(_is_alive(pod) for pod in pods):
        return replace(found, phase=Phase.RUNNING, charge=None)
    return found


def _verdict(
    job: Mapping[str, Any] | None,
    pods: Sequence[Mapping[str, Any]],
    events: Sequence[Mapping[str, Any]],
) -> Outcome:
    endings = [found for pod in pods if (found := ending_of(pod)) is not None]
    failed = [found for found in endings if found.phase is Phase.FAILED]
    if failed:
        return min(failed, key=_gravity)
    wanted = 1 if job is None else (job.get("spec", {}).get("completions") or 1)
    if len(endings) >= wanted:
        return endings[0]  # before the Job says so too
    if job is None:
        return outcome(Cause.DELETED, detail="its Job is gone")
    ended = _ended_job(job, has_pods=bool(pods))
    if ended is not None:
        return ended
    if job.get("spec", {}).get("suspend"):
        return outcome(Cause.SUSPENDED)
    waiting = [found for pod in pods if (found := waiting_of(pod)) is not None]
    if waiting:
        return min(waiting, key=lambda found: _WAITING_ORDER.index(found.cause))
    if len(pods) < wanted:
        return refusal(events) or outcome(Cause.CREATING, detail="its pods are being made")
    return outcome(Cause.RUNNING)


# What needs a person comes before what needs only time.
_WAITING_ORDER = (
    Cause.BAD_IMAGE,
    Cause.BAD_CONFIGURATION,
    Cause.UNSCHEDULABLE,
    Cause.GATED,
    Cause.CREATING,
)


def _gravity(found: Outcome) -> tuple[bool, str]:
    """What comes first is the cause; what nobody dated comes last."""
    return (found.charge is not None and found.charge.is_the_runs_own, found.ended_at or "~")


def _ended_job(job: Mapping[str, Any], *, has_pods: bool) -> Outcome | None:
    """How the Job ended, where its pods do not tell. None: it has not."""
    status = job.get("status") or {}
    conditions = {c["type"]: c for c in status.get("conditions") or () if c["status"] == "True"}
    if conditions.keys() & {"Complete", "SuccessCriteriaMet"}:
        return outcome(Cause.COMPLETED)
    failed = conditions.get("Failed") or conditions.get("FailureTarget")
    if failed is not None:
        return _failed_job(failed, has_pods=has_pods)
    if (job.get("metadata") or {}).get("deletionTimestamp"):
        return outcome(Cause.DELETED, detail="its Job is being deleted")
    return None


def _failed_job(condition: Mapping[str, Any], *, has_pods: bool) -> Outcome:
    reason, detail = condition.get("reason"), condition.get("message") or ""
    if reason == "PodFailurePolicy" and "DisruptionTarget" in detail:
        return outcome(Cause.EVICTED, detail=detail)
    if reason == "DeadlineExceeded":
        return outcome(Cause.DEADLINE, detail=detail)
    if not has_pods:
        # Pods that fail stay with their Job, so this one was deleted: a provisioner that loses
        # patience does that without the condition DisruptionTarget.
        return outcome(Cause.DELETED, detail=f"its pod is gone ({reason})")
    return outcome(Cause.FAILED, detail=detail or reason)


def _is_alive(pod: Mapping[str, Any]) -> bool:
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
