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
    """The run itself: it counts towards `max_failures`."""
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
        Cause.GATED: _Kind(Phase.PENDING, "The pod has a scheduling gate that has to be removed"),
        Cause.UNSCHEDULABLE: _Kind(
            Phase.PENDING,
            "No node takes the pod yet",
            "Unless an autoscaler is about to bring a node: compare what the pod asks for with "
            "the nodes' labels, taints and free resources.",
        ),
        Cause.QUOTA_REFUSED: _Kind(
            Phase.PENDING,
            "The pod was rejected by a ResourceQuota of the namespace",
            "Raise the quota, or wait until other pods of the namespace end.",
        ),
        Cause.OVER_QUOTA: _Kind(
            Phase.PENDING,
            "It asks for more than a ResourceQuota of the namespace allows in all",
            "Raise the quota, or ask for less.",
            needs_person=True,
        ),
        Cause.ADMISSION_REFUSED: _Kind(
            Phase.PENDING,
            "The cluster refuses to make the pod",
            "Change the pool's base job template, or the rule that refuses it.",
            needs_person=True,
        ),
        Cause.BAD_IMAGE: _Kind(
            Phase.PENDING,
            "The image cannot be pulled",
            "Check the image's name and tag, and the pull secret of the namespace.",
            needs_person=True,
        ),
        Cause.BAD_CONFIGURATION: _Kind(
            Phase.PENDING,
            "The container cannot be made as it is configured",
            "Check the Secrets, ConfigMaps and volumes that it names, and that its user is not "
            "root where runAsNonRoot is set.",
            needs_person=True,
        ),
        Cause.RUNNING: _Kind(Phase.RUNNING, "Running"),
        Cause.COMPLETED: _Kind(Phase.SUCCEEDED, "Completed"),
        Cause.FAILED: _Kind(Phase.FAILED, "The container failed", "Read its log.", _OWN),
        Cause.OUT_OF_MEMORY: _Kind(
            Phase.FAILED,
            "The container ran out of main memory",
            "Raise memory_gib_per_gpu, or use less: /dev/shm counts too.",
            _OWN,
        ),
        Cause.NOT_STARTED: _Kind(
            Phase.FAILED,
            "The container's command could not be started",
            "Check that the command exists in the image and may be executed.",
            _OWN,
        ),
        Cause.STORAGE_EXCEEDED: _Kind(
            Phase.FAILED,
            "The pod wrote more to the node's disk or to memory volumes than it may",
            "Write to a volume, or raise its size limit or shm_size.",
            _OWN,
        ),
        Cause.DEADLINE: _Kind(
            Phase.FAILED,
            "The longest duration was over",
            "Raise max_duration.",
            ChargedParty.LIMIT,
        ),
        Cause.KILLED: _Kind(
            Phase.FAILED,
            "The container was killed from outside when its grace period was over",
            charge=_INTERRUPTED,
        ),
        Cause.EVICTED: _Kind(Phase.FAILED, "The pod was evicted", charge=_INTERRUPTED),
        Cause.NODE_PRESSURE: _Kind(
            Phase.FAILED,
            "The pod was evicted because its node ran short of something",
            charge=_INTERRUPTED,
        ),
        Cause.NODE_SHUTDOWN: _Kind(Phase.FAILED, "The node was shut down", charge=_INTERRUPTED),
        Cause.NODE_LOST: _Kind(Phase.FAILED, "The node was lost", charge=_INTERRUPTED),
        Cause.NODE_REFUSED: _Kind(
            Phase.FAILED,
            "The node refused the pod, because what it had been given was gone",
            charge=_INTERRUPTED,
        ),
        Cause.PREEMPTED_BY_POD: _Kind(
            Phase.FAILED,
            "The kube-scheduler took the node's room for a pod with a higher priority",
            "Install our PriorityClasses (policy: kubernetes.priority_classes), so that who "
            "gives way is decided in one place.",
            ChargedParty.PREEMPTION,
        ),
        Cause.DELETED: _Kind(
            Phase.FAILED,
            "It was deleted by a user, or by a provisioner with force",
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
