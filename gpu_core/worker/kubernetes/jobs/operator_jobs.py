"""Attempts that an operator runs: RayJob, TrainJob and SparkApplication, from the watches."""

import logging
from collections.abc import Callable
from functools import partial

import anyio
from anyio.abc import TaskGroup

from gpu_core.adapters.kubernetes import KubernetesApi, KubernetesError, Reflector
from gpu_core.adapters.kubernetes.api import Json
from gpu_core.decisions.kubernetes.manifests.commands import is_operated
from gpu_core.decisions.kubernetes.manifests.names import ATTEMPT_ID_LABEL
from gpu_core.decisions.kubernetes.status.job_events import ObjectReference, reference_to
from gpu_core.decisions.kubernetes.variables.frameworks import FRAMEWORKS, Framework
from gpu_core.decisions.kubernetes.variables.variables import PodRequest
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.kubernetes.jobs.attempt_request import request_of
from gpu_core.worker.operations.throttle import Throttle

_log = logging.getLogger("prefect.gpu.operators")

# An operator is installed once in a long while; a run that waits for it is submitted again.
_POLL_S = 60.0


_BY_KIND = {framework.kind: framework for framework in FRAMEWORKS.values()}


class OperatorJobs:
    """The custom objects of all attempts, found by attempt. A kind is watched once it is served.

    Args:
        api: The cluster.
        on_change: Called when an object changed.
    """

    def __init__(self, api: KubernetesApi, on_change: Callable[[], None]) -> None:
        self._api = api
        self._on_change = on_change
        self._tasks: TaskGroup | None = None
        self._reflectors: dict[str, Reflector[Json]] = {}
        self._why_not: dict[str, str] = {}
        self._polls = Throttle(_POLL_S)
        self._by_attempt: dict[str, Json] = {}
        self._last: dict[str, Json] = {}

    async def start(self, tasks: TaskGroup) -> None:
        """Watch the kinds that are served, and return when everything was seen once."""
        self._tasks = tasks
        await self._watch_served()
        for reflector in self._reflectors.values():
            await reflector.wait_until_synced()

    async def refresh(self) -> None:
        """Has an operator been installed since? Asked about once a minute."""
        if len(self._reflectors) < len(FRAMEWORKS) and self._polls.is_due(anyio.current_time()):
            await self._watch_served()

    @property
    def served(self) -> frozenset[str]:
        """The frameworks whose operator is installed."""
        return frozenset(self._reflectors)

    def check(self, request: PodRequest) -> None:
        """Can a run that asks for this be run by an operator, if it needs one at all?

        Raises:
            InvalidInput: Its operator is not installed, or `container_command` is missing.
        """
        framework = FRAMEWORKS.get(request.framework)
        if framework is None:
            return
        if request.framework not in self._reflectors:
            why = self._why_not.get(request.framework, "not checked yet")
            raise InvalidInput(
                "framework",
                f"is not available in this cluster: {why}",
                got=request.framework,
                remedy=f"install {framework.operator} and submit the run again after one minute",
            )
        if request.container_command is None:
            raise InvalidInput(
                "container_command",
                "is missing",
                remedy=f"framework {request.framework!r} requires a command to run",
            )

    @property
    def failure(self) -> str | None:
        """The reason why this cache may be stale; None: it is up to date."""
        failures = (reflector.failure for reflector in self._reflectors.values())
        return next((failure for failure in failures if failure is not None), None)

    def of(self, attempt_id: str) -> Json | None:
        """The object of an attempt, if it is there."""
        return self._by_attempt.get(attempt_id)

    def last_of(self, attempt_id: str) -> Json | None:
        """The object of an attempt as it was seen last, also when it is gone."""
        return self._last.get(attempt_id)

    @property
    def items(self) -> list[Json]:
        """All objects that are there, of every pool."""
        return list(self._by_attempt.values())

    def forget(self, attempt_id: str) -> None:
        """The attempt is settled: how its object ended need not be remembered."""
        self._last.pop(attempt_id, None)

    async def _watch_served(self) -> None:
        self._polls.start(anyio.current_time())
        for name, framework in FRAMEWORKS.items():
            if name in self._reflectors:
                continue
            why_not = await self._why_not_served(framework)
            if why_not is None:
                self._watch(name, framework)
            else:
                self._why_not[name] = why_not

    async def _why_not_served(self, framework: Framework) -> str | None:
        try:
            await self._api.get(framework.path(), {"limit": "1"})
        except KubernetesError as error:
            if error.is_missing:
                return f"the kind {framework.kind} is not installed"
            # What may work a little later is for the watch to try again.
            return None if error.is_retryable else str(error)
        return None

    def _watch(self, name: str, framework: Framework) -> None:
        if self._tasks is None:
            raise RuntimeError("nothing is watched before start()")
        self._reflectors[name] = Reflector(
            self._api,
            framework.path(),
            partial(kept_custom_job, framework),
            self._changed,
            {"labelSelector": ATTEMPT_ID_LABEL},
        )
        self._tasks.start_soon(self._reflectors[name].run)
        _log.info("Framework %s is now available: %s is installed", name, framework.kind)

    def _changed(self, before: Json | None, after: Json | None) -> None:
        item = after or before or {}
        attempt_id = item["metadata"]["labels"][ATTEMPT_ID_LABEL]
        if after is not None:
            self._by_attempt[attempt_id] = self._last[attempt_id] = after
        else:
            self._by_attempt.pop(attempt_id, None)
            if attempt_id in self._last:  # not of an attempt that is settled
                self._last[attempt_id] = item
        self._on_change()


def is_run_by_operator(running: AttemptState, custom_jobs: OperatorJobs) -> bool:
    """Is it, or was it, an operator's? Its variables may be unreadable by now."""
    if custom_jobs.last_of(running.attempt.attempt_id) is not None:
        return True
    return is_operated(request_of(running))


def path_of(item: Json) -> str:
    """The API path of this object."""
    metadata = item["metadata"]
    return f"{_BY_KIND[item['kind']].path(metadata['namespace'])}/{metadata['name']}"


def reference_to_custom_job(item: Json) -> ObjectReference:
    """The reference to this object, for an Event."""
    framework = _BY_KIND[item["kind"]]
    return reference_to(item, framework.kind, framework.group_version)


def kept_custom_job(framework: Framework, item: Json) -> Json:
    """An object without its templates and without what changes all the time."""
    metadata, status = item["metadata"], item.get("status") or {}
    names = ("name", "namespace", "uid", "labels", "creationTimestamp", "deletionTimestamp")
    return {
        "kind": framework.kind,
        "metadata": {name: metadata[name] for name in names if name in metadata},
        "status": {name: status[name] for name in framework.status_fields if name in status},
    }
