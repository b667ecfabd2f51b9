"""Records what happens to each attempt as Kubernetes Events on the object that runs it."""

import logging
import socket
from collections import deque
from datetime import UTC, datetime

import anyio

from gpu_core.adapters.kubernetes import KubernetesApi, KubernetesError
from gpu_core.adapters.kubernetes.api import Json
from gpu_core.decisions.kubernetes.status.job_events import (
    ObjectReference,
    event_manifest,
    reference_to,
)
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.reasons import Reason
from gpu_core.worker.kubernetes.cluster.cluster_cache import ClusterCache
from gpu_core.worker.kubernetes.cluster.rbac_warnings import MissingRights
from gpu_core.worker.kubernetes.jobs.operator_jobs import reference_to_custom_job

_log = logging.getLogger("prefect.gpu.events")

# As client-go's EventRecorder (v0.34, `tools/record/event.go`: maxQueuedEvents;
# `events_cache.go`: defaultSpamBurst, which it grants to each object).
_MOST_QUEUED = 1000
_MOST_PER_ATTEMPT = 25


class EventRecorder:
    """Writes Events one after the other, in a task of its own. Nothing waits for them.

    Events are for people: one that is refused or gets no answer is dropped, and so are those that a
    full queue has no room for, the oldest first.

    Args:
        api: The cluster.
        view: What the watches have seen of it.
        rights: What the worker lacks.
    """

    def __init__(self, api: KubernetesApi, view: ClusterCache, rights: MissingRights) -> None:
        self._api = api
        self._view = view
        self._rights = rights
        self._instance = socket.gethostname()
        self._queue: deque[Json] = deque(maxlen=_MOST_QUEUED)
        self._queued = anyio.Event()
        self._objects: dict[str, ObjectReference] = {}
        self._recorded: dict[str, set[tuple[str, str]]] = {}

    async def run(self) -> None:
        """Write what is recorded, until cancelled."""
        while True:
            await self._queued.wait()
            self._queued = anyio.Event()
            await self.write_queued()

    async def write_queued(self) -> None:
        """Write what has been recorded so far."""
        while self._queue:
            await self._write(self._queue.popleft())

    def created(self, attempt_id: str, item: Json) -> None:
        """This was made to run the attempt; the watches may not have seen it yet."""
        kind, version = item.get("kind") or "Job", item.get("apiVersion") or "batch/v1"
        self._objects[attempt_id] = reference_to(item, kind, version)

    def record(self, attempt_id: str, reason: Reason | EndReason, note: str) -> None:
        """Let an Event say this, once, on what runs the attempt; without such an object none does.

        Args:
            attempt_id: Whose object.
            reason: The code.
            note: Sentences for a person.
        """
        regarding = self._object_of(attempt_id)
        recorded = self._recorded.setdefault(attempt_id, set())
        is_known = (reason, note) in recorded or len(recorded) >= _MOST_PER_ATTEMPT
        if regarding is None or is_known:
            return
        recorded.add((reason, note))
        self._queue.append(
            event_manifest(regarding, reason, note, instance=self._instance, now=datetime.now(UTC))
        )
        self._queued.set()

    def forget(self, attempt_id: str) -> None:
        """The attempt is settled."""
        self._objects.pop(attempt_id, None)
        self._recorded.pop(attempt_id, None)

    def _object_of(self, attempt_id: str) -> ObjectReference | None:
        known = self._objects.get(attempt_id)
        if known is not None:
            return known
        custom_job = self._view.custom_jobs.of(attempt_id)
        if custom_job is not None:
            return reference_to_custom_job(custom_job)
        jobs = self._view.jobs_of(attempt_id)
        if not jobs:
            return None
        first = min(jobs, key=lambda job: str(job["metadata"]["name"]))
        return reference_to(first, "Job", "batch/v1")

    async def _write(self, event: Json) -> None:
        namespace = event["metadata"]["namespace"]
        try:
            await self._api.create(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", event)
        except KubernetesError as error:
            # A full quota, a namespace that is being deleted, an outage: the run's page has it all.
            self._rights.note(error, "events of runs are not shown by `kubectl describe job`")
            _log.debug("Failed to create event for %s: %s", event["regarding"]["name"], error)
        except Exception:
            _log.exception(
                "Dropped event for %s due to an unexpected error", event["regarding"]["name"]
            )
