"""The job variables of a GPU pool, checked: the request of one run."""

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
)

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.pydantic_errors import (
    input_errors,
    known_names,
    parsed_by,
    refuse,
    unknown_name,
)
from gpu_core.decisions.model.section import parse_budget
from gpu_core.decisions.requests.variables.variable_values import (
    AUTO,
    DURATION_SCHEMA,
    Deadline,
    Duration,
    PositiveDuration,
    StoreUri,
    Text,
    parse_gpu_types,
    parse_interval_s,
    parse_mig_profile,
    parse_work,
)


class GpuRequest(BaseModel):
    """The job variables of a GPU pool that one run may set. Made by `parse_request`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    team: Text | None = Field(
        default=None, title="Team", description="The team to which the cost of the run is charged."
    )
    project: Text | None = Field(
        default=None,
        title="Project",
        description="The project to which the cost of the run is charged.",
    )
    workload_type: (
        Literal["training", "fine-tuning", "inference", "batch-inference", "interactive"] | None
    ) = Field(
        default=None,
        title="Workload type",
        description="The type of the workload. Used to group costs in reports.",
    )
    gpu_type: Annotated[
        tuple[str, ...],
        parsed_by(parse_gpu_types),
        WithJsonSchema(
            {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
        ),
    ] = Field(
        default=(),
        title="GPU type",
        description="The GPU type to use, for example 'a100-80gb', or a list of GPU types in "
        "order of preference. Defaults to 'auto', which allows any type.",
        json_schema_extra={"default": AUTO},
    )
    gpu_count: Annotated[int, Field(ge=0, le=64)] = Field(
        default=1,
        title="GPU count",
        description="The number of GPUs on each node, from 0 to 64. If set to 0, the run does not "
        "use GPUs and starts immediately. Defaults to 1.",
    )
    gpu_fraction: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = Field(
        default=None,
        title="GPU fraction",
        description="The fraction of a GPU to request, greater than 0 and up to 1. A value below "
        "1 requires a cluster, and the memory of the GPU is not divided between runs. "
        "Defaults to 1.",
    )
    mig_profile: Annotated[str, parsed_by(parse_mig_profile)] | None = Field(
        default=None,
        title="MIG profile",
        description="The MIG profile to use instead of whole GPUs, for example '1g.10gb'. "
        "Requires a cluster with nodes that provide this profile.",
    )
    nodes: Annotated[int, Field(ge=1, le=64)] = Field(
        default=1,
        title="Nodes",
        description="The number of nodes to use, from 1 to 64. All nodes start at the same time. "
        "Defaults to 1.",
    )
    gpu_memory_gib: Annotated[int, Field(ge=1, le=4096)] | None = Field(
        default=None,
        title="GPU memory (GiB)",
        description="The minimum nominal memory of each GPU in GiB. If not set, GPUs with any "
        "amount of memory can be used.",
    )
    work: Annotated[str, parsed_by(parse_work)] | None = Field(
        default=None,
        title="Description of the work",
        description="A description of the work, for example 'fine-tune a 7B model with LoRA on "
        "100M tokens'. If gpu_type is 'auto', the cheapest GPU type with enough memory for "
        "this work is selected.",
    )
    capacity_type: Literal["auto", "spot", "on-demand", "reserved"] = Field(
        default="auto",
        title="Capacity type",
        description="The capacity type that the run can use. Defaults to 'auto', which allows any "
        "type.",
    )
    expected_duration_s: PositiveDuration | None = Field(
        default=None,
        alias="expected_duration",
        title="Expected duration",
        description="The expected duration of an uninterrupted run, in seconds or as text such as "
        "'90m'. If not set, the duration is unknown.",
    )
    deadline: Deadline | None = Field(
        default=None,
        title="Deadline",
        description="The time by which the run must end, for example '2026-09-01T18:00Z', or '6h' "
        "after the submission. Used to choose between spot and on-demand capacity, and for "
        "the ordering key deadline-slack. By default, there is no deadline.",
    )
    budget_micro_usd: (
        Annotated[int, parsed_by(parse_budget), WithJsonSchema({"type": "number"})] | None
    ) = Field(
        default=None,
        alias="budget_usd",
        title="Budget (USD)",
        description="The maximum total cost of all attempts of the run in USD. When the limit is "
        "reached, the run saves and stops, or continues, depending on the policy. By default, "
        "there is no limit.",
    )
    max_duration_s: PositiveDuration | None = Field(
        default=None,
        alias="max_duration",
        title="Maximum duration",
        description="The maximum duration of an attempt, in seconds or as text such as '12h'. "
        "Defaults to the limit in the policy.",
    )
    min_runtime_s: Duration | None = Field(
        default=None,
        alias="min_runtime",
        title="Minimum run time",
        description="The minimum time before an attempt can be preempted, in seconds or as text "
        "such as '10m'. Defaults to the value in the policy.",
    )
    checkpoint_uri: StoreUri | None = Field(
        default=None,
        title="Checkpoint store",
        description="The directory or bucket in which checkpoints are stored. Defaults to the "
        "checkpoint store of the pool.",
    )
    checkpoint_interval_s: Annotated[
        Annotated[int, Field(ge=1)] | None,
        parsed_by(parse_interval_s),
        WithJsonSchema(DURATION_SCHEMA),
    ] = Field(
        default=None,
        alias="checkpoint_interval",
        title="Checkpoint interval",
        description="The interval between checkpoints, in seconds or as text such as '10m'. "
        "Defaults to 'auto', which uses the interval of the policy.",
        json_schema_extra={"default": AUTO},
    )
    max_failures: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        default=None,
        title="Maximum failures",
        description="The number of failures after which the run is not retried. Only failures of "
        "the run itself are counted. Defaults to the value in the policy.",
    )
    max_interruptions: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        default=None,
        title="Maximum interruptions",
        description="The number of interruptions by the machine or the provider after which the "
        "run is not retried. If not set, the number is unlimited.",
    )
    preemptible: bool = Field(
        default=True,
        title="Preemptible",
        description="Whether the run can be preempted by runs with a higher priority. Defaults to "
        "true.",
    )
    user: Text | None = Field(
        default=None, title="User", description="The user to whom the cost of the run is charged."
    )
    sweep: Text | None = Field(
        default=None,
        title="Sweep",
        description="The name of the sweep to which the run belongs. With fair share, runs of a "
        "sweep are scheduled after other runs of the same user.",
    )
    model: Text | None = Field(
        default=None,
        title="Model",
        description="The name of the model on which the run works. Used in reports.",
    )
    gpu_priority: Text | None = Field(
        default=None,
        title="GPU priority",
        description="The name of the queue from which the run takes its priority. Defaults to the "
        "work queue of the run.",
    )


# No pod field nests deeper. Recursive code (copies, JSON, templates) fails at about 1,000 levels.
_MOST_LEVELS = 40


_MOST_UNKNOWN = 10


def parse_request(variables: Mapping[str, object], other_known: Collection[str]) -> GpuRequest:
    """The request of a run with these job variables.

    Args:
        variables: Job variables by name; None means that it was not given.
        other_known: Names that belong to the worker itself, such as `env`; they are ignored, and
            so is `env.NAME`, if `env` is among them.

    Raises:
        InvalidInput: One variable is unknown or cannot be used.
        InvalidInputs: Several; the message has a line for each.
    """
    ours = known_names(GpuRequest)
    known = [*ours, *other_known]
    is_known = frozenset(known).__contains__
    unknown = [
        name
        for name in variables
        if not is_known(name) and not ("env" in other_known and name.startswith("env."))
    ]
    # Each is compared with all known names: of very many only the first are.
    errors = [unknown_name(name, name, known) for name in unknown[:_MOST_UNKNOWN]]
    if len(unknown) > _MOST_UNKNOWN:
        errors.append(InvalidInput("job_variables", f"contain {len(unknown):,} unknown names"))
    of_others = {name: value for name, value in variables.items() if name in other_known}
    errors += [error for name, value in of_others.items() if (error := _not_json(name, value))]
    given = {name: variables[name] for name in ours if variables.get(name) is not None}
    try:
        request = GpuRequest.model_validate(given)
    except ValidationError as error:
        errors += input_errors(error, GpuRequest)
    else:
        errors += _contradictions(request)
    refuse(errors)
    return request


def _not_json(name: str, value: object) -> InvalidInput | None:
    """The error for a value that is not JSON which every reader accepts; None: it is.

    Level by level: recursion would fail.
    """
    inner = [value]
    for _ in range(_MOST_LEVELS + 1):
        if wrong := next((i for i in inner if isinstance(i, float) and not math.isfinite(i)), None):
            return InvalidInput(
                name, "has a number that is not finite", got=wrong, allowed="finite numbers"
            )
        containers = [item for item in inner if isinstance(item, Mapping | list | tuple)]
        if not containers:
            return None
        inner = [
            item
            for container in containers
            for item in (container.values() if isinstance(container, Mapping) else container)
        ]
    return InvalidInput(name, "is nested too deeply", allowed=f"{_MOST_LEVELS} levels at most")


def _contradictions(request: GpuRequest) -> list[InvalidInput]:
    errors = list(_without_gpus(request)) if request.gpu_count == 0 else []
    if request.gpu_fraction is not None and request.mig_profile is not None:
        errors.append(
            InvalidInput(
                "gpu_fraction",
                "cannot be combined with mig_profile",
                got=request.gpu_fraction,
                remedy="specify only one of them",
            )
        )
    return errors


def _without_gpus(request: GpuRequest) -> Iterator[InvalidInput]:
    if request.nodes > 1:
        yield InvalidInput(
            "nodes", "needs GPUs on each node", got=request.nodes, remedy="set gpu_count too"
        )
    parts = {"gpu_fraction": request.gpu_fraction, "mig_profile": request.mig_profile}
    for name, wanted in parts.items():
        if wanted is not None:
            yield InvalidInput(name, "needs a GPU", got=wanted, remedy="set gpu_count to 1")
