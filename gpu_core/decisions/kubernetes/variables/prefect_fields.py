"""The treatment of each job variable of prefect-kubernetes on a gpu-kubernetes pool.

The names and defaults are those of `KubernetesWorkerVariables` (prefect-kubernetes 0.8). The table
in `docs/kubernetes.md` is made of this list.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gpu_core.decisions.model.errors import InvalidInput


class Treatment(StrEnum):
    """The treatment of a job variable of prefect-kubernetes by a gpu-kubernetes pool."""

    MAPPED = "mapped"
    """It takes effect."""
    POOL_ONLY = "mapped as the pool's default, refused in a run"
    NOT_OFFERED = "not offered"
    """The pool's form lacks it, and a value other than prefect-kubernetes' default is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefectField:
    """One job variable of prefect-kubernetes."""

    name: str
    treatment: Treatment
    effect: str
    """The effect here, for the documentation."""
    default: object = None
    """prefect-kubernetes' default: pools made by an older version have it in their template, and it
    asks for nothing."""
    problem: str = ""
    """The reason why it is refused, as a clause."""
    remedy: str = ""


_MAPPED = Treatment.MAPPED

PREFECT_FIELDS = (
    PrefectField(
        name="name",
        treatment=_MAPPED,
        effect="Sets the label `prefect-gpu.dev/name` of the Job and the pods. The Job itself is "
        "named after the attempt. This prevents an attempt from being created twice.",
    ),
    PrefectField(
        name="env",
        treatment=_MAPPED,
        default={},
        effect="Sets the environment variables of the container. The value can be a mapping or, "
        "if the schema of the pool's template allows it, a list of items as in a container. "
        "Mappings, or a mapping and a list, are merged by name. Values of the run override "
        "values of the deployment, and these override values of the pool. If a value is "
        "`null`, the variable is removed. `NVIDIA_VISIBLE_DEVICES` and `CUDA_VISIBLE_DEVICES` "
        "are set by the device plugin. Variables that start with `PREFECT_` are not passed to "
        "container jobs.",
    ),
    PrefectField(
        name="labels",
        treatment=_MAPPED,
        default={},
        effect="Sets labels on the Job and the pods.",
    ),
    PrefectField(
        name="annotations",
        treatment=_MAPPED,
        default={},
        effect="Sets annotations on the Job and the pods.",
    ),
    PrefectField(
        name="command",
        treatment=_MAPPED,
        effect="Sets the command that starts the flow run engine. For containers without Prefect, "
        "use `container_command` instead.",
    ),
    PrefectField(
        name="namespace",
        treatment=_MAPPED,
        default="default",
        effect="Sets the namespace in which to create the Job.",
    ),
    PrefectField(name="image", treatment=_MAPPED, effect="Sets the container image to use."),
    PrefectField(
        name="image_pull_policy",
        treatment=_MAPPED,
        default="IfNotPresent",
        effect="Sets the container's image pull policy.",
    ),
    PrefectField(
        name="service_account_name",
        treatment=_MAPPED,
        effect="Sets the service account of the pods. If not set, no token is mounted.",
    ),
    PrefectField(
        name="cpu_request",
        treatment=_MAPPED,
        effect="Sets the CPU request of each pod, which is also used by the scheduler. The "
        "request does not depend on the number of GPUs, and cannot be combined with "
        "`cpu_per_gpu`. Defaults to `cpu_per_gpu`, then to `cpu_limit`, then to "
        "`kubernetes.per_gpu` in the policy.",
    ),
    PrefectField(
        name="cpu_limit",
        treatment=_MAPPED,
        effect="Sets the CPU limit of each pod, which must not be lower than the request. By "
        "default, there is no limit.",
    ),
    PrefectField(
        name="memory_request",
        treatment=_MAPPED,
        effect="Sets the memory request of each pod, which is also used by the scheduler. The "
        "request cannot be combined with `memory_gib_per_gpu`. Defaults to "
        "`memory_gib_per_gpu`, then to `memory_limit`, then to `kubernetes.per_gpu` in the "
        "policy.",
    ),
    PrefectField(
        name="memory_limit",
        treatment=_MAPPED,
        effect="Sets the memory limit of each pod, including `/dev/shm`. The limit must not be "
        "lower than the request. Defaults to the request.",
    ),
    PrefectField(
        name="finished_job_ttl",
        treatment=_MAPPED,
        effect="Sets the number of seconds to retain a Job after it finishes. The value "
        "must be at least 60, so that a worker can still read the result of the Job "
        "after downtime. Defaults to `kubernetes.kept_after_end` in the policy, "
        "which also applies to objects of operators.",
    ),
    PrefectField(
        name="stream_output",
        treatment=_MAPPED,
        default=True,
        effect="If set to `false`, the output of a container job is not shown on the page of the "
        "run, except for the last lines of a failed job. Flows send their logs through the "
        "Prefect API.",
    ),
    PrefectField(
        name="cluster_config",
        treatment=Treatment.POOL_ONLY,
        effect="Sets the cluster for all runs of the pool.",
        problem="can only be set for the pool, because all its runs use one cluster",
        remedy="remove it or use the work pool of the other cluster",
    ),
    PrefectField(
        name="backoff_limit",
        treatment=Treatment.NOT_OFFERED,
        default=0,
        effect="Always 0: the worker starts the next attempt, on other nodes if necessary. "
        "`max_failures` and `max_interruptions` limit the attempts.",
        problem="must be 0, because attempts are started by the worker and not by Kubernetes",
        remedy="use `max_failures` and `max_interruptions` to limit the attempts instead",
    ),
    PrefectField(
        name="job_watch_timeout_seconds",
        treatment=Treatment.NOT_OFFERED,
        effect="The worker watches a Job until it ends. `max_duration` limits an attempt. "
        "The variable is provided but not used by prefect-kubernetes 0.8.",
        problem="has no effect, because the worker watches a Job until it ends",
        remedy="use `max_duration` to limit the duration of an attempt instead",
    ),
    PrefectField(
        name="pod_watch_timeout_seconds",
        treatment=Treatment.NOT_OFFERED,
        default=60,
        effect="The policy's `kubernetes.pending_timeout` limits how long pods take to "
        "start. The variable is provided but not used by prefect-kubernetes 0.8.",
        problem="has no effect, because the timeout for starting pods is set in the policy",
        remedy="use `kubernetes.pending_timeout` in the policy instead",
    ),
)

NOT_OFFERED = tuple(f for f in PREFECT_FIELDS if f.treatment is Treatment.NOT_OFFERED)


def refused_fields(
    variables: Mapping[str, object], pool_defaults: Mapping[str, object]
) -> list[InvalidInput]:
    """The errors for job variables that cannot take effect.

    Args:
        variables: A run's job variables by name, or a deployment's; None: not given.
        pool_defaults: The defaults of the pool's template, for what only the pool may say.
    """
    return [
        InvalidInput(field.name, field.problem, got=_shown(field, value), remedy=field.remedy)
        for field in PREFECT_FIELDS
        if field.problem and (value := variables.get(field.name)) is not None
        # `is`, too: 0 == False, and neither is the other's default.
        if not _asks_for_nothing(field, value, pool_defaults)
    ]


def _asks_for_nothing(
    field: PrefectField, value: object, pool_defaults: Mapping[str, object]
) -> bool:
    usual = field.default
    if field.treatment is Treatment.POOL_ONLY:
        usual = pool_defaults.get(field.name)
    return type(value) is type(usual) and value == usual


def _shown(field: PrefectField, value: object) -> object:
    # The content of a kubeconfig is secret.
    return None if field.treatment is Treatment.POOL_ONLY else value


def without_fields_not_offered(
    base_job_template: Mapping[str, Any],
) -> tuple[dict[str, Any], list[str]]:
    """The pool's template without the variables that are not offered, and the names of those.

    Their placeholders become prefect-kubernetes' defaults. A variable stays whose default a person
    edited, or that the template uses within other text.

    Args:
        base_job_template: `job_configuration` and `variables`. It is not changed.
    """
    variables = base_job_template.get("variables", {})
    properties = dict(variables.get("properties", {}))
    configuration = base_job_template.get("job_configuration", {})
    removed = []
    for field in NOT_OFFERED:
        schema = properties.get(field.name)
        default = schema.get("default") if isinstance(schema, Mapping) else None
        if schema is None or not _asks_for_nothing(field, default, {}):
            continue
        filled = _filled(configuration, f"{{{{ {field.name} }}}}", field.default)
        if _mentions(filled, field.name):
            continue
        configuration = filled
        del properties[field.name]
        removed.append(field.name)
    template = {
        **base_job_template,
        "job_configuration": configuration,
        "variables": {**variables, "properties": properties},
    }
    return template, removed


def _filled(value: Any, placeholder: str, default: object) -> Any:
    """The value with the default in place of the placeholder; where that is None, nothing."""
    if isinstance(value, Mapping):
        return {
            key: _filled(item, placeholder, default)
            for key, item in value.items()
            if item != placeholder or default is not None
        }
    if isinstance(value, list):
        return [_filled(item, placeholder, default) for item in value]
    return default if value == placeholder else value


def _mentions(value: Any, name: str) -> bool:
    if isinstance(value, Mapping):
        return any(_mentions(item, name) for item in value.values())
    if isinstance(value, list):
        return any(_mentions(item, name) for item in value)
    return isinstance(value, str) and "{{" in value and name in value
