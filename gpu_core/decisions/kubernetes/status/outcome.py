"""The outcome of an attempt in Kubernetes: its cause, the party that bears it, and the remedy."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Phase(StrEnum):
    """The phase of an attempt."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class ChargedParty(StrEnum):
    """The party that bears an end without success."""

    RUN = "run"
    """The run itself: it counts toward `max_failures`."""
    INTERRUPTION = "interruption"
    """The machine, its provider, or a person with rights in the cluster."""
    PREEMPTION = "preemption"
    """More urgent pods."""
    LIMIT = "limit"
    """Its longest duration. The run is not retried."""

    @property
    def is_the_runs_own(self) -> bool:
        """Did the run bring it about?"""
        return self in (ChargedParty.RUN, ChargedParty.LIMIT)


class Cause(StrEnum):
    """The cause of an end. Stable: people's automations match on these."""

    # It waits.
    SUSPENDED = "Suspended"
    CREATING = "Creating"
    GATED = "Gated"
    UNSCHEDULABLE = "Unschedulable"
    QUOTA_REFUSED = "QuotaRefused"
    OVER_QUOTA = "OverQuota"
    ADMISSION_REFUSED = "AdmissionRefused"
    BAD_IMAGE = "BadImage"
    BAD_CONFIGURATION = "BadConfiguration"
    # It runs.
    RUNNING = "Running"
    # It ended.
    COMPLETED = "Completed"
    FAILED = "Failed"
    OUT_OF_MEMORY = "OutOfMemory"
    NOT_STARTED = "NotStarted"
    STORAGE_EXCEEDED = "StorageExceeded"
    DEADLINE = "DeadlineExceeded"
    KILLED = "Killed"
    EVICTED = "Evicted"
    NODE_PRESSURE = "NodePressure"
    NODE_SHUTDOWN = "NodeShutdown"
    NODE_LOST = "NodeLost"
    NODE_REFUSED = "NodeRefused"
    PREEMPTED_BY_POD = "PreemptedByPod"
    DELETED = "Deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptOutcome:
    """The outcome of an attempt."""

    phase: Phase
    cause: Cause
    message: str
    """One sentence with the numbers, for the run's page."""
    remedy: str | None = None
    """The remedy for a person; None: nothing is needed."""
    charge: ChargedParty | None = None
    """The party that bears the end; None: it has not ended, or it succeeded."""
    exit_code: int | None = None
    needs_person: bool = False
    """It waits, and no time will help."""
    ended_at: str | None = None
    """RFC 3339, as Kubernetes has it; None: it does not say."""


@dataclass(frozen=True, slots=True)
class _Kind:
    phase: Phase
    text: str
    remedy: str | None = None
    charge: ChargedParty | None = None
    needs_person: bool = False


_INTERRUPTED, _OWN = ChargedParty.INTERRUPTION, ChargedParty.RUN

_KINDS: Mapping[Cause, _Kind] = MappingProxyType(
    {
        Cause.SUSPENDED: _Kind(Phase.PENDING, "The Job is suspended until Kueue admits it"),
        Cause.CREATING: _Kind(Phase.PENDING, "The pod is being started"),
        Cause.GATED: _Kind(Phase.PENDING, "The pod has a scheduling gate that must be removed"),
        Cause.UNSCHEDULABLE: _Kind(
            Phase.PENDING,
            "No node is available for the pod yet",
            "Unless an autoscaler is adding a node, ensure that the pod's requests match "
            "the labels, taints and free resources of the nodes.",
        ),
        Cause.QUOTA_REFUSED: _Kind(
            Phase.PENDING,
            "The pod was rejected by a ResourceQuota of the namespace",
            "You can increase the quota or wait for other pods in the namespace to finish.",
        ),
        Cause.OVER_QUOTA: _Kind(
            Phase.PENDING,
            "The request exceeds the total of a ResourceQuota in the namespace",
            "You can increase the quota or reduce the request.",
            needs_person=True,
        ),
        Cause.ADMISSION_REFUSED: _Kind(
            Phase.PENDING,
            "The pod was rejected by the cluster",
            "Please correct the pool's base job template or the rule that rejects the pod.",
            needs_person=True,
        ),
        Cause.BAD_IMAGE: _Kind(
            Phase.PENDING,
            "Failed to pull the image",
            (
                "Ensure that the image's name and tag are correct and that the namespace has a "
                "pull secret if required."
            ),
            needs_person=True,
        ),
        Cause.BAD_CONFIGURATION: _Kind(
            Phase.PENDING,
            "Failed to create the container due to its configuration",
            "Ensure that the referenced Secrets, ConfigMaps and volumes exist and that the "
            "user is not root if runAsNonRoot is set.",
            needs_person=True,
        ),
        Cause.RUNNING: _Kind(Phase.RUNNING, "Running"),
        Cause.COMPLETED: _Kind(Phase.SUCCEEDED, "Completed"),
        Cause.FAILED: _Kind(Phase.FAILED, "The container failed", "Read its log.", _OWN),
        Cause.OUT_OF_MEMORY: _Kind(
            Phase.FAILED,
            "The container ran out of main memory",
            (
                "You can increase `memory_gib_per_gpu` or reduce memory usage, which includes "
                "/dev/shm."
            ),
            _OWN,
        ),
        Cause.NOT_STARTED: _Kind(
            Phase.FAILED,
            "Failed to start the container's command",
            "Ensure that the command exists in the image and is executable.",
            _OWN,
        ),
        Cause.STORAGE_EXCEEDED: _Kind(
            Phase.FAILED,
            "The pod exceeded its limit for the node's disk or memory volumes",
            "You can write to a volume, or increase its size limit or `shm_size`.",
            _OWN,
        ),
        Cause.DEADLINE: _Kind(
            Phase.FAILED,
            "The maximum duration was exceeded",
            "Raise max_duration.",
            ChargedParty.LIMIT,
        ),
        Cause.KILLED: _Kind(
            Phase.FAILED,
            "The container was killed externally after its grace period expired",
            charge=_INTERRUPTED,
        ),
        Cause.EVICTED: _Kind(Phase.FAILED, "The pod was evicted", charge=_INTERRUPTED),
        Cause.NODE_PRESSURE: _Kind(
            Phase.FAILED,
            "The pod was evicted due to resource pressure on its node",
            charge=_INTERRUPTED,
        ),
        Cause.NODE_SHUTDOWN: _Kind(Phase.FAILED, "The node was shut down", charge=_INTERRUPTED),
        Cause.NODE_LOST: _Kind(Phase.FAILED, "The node was lost", charge=_INTERRUPTED),
        Cause.NODE_REFUSED: _Kind(
            Phase.FAILED,
            "The node rejected the pod because its allocated resources were no longer available",
            charge=_INTERRUPTED,
        ),
        Cause.PREEMPTED_BY_POD: _Kind(
            Phase.FAILED,
            "The kube-scheduler preempted the pod for a pod with a higher priority",
            "Please install the PriorityClasses (`kubernetes.priority_classes` in the "
            "policy) to let the worker manage preemption.",
            ChargedParty.PREEMPTION,
        ),
        Cause.DELETED: _Kind(
            Phase.FAILED,
            "The pod was deleted by a user or forcibly by a provisioner",
            charge=_INTERRUPTED,
        ),
    }
)


def outcome(
    cause: Cause,
    *,
    detail: str | None = None,
    exit_code: int | None = None,
    ended_at: str | None = None,
) -> AttemptOutcome:
    """The outcome of this cause.

    Args:
        detail: In Kubernetes' or our words, to stand behind the colon.
    """
    kind = _KINDS[cause]
    text = kind.text if not detail else f"{kind.text}: {_clause(detail)}"
    return AttemptOutcome(
        phase=kind.phase,
        cause=cause,
        message=f"{text}.",
        remedy=kind.remedy,
        charge=kind.charge,
        exit_code=exit_code,
        needs_person=kind.needs_person,
        ended_at=ended_at,
    )


# The kube-scheduler names every node that does not fit; people do not read that far.
_LONGEST_DETAIL = 400


def _clause(text: str) -> str:
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= _LONGEST_DETAIL else f"{line[: _LONGEST_DETAIL - 1]}…"
