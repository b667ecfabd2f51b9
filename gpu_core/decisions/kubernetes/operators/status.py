"""The meaning of a custom object's status, in the same words as a Job's."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from gpu_core.decisions.kubernetes.status.api_errors import is_of_quota
from gpu_core.decisions.kubernetes.status.attempt_status import not_over_before_its_pods
from gpu_core.decisions.kubernetes.status.outcome import AttemptOutcome, Cause, Phase, outcome
from gpu_core.decisions.kubernetes.status.pod_termination import ending_of
from gpu_core.decisions.model.errors import InvalidInput


def custom_job_outcome(
    manifest: Mapping[str, Any], pods: Sequence[Mapping[str, Any]] = ()
) -> AttemptOutcome:
    """The outcome of this object.

    Args:
        manifest: A RayJob, TrainJob or SparkApplication as the API returns it.
        pods: Its pods. Operators do not distinguish a failure from an eviction, pods do.

    Raises:
        InvalidInput: It is of another kind.
    """
    status = manifest.get("status") or {}
    match manifest.get("kind"):
        case "RayJob":
            found = _ray(status)
        case "TrainJob":
            found = _train(status)
        case "SparkApplication":
            found = _spark(status.get("applicationState") or {})
        case kind:
            raise InvalidInput(
                "kind",
                "is not an object of a known operator",
                got=kind,
                allowed="RayJob, TrainJob, SparkApplication",
            )
    if found.phase is Phase.FAILED:
        found = _disruption(pods) or found
    if found.phase in (Phase.SUCCEEDED, Phase.FAILED):
        found = replace(found, ended_at=_ended_at(status))
    return not_over_before_its_pods(found, pods)


def has_been_kept(manifest: Mapping[str, Any], kept_after_end_s: int, now: datetime) -> bool:
    """Has this object been over for as long as it is to stay? Where its operator does not say when
    it ended, since it was made.

    Args:
        manifest: A RayJob, TrainJob or SparkApplication as the API returns it.
        kept_after_end_s: How long objects stay that ended, in seconds.
    """
    found = custom_job_outcome(manifest)
    since = found.ended_at or manifest["metadata"].get("creationTimestamp")
    if found.phase not in (Phase.SUCCEEDED, Phase.FAILED) or since is None:
        return False
    return now - datetime.fromisoformat(since) >= timedelta(seconds=kept_after_end_s)


def _ray(status: Mapping[str, Any]) -> AttemptOutcome:
    """KubeRay 1.7: the deployment's status first, then the entry point's."""
    detail = status.get("message") or None
    match status.get("jobDeploymentStatus") or "":
        case "Complete" | "Failed" if status.get("jobStatus") == "SUCCEEDED":
            return outcome(Cause.COMPLETED)
        case "Complete" if status.get("jobStatus") == "STOPPED":
            return outcome(Cause.DELETED, detail=detail or "its entry point was stopped")
        case "Complete" | "Failed" | "ValidationFailed":
            is_late = status.get("reason") == "DeadlineExceeded"
            detail = detail or status.get("reason")
            return outcome(Cause.DEADLINE if is_late else Cause.FAILED, detail=detail)
        case "Suspending" | "Suspended":
            return outcome(Cause.SUSPENDED)
        case "Running" if status.get("jobStatus") in ("RUNNING", "SUCCEEDED", "FAILED", "STOPPED"):
            return outcome(Cause.RUNNING)
        case step:
            return outcome(Cause.CREATING, detail=step or None)


def _train(status: Mapping[str, Any]) -> AttemptOutcome:
    """Trainer 2.3: conditions, and how many of its Jobs are active."""
    conditions = {c["type"]: c for c in status.get("conditions") or () if c.get("status") == "True"}
    failed = conditions.get("Failed")
    if failed is not None:
        is_late = failed.get("reason") == "DeadlineExceeded"
        return outcome(Cause.DEADLINE if is_late else Cause.FAILED, detail=failed.get("message"))
    if "Complete" in conditions:
        return outcome(Cause.COMPLETED)
    if "Suspended" in conditions:
        return outcome(Cause.SUSPENDED)
    if any(job.get("ready") for job in status.get("jobsStatus") or ()):
        return outcome(Cause.RUNNING)
    return outcome(Cause.CREATING)


def _spark(state: Mapping[str, Any]) -> AttemptOutcome:
    """Spark operator 2.x: one word for the application."""
    match state.get("state") or "":
        case "COMPLETED":
            return outcome(Cause.COMPLETED)
        case "SUBMISSION_FAILED" if is_of_quota(state.get("errorMessage") or ""):
            return outcome(Cause.QUOTA_REFUSED, detail=state["errorMessage"])
        case "FAILED" | "SUBMISSION_FAILED" as word:
            return outcome(Cause.FAILED, detail=state.get("errorMessage") or word)
        case "RUNNING" | "SUCCEEDING" | "FAILING" | "UNKNOWN":
            return outcome(Cause.RUNNING)
        case "SUSPENDING" | "SUSPENDED":
            return outcome(Cause.SUSPENDED)
        case word:
            return outcome(Cause.CREATING, detail=word or None)


def _ended_at(status: Mapping[str, Any]) -> str | None:
    """The moment of its end: KubeRay, the Spark operator and Trainer each have their field for
    it."""
    ended: str | None = status.get("endTime") or status.get("terminationTime")
    ends = (c for c in status.get("conditions") or () if c.get("type") in ("Complete", "Failed"))
    times = (c.get("lastTransitionTime") for c in ends if c.get("status") == "True")
    return ended or next(times, None)


# Operators delete the other pods of what has failed: that is no cause but a consequence.
_CONSEQUENCES = frozenset({Cause.DELETED, Cause.KILLED})


def _disruption(pods: Sequence[Mapping[str, Any]]) -> AttemptOutcome | None:
    """The first end that neither the run nor its operator brought about; None: there was none."""
    for pod in pods:
        found = ending_of(pod)
        if found is None or found.charge is None or found.cause in _CONSEQUENCES:
            continue
        if not found.charge.is_the_runs_own:
            return found
    return None
