"""Kubernetes Events on the object that runs an attempt, for `kubectl describe`."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.reasons import Reason

CONTROLLER = "prefect-gpu"
"""The reporter: the column `From` of `kubectl describe`."""

# The API server's limits (Kubernetes 1.34, `pkg/apis/core/validation/events.go`).
_LONGEST_NOTE_BYTES = 1024
_LONGEST_INSTANCE = 128

# As the kube-scheduler's own event of a preemption, what the scheduler or a person does is normal.
_WARNINGS = frozenset(
    {
        EndReason.FAILED,
        EndReason.CRASHED,
        EndReason.INTERRUPTED,
        EndReason.TIMED_OUT,
        EndReason.BUDGET_SPENT,
        EndReason.IDLE,
        EndReason.HUNG,
        EndReason.REFUSED,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectReference:
    """The object that an Event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


def event_manifest(
    regarding: ObjectReference,
    reason: Reason | EndReason,
    note: str,
    *,
    instance: str,
    now: datetime,
) -> dict[str, Any]:
    """The Event (`events.k8s.io/v1`) that says this.

    Args:
        reason: The code; what ends an attempt in a way that its owner does not want is a Warning.
        note: Sentences for a person; cut to what an Event holds.
    """
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"generateName": f"{regarding.name}-", "namespace": regarding.namespace},
        "eventTime": f"{now.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}",
        "reportingController": CONTROLLER,
        "reportingInstance": instance[:_LONGEST_INSTANCE],
        "action": "End" if isinstance(reason, EndReason) else "Start",
        "type": "Warning" if reason in _WARNINGS else "Normal",
        "reason": reason.value,
        "regarding": {
            "apiVersion": regarding.api_version,
            "kind": regarding.kind,
            "namespace": regarding.namespace,
            "name": regarding.name,
            "uid": regarding.uid,
        },
        "note": _cut(note),
    }


def reference_to(item: Mapping[str, Any], kind: str, api_version: str) -> ObjectReference:
    """The reference to an object as the API server has it."""
    metadata = item["metadata"]
    return ObjectReference(
        api_version=api_version,
        kind=kind,
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata.get("uid") or "",
    )


def _cut(note: str) -> str:
    if len(note.encode()) <= _LONGEST_NOTE_BYTES:
        return note
    most = _LONGEST_NOTE_BYTES - len("…".encode())
    return note.encode()[:most].decode(errors="ignore") + "…"
