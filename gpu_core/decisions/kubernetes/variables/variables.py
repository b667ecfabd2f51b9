"""The job variables of a gpu-kubernetes pool that shape its pods, checked."""

import shlex
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema

from gpu_core.decisions.kubernetes.manifests.names import PREFIX, is_reserved
from gpu_core.decisions.kubernetes.variables.frameworks import FRAMEWORKS
from gpu_core.decisions.kubernetes.variables.prefect_fields import refused_fields
from gpu_core.decisions.kubernetes.variables.quantities import (
    cpu_milli,
    format_cpu,
    format_memory,
    memory_mib,
)
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.pydantic_errors import input_errors, known_names, parsed_by, refuse
from gpu_core.decisions.model.units import LONGEST_DURATION_S
from gpu_core.decisions.policy.kubernetes import AbsolutePath, ObjectName


def _shm_mib(value: object, field: str) -> int:
    mib = memory_mib(value, field, up=True)
    if mib < 1:
        raise InvalidInput(field, "is too small", got=value, allowed="1Mi or more")
    return mib


# More than any machine has: 64 GPUs with the most that `cpu_per_gpu` and `memory_gib_per_gpu` take.
_MOST_CPU_MILLI = 64 * 256 * 1000
_MOST_MEMORY_MIB = 64 * 4096 * 1024


def _cpu_milli(value: object, field: str) -> int:
    milli = cpu_milli(value, field, up=True)
    if not 1 <= milli <= _MOST_CPU_MILLI:
        raise InvalidInput(
            field, _out_of(milli), got=value, allowed=f"1m to {format_cpu(_MOST_CPU_MILLI)}"
        )
    return milli


def _memory_mib(value: object, field: str) -> int:
    mib = memory_mib(value, field, up=True)
    # A number without a unit is bytes, and `64` was meant as something else.
    is_too_small = memory_mib(value, field) < 1
    if is_too_small or mib > _MOST_MEMORY_MIB:
        raise InvalidInput(
            field,
            _out_of(0 if is_too_small else mib),
            got=value,
            allowed=f"1Mi to {format_memory(_MOST_MEMORY_MIB)}",
            remedy="specify a unit, for example 64Gi, because a number without a unit is in bytes"
            if is_too_small
            else None,
        )
    return mib


def _out_of(amount: int) -> str:
    return "is too small" if amount < 1 else "is too large"


def _words(value: object, field: str) -> tuple[str, ...]:
    """A command as its arguments; text is split as a shell does it."""
    words = value
    if isinstance(value, str):
        try:
            words = shlex.split(value)
        except ValueError as error:
            raise InvalidInput(field, f"is not a valid command: {error}", got=value) from None
    if not isinstance(words, list | tuple) or not words:
        raise InvalidInput(field, "is not a command", got=value, allowed="text or a list of words")
    if not all(isinstance(word, str) for word in words):
        raise InvalidInput(field, "contains an item that is not a string", got=value)
    return tuple(words)


_QUANTITY_SCHEMA = {"anyOf": [{"type": "string"}, {"type": "number"}]}
_COMMAND_SCHEMA = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}


_Cpu = Annotated[int, parsed_by(_cpu_milli), WithJsonSchema(_QUANTITY_SCHEMA)]
_Memory = Annotated[int, parsed_by(_memory_mib), WithJsonSchema(_QUANTITY_SCHEMA)]

LEAST_FINISHED_JOB_TTL_S = 60
"""A standby takes over within 15 s, a worker's pod is replaced within a minute: until then the Job
has to say how it ended, or the run would be repeated."""


class ClaimMount(BaseModel):
    """A PersistentVolumeClaim, and where the run sees it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    claim: ObjectName
    mount_path: AbsolutePath
    read_only: bool = False


class PodRequest(BaseModel):
    """The request of one run for its pods apart from GPUs. Made by `parse_pod_request`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    cpu_per_gpu: Annotated[float, Field(gt=0, le=256, allow_inf_nan=False)] | None = Field(
        default=None,
        title="CPU per GPU",
        description="The number of CPU cores for each GPU. Defaults to the value for the GPU type "
        "in the policy.",
    )
    memory_gib_per_gpu: Annotated[float, Field(gt=0, le=4096, allow_inf_nan=False)] | None = Field(
        default=None,
        title="Memory per GPU (GiB)",
        description="The main memory for each GPU in GiB. Defaults to the value for the GPU type "
        "in the policy.",
    )
    cpu_request_milli: _Cpu | None = Field(
        default=None,
        alias="cpu_request",
        title="CPU Request",
        description="The CPU request of each pod, for example '8' or '500m'. Cannot be combined "
        "with cpu_per_gpu. Defaults to cpu_limit if it is set, and otherwise to the value for "
        "the GPU type in the policy.",
    )
    cpu_limit_milli: _Cpu | None = Field(
        default=None,
        alias="cpu_limit",
        title="CPU Limit",
        description="The CPU limit of each pod, for example '8' or '500m'. By default, CPU is not "
        "limited.",
    )
    memory_request_mib: _Memory | None = Field(
        default=None,
        alias="memory_request",
        title="Memory Request",
        description="The memory request of each pod, for example '64Gi'. Cannot be combined with "
        "memory_gib_per_gpu. Defaults to memory_limit if it is set, and otherwise to the "
        "value for the GPU type in the policy.",
    )
    memory_limit_mib: _Memory | None = Field(
        default=None,
        alias="memory_limit",
        title="Memory Limit",
        description="The memory limit of each pod, for example '64Gi'. Defaults to the memory "
        "request.",
    )
    shm_size_mib: Annotated[int, parsed_by(_shm_mib), WithJsonSchema({"type": "string"})] | None = (
        Field(
            default=None,
            alias="shm_size",
            title="Shared memory",
            description="The size of /dev/shm, for example '8Gi'. The size is included in the "
            "memory of the pod. Defaults to half of the memory.",
        )
    )
    volumes: tuple[ClaimMount, ...] = Field(
        default=(),
        strict=False,
        title="Volumes",
        description="A list of PersistentVolumeClaims to mount. Each entry has the fields claim, "
        "mount_path and read_only.",
    )
    model_cache: bool = Field(
        default=True,
        title="Model cache",
        description="Whether to mount the model cache that is configured in the policy. Defaults "
        "to true.",
    )
    image: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        title="Image",
        description="The container image to use. Defaults to the image of the work pool.",
    )
    command: (
        Annotated[tuple[str, ...], parsed_by(_words), WithJsonSchema(_COMMAND_SCHEMA)] | None
    ) = Field(
        default=None,
        title="Command",
        description="The command to use when starting the flow run engine, for example 'uv run "
        "prefect flow-run execute'. Defaults to 'prefect flow-run execute'.",
    )
    container_command: (
        Annotated[tuple[str, ...], parsed_by(_words), WithJsonSchema(_COMMAND_SCHEMA)] | None
    ) = Field(
        default=None,
        title="Container command",
        description="The command to run in the container instead of Prefect. If a flow runs as a "
        "gang, the command is used on all nodes except the first.",
    )
    framework: Literal["none", "torchrun", "ray", "kubeflow", "spark"] = Field(
        default="none",
        title="Framework",
        description="The framework that launches the processes on the nodes. By default, only the "
        "command of the run is started.",
    )
    finished_job_ttl_s: (
        Annotated[int, Field(ge=LEAST_FINISHED_JOB_TTL_S, le=LONGEST_DURATION_S)] | None
    ) = Field(
        default=None,
        alias="finished_job_ttl",
        title="Finished Job TTL",
        description="The number of seconds to retain the Job after it finishes. Must be at "
        "least 60. Defaults to kept_after_end in the policy.",
    )
    stream_output: bool = Field(
        default=True,
        title="Stream Output",
        description="Whether to show the output of a container job on the page of the run. "
        "Defaults to true.",
    )


def parse_pod_request(
    variables: Mapping[str, object], pool_defaults: Mapping[str, object] | None = None
) -> PodRequest:
    """The request of a run with these job variables for its pods.

    Args:
        variables: Job variables by name; None means that it was not given, others are ignored.
        pool_defaults: The defaults of the pool's template. With them, variables of
            prefect-kubernetes that cannot take effect are refused (`prefect_fields`); None: the
            run was admitted.

    Raises:
        InvalidInput: One variable cannot be used.
        InvalidInputs: Several; the message has a line for each.
    """
    names = known_names(PodRequest)
    given = {name: variables[name] for name in names if variables.get(name) is not None}
    if given.get("command") == "":  # Prefect's own workers take it for a command that is not given
        del given["command"]
    errors = [] if pool_defaults is None else _refused(variables, pool_defaults)
    try:
        request = PodRequest.model_validate(given)
    except ValidationError as error:
        refuse([*input_errors(error, PodRequest), *errors])
        raise
    refuse([*_contradictions(request, variables), *errors])
    return request


def _refused(
    variables: Mapping[str, object], pool_defaults: Mapping[str, object]
) -> list[InvalidInput]:
    return [*refused_fields(variables, pool_defaults), *_reserved(variables, pool_defaults)]


def _reserved(
    variables: Mapping[str, object], pool_defaults: Mapping[str, object]
) -> Iterator[InvalidInput]:
    """Labels and annotations of a run that only the worker writes."""
    for name in ("labels", "annotations"):
        given, known = variables.get(name), pool_defaults.get(name)
        if not isinstance(given, Mapping):
            continue
        for key in given:
            if is_reserved(str(key)) and not (isinstance(known, Mapping) and key in known):
                yield InvalidInput(
                    name,
                    "uses a name that is reserved for the worker",
                    got=key,
                    allowed=f"names that do not begin with {PREFIX}/",
                    remedy="take another prefix",
                )


def parse_running_request(variables: Mapping[str, object]) -> PodRequest:
    """The kind of a running attempt with these job variables: flow, containers or operator.

    What it asked for was checked when it was admitted, perhaps by a version with other rules: only
    what names its kind is read, and what cannot be read counts as not given.
    """
    values = (variables.get(name) for name in _KIND)
    try:
        return _running_request(*(tuple(v) if isinstance(v, list) else v for v in values))
    except (InvalidInput, TypeError):  # a TypeError: it has no hash, as a mapping
        return PodRequest()


_KIND = ("command", "container_command", "framework", "stream_output")


# Asked several times in each cycle of the worker, for each attempt.
@lru_cache(maxsize=4096, typed=True)
def _running_request(*values: object) -> PodRequest:
    return parse_pod_request(dict(zip(_KIND, values, strict=True)))


def _contradictions(request: PodRequest, given: Mapping[str, object]) -> Iterator[InvalidInput]:
    said_twice = (
        ("cpu_request", request.cpu_request_milli, "cpu_per_gpu", request.cpu_per_gpu),
        (
            "memory_request",
            request.memory_request_mib,
            "memory_gib_per_gpu",
            request.memory_gib_per_gpu,
        ),
    )
    for of_pod, amount, of_gpu, amount_per_gpu in said_twice:
        if amount is not None and amount_per_gpu is not None:
            yield InvalidInput(
                of_pod,
                f"cannot be combined with {of_gpu}",
                got=given[of_pod],
                remedy="specify only one of them, or set the value of the pool to null",
            )
    if request.framework in FRAMEWORKS and request.finished_job_ttl_s is not None:
        yield InvalidInput(
            "finished_job_ttl",
            f"is not for framework {request.framework!r}, which does not create a Job",
            got=request.finished_job_ttl_s,
            remedy="use `kubernetes.kept_after_end` in the policy instead",
        )
    amounts = {request.memory_request_mib, request.memory_limit_mib} - {None}
    if request.framework == "spark" and len(amounts) > 1:
        yield InvalidInput(
            "memory_limit",
            "must be equal to memory_request, because Spark uses one value for both",
            got=given["memory_limit"],
            remedy="specify only one of them",
        )
