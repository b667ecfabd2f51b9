"""The job variables of a gpu-kubernetes pool that shape its pods, checked."""

import shlex
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema

from gpu_core.decisions.errors import InvalidInput
from gpu_core.decisions.kubernetes.policy import AbsolutePath, ObjectName
from gpu_core.decisions.kubernetes.quantities import memory_mib
from gpu_core.decisions.validation import input_errors, known_names, parsed_by, refuse


def _shm_mib(value: object, field: str) -> int:
    mib = memory_mib(value, field, up=True)
    if mib < 1:
        raise InvalidInput(field, "is too small", got=value, allowed="1Mi or more")
    return mib


def _words(value: object, field: str) -> tuple[str, ...]:
    """A command as its arguments; text is split as a shell does it."""
    words = value
    if isinstance(value, str):
        try:
            words = shlex.split(value)
        except ValueError as error:
            raise InvalidInput(field, f"cannot be split into words: {error}", got=value) from None
    if not isinstance(words, list | tuple) or not words:
        raise InvalidInput(field, "is not a command", got=value, allowed="text or a list of words")
    if not all(isinstance(word, str) for word in words):
        raise InvalidInput(field, "has a word that is not text", got=value)
    return tuple(words)


_COMMAND_SCHEMA = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}


class ClaimMount(BaseModel):
    """A PersistentVolumeClaim, and where the run sees it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    claim: ObjectName
    mount_path: AbsolutePath
    read_only: bool = False


class PodRequest(BaseModel):
    """What one run asks of its pods beside GPUs. Made by `parse_pod_request`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    cpu_per_gpu: Annotated[float, Field(gt=0, le=256, allow_inf_nan=False)] | None = Field(
        default=None,
        title="CPU per GPU",
        description="CPU cores for each GPU, by default the policy's for its type.",
    )
    memory_gib_per_gpu: Annotated[float, Field(gt=0, le=4096, allow_inf_nan=False)] | None = Field(
        default=None,
        title="Memory per GPU (GiB)",
        description="Main memory in GiB for each GPU, by default the policy's for its type.",
    )
    shm_size_mib: Annotated[int, parsed_by(_shm_mib), WithJsonSchema({"type": "string"})] | None = (
        Field(
            default=None,
            alias="shm_size",
            title="Shared memory",
            description="The size of /dev/shm such as '8Gi', a part of the memory, by default half "
            "of it.",
        )
    )
    volumes: tuple[ClaimMount, ...] = Field(
        default=(),
        strict=False,
        title="Volumes",
        description="PersistentVolumeClaims to mount, each with claim, mount_path and read_only.",
    )
    model_cache: bool = Field(
        default=True,
        title="Model cache",
        description="Whether the policy's model cache is mounted, by default true.",
    )
    image: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        title="Image",
        description="The container image, by default the pool's.",
    )
    command: (
        Annotated[tuple[str, ...], parsed_by(_words), WithJsonSchema(_COMMAND_SCHEMA)] | None
    ) = Field(
        default=None,
        title="Command",
        description="How the engine of the flow is started, by default 'prefect flow-run execute', "
        "such as 'uv run prefect flow-run execute'.",
    )
    container_command: (
        Annotated[tuple[str, ...], parsed_by(_words), WithJsonSchema(_COMMAND_SCHEMA)] | None
    ) = Field(
        default=None,
        title="Container command",
        description="What the container runs instead of Prefect; in a gang of a flow, what the "
        "nodes after the first run.",
    )
    framework: Literal["none", "torchrun", "ray", "kubeflow", "spark"] = Field(
        default="none",
        title="Framework",
        description="Who spreads the work over nodes, by default nobody.",
    )


def parse_pod_request(variables: Mapping[str, object]) -> PodRequest:
    """What does a run with these job variables ask of its pods?

    Args:
        variables: Job variables by name; None means that it was not given, others are ignored.

    Raises:
        InvalidInput: One variable cannot be used.
        InvalidInputs: Several; the message has a line for each.
    """
    names = known_names(PodRequest)
    given = {name: variables[name] for name in names if variables.get(name) is not None}
    if given.get("command") == "":  # Prefect's own workers take it for a command that is not given
        del given["command"]
    try:
        return PodRequest.model_validate(given)
    except ValidationError as error:
        refuse(input_errors(error, PodRequest))
        raise
