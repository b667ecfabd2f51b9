"""Attempts that an operator runs: RayJob, TrainJob and SparkApplication, as the watches tell."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import anyio
from anyio.abc import TaskGroup

from gpu_core.adapters.kubernetes import KubernetesApi, KubernetesError, Reflector
from gpu_core.adapters.kubernetes.api import Json
from gpu_core.decisions.kubernetes.manifests.names import ATTEMPT_ID_LABEL
from gpu_core.decisions.kubernetes.status.job_events import ObjectReference, reference_to
from gpu_core.decisions.kubernetes.variables.variables import PodRequest
from gpu_core.decisions.model.errors import InvalidInput

_log = logging.getLogger("prefect.gpu.operators")

# An operator is installed once in a long while; a run that waits for it is submitted again.
_LOOK_AGAIN_S = 60.0


@dataclass(frozen=True, slots=True)
class JobKind:
    """A kind of object that an operator runs."""

    name: str
    group_version: str
    plural: str
    operator: str
    status: tuple[str, ...]
    """What of its status tells how it is; the rest changes often and decides nothing."""

    def path(self, namespace: str | None = None) -> str:
        """Where its objects are listed and created; None: those of all namespaces."""
        place = "" if namespace is None else f"/namespaces/{namespace}"
        return f"/apis/{self.group_version}{place}/{self.plural}"


KINDS: Mapping[str, JobKind] = MappingProxyType(
    {
        "ray": JobKind(
            "RayJob",
            "ray.io/v1",
            "rayjobs",
            "KubeRay",
            ("jobDeploymentStatus", "jobStatus", "message", "reason", "endTime"),
        ),
        "kubeflow": JobKind(
            "TrainJob",
            "trainer.kubeflow.org/v1alpha1",
            "trainjobs",
            "Kubeflow Trainer",
            ("conditions", "jobsStatus"),
        ),
        "spark": JobKind(
            "SparkApplication",
            "sparkoperator.k8s.io/v1beta2",
            "sparkapplications",
            "the Spark operator",
            ("applicationState", "terminationTime"),
        ),
    }
)
"""By the job variable `framework`."""

_BY_NAME = {kind.name: kind for kind in KINDS.values()}


class CustomJobs:
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
        self._looked_at_s = 0.0
        self._by_attempt: dict[str, Json] = {}
        self._last: dict[str, Json] = {}

    async def start(self, tasks: TaskGroup) -> None:
        """Watch the kinds that are served, and return when everything was seen once."""
        self._tasks = tasks
        await self._look()
        for reflector in self._reflectors.values():
            await reflector.wait_until_synced()

    async def look_again(self) -> None:
        """Has an operator been installed since? Asked about once a minute."""
        is_due = anyio.current_time() - self._looked_at_s >= _LOOK_AGAIN_S
        if is_due and len(self._reflectors) < len(KINDS):
            await self._look()

    def check(self, request: PodRequest) -> None:
        """Can a run that asks for this be run by an operator, if it needs one at all?

        Raises:
            InvalidInput: The framework's operator is not installed, or nobody said what to run.
        """
        kind = KINDS.get(request.framework)
        if kind is None:
            return
        if request.framework not in self._reflectors:
            why = self._why_not.get(request.framework, "nobody has looked yet")
            raise InvalidInput(
                "framework",
                f"cannot be used in this cluster: {why}",
                got=request.framework,
                remedy=f"install {kind.operator} and submit the run a minute later",
            )
        if request.container_command is None:
            raise InvalidInput(
                "container_command",
                "is missing",
                remedy=f"framework {request.framework!r} needs to know what to run",
            )

    @property
    def failure(self) -> str | None:
        """Why this copy may be behind; None: it is up to date."""
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

    async def _look(self) -> None:
        self._looked_at_s = anyio.current_time()
        for framework, kind in KINDS.items():
            if framework in self._reflectors:
                continue
            why_not = await self._why_not_served(kind)
            if why_not is None:
                self._watch(framework, kind)
            else:
                self._why_not[framework] = why_not

    async def _why_not_served(self, kind: JobKind) -> str | None:
        try:
            await self._api.get(kind.path(), {"limit": "1"})
        except KubernetesError as error:
            if error.is_missing:
                return f"it does not know the kind {kind.name}"
            # What may work a little later is for the watch to try again.
            return None if error.is_retryable else str(error)
        return None

    def _watch(self, framework: str, kind: JobKind) -> None:
        if self._tasks is None:
            raise RuntimeError("nothing is watched before start()")
        self._reflectors[framework] = Reflector(
            self._api,
            kind.path(),
            partial(kept_custom_job, kind),
            self._changed,
            {"labelSelector": ATTEMPT_ID_LABEL},
        )
        self._tasks.start_soon(self._reflectors[framework].run)
        _log.info("Runs with framework %s can be run: %s is served", framework, kind.name)

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


def path_of(item: Json) -> str:
    """Where this object is."""
    metadata = item["metadata"]
    return f"{_BY_NAME[item['kind']].path(metadata['namespace'])}/{metadata['name']}"


def reference_to_custom_job(item: Json) -> ObjectReference:
    """The reference to this object, for an Event."""
    kind = _BY_NAME[item["kind"]]
    return reference_to(item, kind.name, kind.group_version)


def kept_custom_job(kind: JobKind, item: Json) -> Json:
    """An object without its templates and without what changes all the time."""
    metadata, status = item["metadata"], item.get("status") or {}
    names = ("name", "namespace", "uid", "labels", "creationTimestamp", "deletionTimestamp")
    return {
        "kind": kind.name,
        "metadata": {name: metadata[name] for name in names if name in metadata},
        "status": {name: status[name] for name in kind.status if name in status},
    }
