"""The end of a pod, and what caused it."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from gpu_core.decisions.kubernetes.manifests.container import PREFECT_CONTAINER, main_container
from gpu_core.decisions.kubernetes.status.outcome import AttemptOutcome, Cause, outcome

# Reasons of the condition DisruptionTarget (Kubernetes 1.34, "Pod disruption conditions").
_DISRUPTIONS: Mapping[str, Cause] = {
    "PreemptionByScheduler": Cause.PREEMPTED_BY_POD,
    "DeletionByTaintManager": Cause.NODE_LOST,
    "DeletionByPodGC": Cause.NODE_LOST,
    "EvictionByEvictionAPI": Cause.EVICTED,
    "TerminationByKubelet": Cause.NODE_SHUTDOWN,
}

# `status.reason` of a failed pod, as kubelet and controllers set it.
_REASONS: Mapping[str, Cause] = {
    "DeadlineExceeded": Cause.DEADLINE,
    "NodeLost": Cause.NODE_LOST,
    "NodeShutdown": Cause.NODE_SHUTDOWN,
    "Shutdown": Cause.NODE_SHUTDOWN,
    "Terminated": Cause.NODE_SHUTDOWN,
    "Preempting": Cause.PREEMPTED_BY_POD,
    "UnexpectedAdmissionError": Cause.NODE_REFUSED,
    "NodeAffinity": Cause.NODE_REFUSED,
    "NodeName": Cause.NODE_REFUSED,
    "NodePorts": Cause.NODE_REFUSED,
    "TopologyAffinityError": Cause.NODE_REFUSED,
}

# The kubelet's words when a pod uses more of the node's disk or of a volume than it may itself.
_OWN_STORAGE = ("exceeds the total limit", "exceeds the limit", "exceeded its local ephemeral")

_SIGTERM_CODE, _SIGKILL_CODE = 143, 137
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNKNOWN_TO_KUBELET = "ContainerStatusUnknown"
# A command that is missing or may not be executed: what the runtime says, and what a shell says.
_START_ERRORS = frozenset({"StartError", "ContainerCannotRun"})
_SHELL_START_CODES = frozenset({126, 127})


def ending_of(pod: Mapping[str, Any]) -> AttemptOutcome | None:
    """The end of this pod, or the one that is imminent; None: it continues."""
    status = pod.get("status") or {}
    main = main_end(pod)
    match status.get("phase"):
        case "Succeeded":
            return _ended_well(pod, main or {})
        case "Failed":
            return _ended_badly(pod, status)
        case "Unknown":
            return outcome(Cause.NODE_LOST, detail=status.get("message"))
        case _ if main is not None:
            # Only sidecars are left, which nothing would ever end.
            return (
                _ended_well(pod, main) if main.get("exitCode") == 0 else _ended_badly(pod, status)
            )
        case _:
            return _imminent(pod, status)


def main_end(pod: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The end of the run's own container; None: it has not ended."""
    containers = (pod.get("spec") or {}).get("containers") or ()
    ends = dict(_endings(pod.get("status") or {}))
    if not containers:
        return ends.get(PREFECT_CONTAINER)
    return ends.get(containers[main_container({"containers": containers})].get("name", ""))


def first_start_at(pods: Iterable[Mapping[str, Any]]) -> datetime | None:
    """The moment at which the first container of these pods started, as far as their statuses say.

    Of a container that was created and never started the kubelet reports the start of 1970
    (kubernetes/kubernetes#120331).
    """
    states = (
        container.get("state") or {}
        for pod in pods
        for container in (pod.get("status") or {}).get("containerStatuses") or ()
    )
    found = (
        (state.get("running") or state.get("terminated") or {}).get("startedAt") for state in states
    )
    moments = (datetime.fromisoformat(at).astimezone(UTC) for at in found if at)
    return min((at for at in moments if at > _EPOCH), default=None)


def last_end_at(pods: Iterable[Mapping[str, Any]]) -> datetime | None:
    """The moment at which the last container of these pods ended, as far as their statuses say.

    A pod holds its GPUs until all its containers have ended, and an attempt holds the GPUs of all
    its pods, whichever of them decides how it ended.
    """
    ends = (ended for pod in pods for _, ended in _endings(pod.get("status") or {}))
    found = (ended.get("finishedAt") for ended in ends)
    return max((datetime.fromisoformat(at).astimezone(UTC) for at in found if at), default=None)


def _ended_well(pod: Mapping[str, Any], ended: Mapping[str, Any]) -> AttemptOutcome:
    """With exit code 0, as programs may end that save on SIGTERM: one that must stop before
    may have left its work undone. A flow says in its state whether it did."""
    metadata, ended_at = pod.get("metadata") or {}, ended.get("finishedAt")
    disruption = _disruption(pod.get("status") or {})
    if disruption is not None and not _came_after(disruption, ended_at):
        cause, detail = _disruption_cause(disruption)
        return outcome(cause, detail=detail, exit_code=0, ended_at=ended_at)
    if _was_deleted_before(metadata, ended):
        detail = "it ended with exit code 0 after that"
        return outcome(Cause.DELETED, detail=detail, exit_code=0, ended_at=ended_at)
    return outcome(Cause.COMPLETED, exit_code=0, ended_at=ended_at)


def _ended_badly(pod: Mapping[str, Any], status: Mapping[str, Any]) -> AttemptOutcome:
    ended = _main_ending(pod)
    cause, detail = _why(pod, status, ended)
    if cause is Cause.FAILED and ended.get("exitCode") == 0:
        return _ended_well(pod, ended)  # it was a sidecar that failed
    return outcome(
        cause, detail=detail, exit_code=ended.get("exitCode"), ended_at=ended.get("finishedAt")
    )


def _came_after(disruption: Mapping[str, Any], ended_at: str | None) -> bool:
    """Was it done already? A node that goes marks the pods that have ended on it, too."""
    since = disruption.get("lastTransitionTime")
    if not since or not ended_at:
        return False
    return datetime.fromisoformat(since) > datetime.fromisoformat(ended_at)


def ending_container(pod: Mapping[str, Any]) -> str | None:
    """The name of the container whose end is the pod's; None: none of them has ended."""
    return next((name for name, _ in _by_weight(pod)), None)


def sigterm_at(pod: Mapping[str, Any]) -> datetime | None:
    """The moment at which this pod was deleted.

    None: it was not. Kubernetes notes when its grace is over.
    """
    metadata = pod.get("metadata") or {}
    gone_at = metadata.get("deletionTimestamp")
    grace_s = metadata.get("deletionGracePeriodSeconds")
    if not gone_at or not grace_s:
        return None
    return datetime.fromisoformat(gone_at) - timedelta(seconds=grace_s)


def _imminent(pod: Mapping[str, Any], status: Mapping[str, Any]) -> AttemptOutcome | None:
    """The reason why a pod that is still there is about to end; None: it is not."""
    disruption = _disruption(status)
    if disruption is not None:
        cause, detail = _disruption_cause(disruption)
        return outcome(cause, detail=detail)
    if status.get("reason") == "NodeLost":
        return outcome(Cause.NODE_LOST, detail=status.get("message"))
    if (pod.get("metadata") or {}).get("deletionTimestamp"):
        return outcome(Cause.DELETED, detail="the pod is being deleted")
    return None


def _why(
    pod: Mapping[str, Any], status: Mapping[str, Any], ended: Mapping[str, Any]
) -> tuple[Cause, str | None]:
    """The cause of the end. Outside forces come before the container's own message."""
    reason, words = status.get("reason", ""), status.get("message") or ""
    disruption = _disruption(status)
    if reason == "Evicted":
        own = any(phrase in words for phrase in _OWN_STORAGE)
        return (Cause.STORAGE_EXCEEDED if own else Cause.NODE_PRESSURE), words
    if reason in _REASONS:
        return _REASONS[reason], words
    if reason.startswith("OutOf"):  # OutOfcpu, OutOfnvidia.com/gpu ...
        return Cause.NODE_REFUSED, words or reason
    if disruption is not None:
        return _disruption_cause(disruption)
    return _container_cause(pod, ended, words)


def _container_cause(
    pod: Mapping[str, Any], ended: Mapping[str, Any], words: str
) -> tuple[Cause, str | None]:
    code, reason = ended.get("exitCode"), ended.get("reason")
    if reason == "OOMKilled":
        return Cause.OUT_OF_MEMORY, _memory_limit(pod, ended)
    if reason in _START_ERRORS or code in _SHELL_START_CODES:
        return Cause.NOT_STARTED, ended.get("message") or f"exit code {code}"
    if reason == _UNKNOWN_TO_KUBELET:
        return Cause.NODE_LOST, "the kubelet cannot determine how the container exited"
    metadata = pod.get("metadata") or {}
    is_deleted = bool(metadata.get("deletionTimestamp"))
    if is_deleted and code == _SIGKILL_CODE:
        return Cause.KILLED, f"exit code {code}"
    if is_deleted and (code == _SIGTERM_CODE or _was_deleted_before(metadata, ended)):
        return Cause.DELETED, f"exit code {code}"
    if code is None:
        return Cause.FAILED, words or None
    if code == _SIGKILL_CODE:
        return Cause.FAILED, f"exit code {code} (SIGKILL), most likely out of memory"
    last_words = (ended.get("message") or "").strip().splitlines()
    return Cause.FAILED, f"exit code {code}" + (f", {last_words[-1]}" if last_words else "")


def _was_deleted_before(metadata: Mapping[str, Any], ended: Mapping[str, Any]) -> bool:
    """Did the container end only after its pod had been deleted? Not every program then ends with
    SIGTERM's code: torchrun's is 1."""
    deleted_at, ended_at = sigterm_at({"metadata": metadata}), ended.get("finishedAt")
    if deleted_at is None or not ended_at:
        return False
    return datetime.fromisoformat(ended_at) >= deleted_at


def _disruption_cause(condition: Mapping[str, Any]) -> tuple[Cause, str | None]:
    reason = condition.get("reason", "")
    return _DISRUPTIONS.get(reason, Cause.EVICTED), condition.get("message") or reason


def _disruption(status: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            found: Mapping[str, Any] = condition
            return found
    return None


def _main_ending(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    return next((ended for _, ended in _by_weight(pod)), {})


def _by_weight(pod: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """The ends of containers, the one that decided first: the run's own, for any end of the
    others, else the first that ended badly."""
    main = main_end(pod)
    return sorted(
        _endings(pod.get("status") or {}),
        key=lambda item: (item[1] is not main, item[1].get("exitCode") == 0),
    )


def _endings(status: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for kind in ("containerStatuses", "initContainerStatuses"):
        for container in status.get(kind) or ():
            ended = (container.get("state") or {}).get("terminated")
            if ended is not None:
                yield container.get("name", ""), ended


def _memory_limit(pod: Mapping[str, Any], ended: Mapping[str, Any]) -> str:
    containers = (pod.get("spec") or {}).get("containers") or ()
    limits = (
        ((container.get("resources") or {}).get("limits") or {}).get("memory")
        for container in sorted(containers, key=lambda c: c.get("name") != PREFECT_CONTAINER)
    )
    limit = next((text for text in limits if text), None)
    code = f"exit code {ended.get('exitCode')}"
    return code if limit is None else f"its limit is {limit}, {code}"
