"""References that the job variables of a run add to its Job, beyond the pool's template.

The template is rendered as Prefect renders it, with the run's variables and with the pool's
defaults alone: what only the first one refers to is the run's. Blocks and variables of Prefect are
resolved when the run starts, so what is behind them is judged then.
"""

import copy
import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from prefect.client.orchestration import PrefectClient
from prefect.utilities.collections import set_in_dict
from prefect.utilities.templating import (
    apply_values,
    find_placeholders,
    resolve_block_document_references,
    resolve_variables,
)

from gpu_core.decisions.kubernetes.manifests.container import main_container
from gpu_core.decisions.kubernetes.manifests.further_gpus import FurtherRequest, further_requests
from gpu_core.decisions.kubernetes.manifests.further_size import FurtherSize, further_size
from gpu_core.decisions.kubernetes.manifests.references import Reference, job_references, references
from gpu_core.decisions.kubernetes.rbac.permitted_references import (
    JobReferences,
    WorkersOwn,
    beyond_permission,
    held_if_not_permitted,
    reference_text,
    unlisted,
)
from gpu_core.decisions.kubernetes.variables.variables import PodRequest
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.workload import Workload
from gpu_core.decisions.policy.permissions import Referred
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.requests.runs.permissions import not_permitted
from gpu_core.worker.attempts.run_log import run_log
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.infrastructure import Refused
from gpu_core.worker.kubernetes.variables import GpuKubernetesJobConfiguration

Json = Mapping[str, Any]
_Read = TypeVar("_Read")

_log = logging.getLogger("prefect.gpu.permissions")

# Of the job configuration, what becomes the Job; the rest of it is Prefect's own.
_RENDERED = ("job_manifest", "env", "namespace")

# Different variables of runs that are remembered: a sweep has a few.
_REMEMBERED = 4096


class RunReferences:
    """Checks which objects the Jobs of a pool's runs refer to, and whether they are allowed.

    Args:
        client: Resolves Prefect's blocks and variables in the template.
        template: The pool's base job template, as it is now.
        namespace: The namespace of Jobs whose template names none.
    """

    def __init__(self, client: PrefectClient, template: Callable[[], Json], namespace: str) -> None:
        self._client = client
        self._template = template
        self._namespace = namespace
        self.workers_own: WorkersOwn | None = None
        """The objects that runs may never use."""
        self._rendering = _Rendering({}, namespace)
        self._logged: set[Reference] = set()

    def checked(
        self, workload: Workload, variables: Json, request: PodRequest, policy: Policy
    ) -> Workload:
        """The workload, held if its job variables bring what its team is not permitted.

        Args:
            workload: The run.
            variables: Its job variables over the deployment's over the pool's defaults.
            request: What it asks of its pods.
            policy: Of the pool.
        """
        rendering = self._current()
        # What is not resolved yet is judged when the run starts.
        known = (each for each in rendering.with_variables(variables) if not each.is_open)
        brought = _claims(request).union(known)
        return held_if_not_permitted(
            workload, rendering.compared(brought), policy, self.workers_own
        )

    async def require_permitted(
        self, running: AttemptState, manifest: Json, request: PodRequest, policy: Policy
    ) -> None:
        """Judge what is about to be created: by now everything in it is resolved.

        Args:
            running: The attempt that starts.
            manifest: Its Job as Prefect rendered it.
            request: What it asks of its pods.
            policy: Of the pool.

        Raises:
            Refused: It refers to what its team is not permitted.
        """
        rendering = self._current()
        brought = job_references(manifest, self._namespace) | _claims(request)
        found = rendering.compared(brought)
        if found.by_run and rendering.has_unresolved:
            found = rendering.compared(brought, await self._resolved())
        team = running.workload.team
        permission = policy.permissions.of(team)
        excess = beyond_permission(found, permission, self.workers_own)
        if excess:
            hold = not_permitted(team, excess, policy)
            raise Refused(f"{hold.summary} {hold.resolution}")
        self._warn(running, unlisted(found, permission))

    def further_requests(self, variables: Json) -> tuple[FurtherRequest, ...]:
        """The extended resources that containers of its pod other than the run's ask for.

        Args:
            variables: Its job variables over the deployment's over the pool's defaults.
        """
        return self._current().rendered(variables).further

    def further_size(self, variables: Json) -> FurtherSize | None:
        """The CPU and memory that its pod needs beyond the run's container; None: none.

        Args:
            variables: Its job variables over the deployment's over the pool's defaults.
        """
        return self._current().rendered(variables).further_size

    async def namespace_of(self, variables: Json) -> str:
        """The namespace in which the Job with these job variables is created.

        Args:
            variables: The run's; the deployment's and the pool's defaults stand for missing ones.
        """
        found = self._current().rendered(variables).namespace
        if isinstance(found, dict) or (isinstance(found, str) and "{{" in found):
            found = await self._looked_up(found)
        return str(found or self._namespace)

    async def _looked_up(self, value: object) -> object:
        """The value with Prefect's blocks and variables in it."""
        found: Any = await resolve_block_document_references(
            template={"value": value}, client=self._client
        )
        resolved: dict[str, object] = await resolve_variables(template=found, client=self._client)
        return resolved.get("value")

    async def _resolved(self) -> frozenset[Reference]:
        template = copy.deepcopy(dict(self._template()))
        configuration = await GpuKubernetesJobConfiguration.from_template_and_values(
            base_job_template=template, values={}, client=self._client
        )
        found = job_references(configuration.job_manifest, self._namespace)
        return found | references({"env": configuration.env})

    def _warn(self, running: AttemptState, found: tuple[Reference, ...]) -> None:
        """That the next release refuses it: to the run each time, to the operator once a name."""
        if not found:
            return
        run_log(running).warning(
            "The job variables refer to %s, which is not listed in the policy and will be "
            "rejected in the next release. To allow it, add it to permissions.default (%s).",
            ", ".join(dict.fromkeys(map(reference_text, found))),
            ", ".join(dict.fromkeys(each.what.value for each in found)),
        )
        for reference in found:
            if reference not in self._logged:
                self._logged.add(reference)
                _log.warning(
                    "Run %r refers to %s, which is not listed in the policy and will be "
                    "rejected in the next release. To allow it, add it to "
                    "permissions.default.%s.",
                    running.record.name,
                    reference_text(reference),
                    reference.what.value,
                )

    def _current(self) -> "_Rendering":
        template = self._template()
        if template is not self._rendering.template and template != self._rendering.template:
            self._rendering = _Rendering(template, self._namespace)
        return self._rendering


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rendered:
    """The template with the variables of a run, as far as the worker reads it."""

    references: frozenset[Reference]
    further: tuple[FurtherRequest, ...]
    further_size: FurtherSize | None
    namespace: object
    """Of the Job: text, a reference to a block, or nothing, which is the pool's."""


class _Rendering:
    """One version of the pool's template, and what it refers to with the variables of runs."""

    def __init__(self, template: Json, namespace: str) -> None:
        self.template = template
        configuration = template.get("job_configuration") or {}
        self._configuration = {key: configuration.get(key) for key in _RENDERED}
        self._namespace = namespace
        properties = (template.get("variables") or {}).get("properties") or {}
        defaults = {
            name: schema["default"] for name, schema in properties.items() if "default" in schema
        }
        text = json.dumps([self._configuration, defaults], default=str)
        self.has_unresolved = "$ref" in text or "prefect." in text
        self._names = {_first(place.name) for place in find_placeholders(self._configuration)}
        self._found: dict[str, _Rendered] = {}
        self._last: tuple[Json, _Rendered] | None = None
        self._by_template = self.with_variables(defaults) | _claimed(defaults.get("volumes"))

    def with_variables(self, variables: Json) -> frozenset[Reference]:
        """The references of the Job with these variables."""
        return self.rendered(variables).references

    def rendered(self, variables: Json) -> _Rendered:
        """The content of the Job with these variables."""
        if self._last is None or self._last[0] is not variables:
            self._last = variables, self._remembered(variables)
        return self._last[1]

    def _remembered(self, variables: Json) -> _Rendered:
        used = {name: value for name, value in variables.items() if _first(name) in self._names}
        key = json.dumps(used, sort_keys=True, default=str)
        if key not in self._found:
            if len(self._found) >= _REMEMBERED:
                self._found.clear()
            self._found[key] = self._render(used)
        return self._found[key]

    def compared(
        self, brought: frozenset[Reference], by_template: frozenset[Reference] | None = None
    ) -> JobReferences:
        """The references among these that come from the run's own job variables."""
        trusted = self._by_template | (by_template or frozenset())
        place = next((each for each in brought if each.what is Referred.NAMESPACE), None)
        return JobReferences(
            namespace=self._namespace if place is None else place.name,
            by_run=brought - trusted,
            by_template=frozenset(each for each in trusted if not each.is_open),
            moved=frozenset() if place is None or place in trusted else brought & trusted,
        )

    def _render(self, variables: Json) -> _Rendered:
        rendered = apply_values(self._configuration, _nested(variables))
        place = rendered.get("namespace") or self._namespace
        manifest = rendered.get("job_manifest")
        manifest = manifest if isinstance(manifest, dict) else {}
        found = job_references(manifest, str(place))
        return _Rendered(
            references=found | references({"env": rendered.get("env")}),
            further=_read_pod(manifest, further_requests) or (),
            further_size=_read_pod(manifest, further_size),
            namespace=_place(rendered, manifest),
        )


def _place(rendered: Json, manifest: Json) -> object:
    """The namespace of the Job as prefect-kubernetes fills it in; empty: the template is none."""
    metadata = manifest.get("metadata")
    if isinstance(metadata, Mapping) and "namespace" in metadata:
        return metadata["namespace"]
    return rendered.get("namespace", _PREFECTS_NAMESPACE if manifest else "")


_PREFECTS_NAMESPACE = GpuKubernetesJobConfiguration.model_fields["namespace"].default


def _read_pod(manifest: Json, read: Callable[[Json, int], _Read]) -> _Read | None:
    """The parts of the Job's pod that are read. None: not a Job, refused at the start."""
    pod: Any = manifest
    for name in ("spec", "template", "spec"):
        pod = pod.get(name) if isinstance(pod, Mapping) else None
    try:
        return read(pod, main_container(pod)) if isinstance(pod, Mapping) else None
    except (InvalidInput, AttributeError, TypeError):
        return None


def _nested(variables: Json) -> dict[str, Any]:
    """Variables with dots in their names, such as `env.DEBUG`, as Prefect understands them."""
    found = {name: value for name, value in variables.items() if "." not in name}
    for name, value in variables.items():
        if "." in name:
            first = _first(name)
            found[first] = copy.deepcopy(found.get(first)) or {}
            with suppress(TypeError):  # Prefect says when the run starts that this cannot be set
                set_in_dict(found, name, value)
    return found


def _first(name: str) -> str:
    return name.replace("[", ".").split(".")[0]


def _claims(request: PodRequest) -> frozenset[Reference]:
    return frozenset(Reference(Referred.CLAIM, mount.claim) for mount in request.volumes)


def _claimed(volumes: object) -> frozenset[Reference]:
    """The claims of the pool's own default for the job variable `volumes`."""
    found = volumes if isinstance(volumes, list) else []
    names = (volume.get("claim") for volume in found if isinstance(volume, dict))
    return frozenset(Reference(Referred.CLAIM, str(name)) for name in names if name)
