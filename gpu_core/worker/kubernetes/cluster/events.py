"""Writes the cluster's Events about Jobs and pods that do not run yet to the log of the run."""

import logging
from collections.abc import Iterable

import anyio

from gpu_core.adapters.kubernetes import KubernetesApi, KubernetesError
from gpu_core.adapters.kubernetes.api import Json
from gpu_core.decisions.kubernetes.status.job_events import CONTROLLER
from gpu_core.worker.attempts.run_log import run_log
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.kubernetes.cluster.cluster_cache import ClusterCache
from gpu_core.worker.kubernetes.cluster.rbac_warnings import MissingRights
from gpu_core.worker.kubernetes.jobs.job_status import wants_pods

_log = logging.getLogger("prefect.gpu.events")

# A start takes a second or two; events are worth asking for when it takes longer.
_POLL_S = 5.0
# This many attempts at once and each second: a hundred that start together, or wait for one node,
# need not all be asked for in every cycle.
_AT_ONCE = 10
_PER_SECOND = 4


class PodEvents:
    """The events of attempts that are being started.

    Asked for where something takes its time, instead of watching every event of a cluster.
    """

    def __init__(self, api: KubernetesApi, view: ClusterCache, rights: MissingRights) -> None:
        self._api = api
        self._rights = rights
        self._view = view
        self._events: dict[str, dict[str, Json]] = {}
        self._polled_at_s: dict[str, float] = {}
        self._last_poll_at_s = 0.0

    def of(self, attempt_id: str) -> list[Json]:
        """The events of an attempt as far as they are known, oldest first."""
        return list(self._events.get(attempt_id, {}).values())

    async def refresh(self, attempts: Iterable[AttemptState]) -> None:
        """Read the events of those that do not run yet, and log to their runs what is new."""
        now_s = anyio.current_time()
        waiting = [running for running in attempts if self._waits(running.attempt.attempt_id)]
        known = {running.attempt.attempt_id for running in waiting}
        self._polled_at_s = {key: self._polled_at_s.get(key, now_s - _POLL_S / 2) for key in known}
        self._events = {key: found for key, found in self._events.items() if key in known}
        due = [
            running
            for running in waiting
            if now_s - self._polled_at_s[running.attempt.attempt_id] >= _POLL_S
        ]
        allowed = min(_AT_ONCE, int(_PER_SECOND * (now_s - self._last_poll_at_s)))
        if due and allowed:
            self._last_poll_at_s = now_s
        for running in due[:allowed]:
            self._polled_at_s[running.attempt.attempt_id] = now_s
            try:
                await self._read(running)
            except KubernetesError as error:
                self._rights.note(
                    error, "pod startup problems are not reported in the logs of runs"
                )
                _log.debug("Failed to read events for flow run %r: %s", running.record.name, error)

    def _waits(self, attempt_id: str) -> bool:
        pods = self._view.pods_of(attempt_id)
        if not pods:
            return bool(self._objects_of(attempt_id))
        if wants_pods(self._view.jobs_of(attempt_id), pods):
            return True  # one of a gang is missing
        return any((pod.get("status") or {}).get("phase") == "Pending" for pod in pods)

    def _objects_of(self, attempt_id: str) -> list[Json]:
        custom_job = self._view.custom_jobs.of(attempt_id)
        return [custom_job] if custom_job is not None else self._view.jobs_of(attempt_id)

    async def _read(self, running: AttemptState) -> None:
        attempt_id = running.attempt.attempt_id
        known = self._events.setdefault(attempt_id, {})
        log = run_log(running)
        for item in (*self._objects_of(attempt_id), *self._view.pods_of(attempt_id)):
            for event in await self._events_of(item):
                key = f"{event.get('reason')}: {event.get('message')}"
                if key in known:
                    continue
                known[key] = event
                level = logging.WARNING if event.get("type") == "Warning" else logging.INFO
                log.log(level, "Kubernetes: %s", key)

    async def _events_of(self, item: Json) -> list[Json]:
        """The events of this object, oldest first.

        An operator's object makes others, which make the pods: a RayCluster, a JobSet and its Jobs.
        Their names begin with its own, and what keeps them from making pods is a warning of theirs.
        """
        metadata = item["metadata"]
        is_operated = "kind" in item
        selector = "type=Warning" if is_operated else f"involvedObject.uid={metadata['uid']}"
        answer = await self._api.get(
            f"/api/v1/namespaces/{metadata['namespace']}/events", {"fieldSelector": selector}
        )
        of_others = (event for event in answer.get("items") or () if not _is_ours(event))
        found = sorted(of_others, key=_time)
        if not is_operated:
            return found
        name = metadata["name"]
        return [event for event in found if _is_named_after(event, name)]


def _is_ours(event: Json) -> bool:
    """Did a worker write it? Its run's log has the same text already."""
    return event.get("reportingComponent") == CONTROLLER


def _is_named_after(event: Json, name: str) -> bool:
    involved = (event.get("involvedObject") or {}).get("name") or ""
    return bool(involved == name or involved.startswith(f"{name}-"))


def _time(event: Json) -> str:
    metadata = event["metadata"]
    return str(event.get("lastTimestamp") or metadata.get("creationTimestamp") or "")
