"""The reasons why a pod does not run yet."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpu_core.decisions.kubernetes.status.api_errors import (
    how_to_supply,
    is_of_quota,
    is_over_quota,
)
from gpu_core.decisions.kubernetes.status.outcome import AttemptOutcome, Cause, outcome

# Reasons of a waiting container (kubelet, `pkg/kubelet/images` and `kuberuntime`, 1.34). An image
# that is pulled again with back-off may come yet, but a person should look at it.
_WAITING: Mapping[str, Cause] = {
    "ErrImagePull": Cause.BAD_IMAGE,
    "ImagePullBackOff": Cause.BAD_IMAGE,
    "InvalidImageName": Cause.BAD_IMAGE,
    "ErrImageNeverPull": Cause.BAD_IMAGE,
    "ImageInspectError": Cause.BAD_IMAGE,
    "RegistryUnavailable": Cause.BAD_IMAGE,
    "SignatureValidationFailed": Cause.BAD_IMAGE,
    "CreateContainerConfigError": Cause.BAD_CONFIGURATION,
    "CreateContainerError": Cause.BAD_CONFIGURATION,
    "RunContainerError": Cause.BAD_CONFIGURATION,
    "CrashLoopBackOff": Cause.BAD_CONFIGURATION,
}


def waiting_of(pod: Mapping[str, Any]) -> AttemptOutcome | None:
    """The reason why this pod does not run; None: it runs, or has ended."""
    status = pod.get("status") or {}
    if status.get("phase", "Pending") != "Pending":
        return None  # a sidecar that is started again keeps nothing from running
    for container in _containers(status):
        waiting = (container.get("state") or {}).get("waiting") or {}
        cause = _WAITING.get(waiting.get("reason", ""))
        if cause is not None:
            words = waiting.get("message") or waiting["reason"]
            detail = f"container {container.get('name')}: {words}"
            return _with_help(outcome(cause, detail=detail), words)
    conditions = {c["type"]: c for c in status.get("conditions") or ()}
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("status") == "False":
        gated = scheduled.get("reason") == "SchedulingGated"
        cause = Cause.GATED if gated else Cause.UNSCHEDULABLE
        words = scheduled.get("message")
        return _with_help(outcome(cause, detail=words), words or "")
    return outcome(Cause.CREATING, detail=_step(status))


def refusal(events: Sequence[Mapping[str, Any]]) -> AttemptOutcome | None:
    """The newest refusal of the Job's pods; None: no event speaks of one.

    Args:
        events: Of the Job, oldest first. What the API server refuses stands nowhere else.
    """
    for event in reversed(events):
        if event.get("reason") == "FailedCreate":
            return refused(str(event.get("message", "")))
    return None


# What the kubelet says of a volume (`pkg/volume/secret`, 1.20 to 1.34); the pod's status has none
# of it. An event of a later step means that it was found after all.
_NOT_FOUND = re.compile(r'(?:secret|configmap) "[^"]+" not found', re.IGNORECASE)
_STEPS = frozenset({"FailedMount", "Pulling", "Pulled", "Created", "Started"})


def missing_volume(events: Sequence[Mapping[str, Any]]) -> AttemptOutcome | None:
    """Does a pod wait for a Secret or ConfigMap that is not there? None: no event says so."""
    steps = (event for event in reversed(events) if event.get("reason") in _STEPS)
    last: Mapping[str, Any] = next(steps, {})
    found = _NOT_FOUND.search(str(last.get("message", "")))
    if last.get("reason") != "FailedMount" or found is None:
        return None
    return outcome(Cause.BAD_CONFIGURATION, detail=found[0])


def quota_refusal(events: Sequence[Mapping[str, Any]]) -> AttemptOutcome | None:
    """Has a ResourceQuota no room for one of the pods now? None: no event says so.

    Args:
        events: Of all that is made for the attempt, oldest first. Operators have reasons of their
            own for the event of a pod that they cannot make; the quota's words are the same.
    """
    for event in reversed(events):
        found = refused(str(event.get("message", "")))
        if found.cause is Cause.QUOTA_REFUSED:
            return found
    return None


def refused(message: str) -> AttemptOutcome:
    """The outcome where the API server refused a Job or a pod with this message."""
    if is_of_quota(message):
        return outcome(Cause.QUOTA_REFUSED, detail=message)
    cause = Cause.OVER_QUOTA if is_over_quota(message) else Cause.ADMISSION_REFUSED
    return _with_help(outcome(cause, detail=message), message)


def _with_help(found: AttemptOutcome, words: str) -> AttemptOutcome:
    """The outcome with what would help, where the words name an object that is not there."""
    remedy = how_to_supply(words)
    return found if remedy is None else replace(found, remedy=remedy)


def _containers(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _step(status: Mapping[str, Any]) -> str | None:
    reasons = (
        ((container.get("state") or {}).get("waiting") or {}).get("reason")
        for container in _containers(status)
    )
    return next((reason for reason in reasons if reason), None)
