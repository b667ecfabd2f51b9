"""What one run asks for: the job variables of a GPU pool, checked, and the workload they make."""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
)

from gpu_core.decisions.catalog.mig import MIG_PROFILES, mig_profile, mig_share_milli
from gpu_core.decisions.model.errors import InvalidInput, listed, nearest_name
from gpu_core.decisions.model.pydantic_errors import (
    input_errors,
    known_names,
    parsed_by,
    refuse,
    unknown_name,
)
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.section import parse_budget
from gpu_core.decisions.model.units import format_duration
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI, Hold, Shape, Workload
from gpu_core.decisions.policy.policy import PREFECT_DEFAULT_QUEUE, Policy
from gpu_core.decisions.requests.permissions import permitted
from gpu_core.decisions.requests.run_tags import FIRST_TAG, held_by_tag
from gpu_core.decisions.requests.variable_values import (
    AUTO,
    DURATION_SCHEMA,
    Address,
    Deadline,
    Duration,
    PositiveDuration,
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
        default=None, title="Team", description="The team that the run's cost is charged to."
    )
    project: Text | None = Field(
        default=None, title="Project", description="The project that the run's cost is charged to."
    )
    workload_type: (
        Literal["training", "fine-tuning", "inference", "batch-inference", "interactive"] | None
    ) = Field(
        default=None,
        title="Workload type",
        description="The kind of work, for the cost reports.",
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
        description="A GPU type such as 'a100-80gb', a list of types in order of preference, or "
        "'auto' for any type, the default.",
        json_schema_extra={"default": AUTO},
    )
    gpu_count: Annotated[int, Field(ge=0, le=64)] = Field(
        default=1,
        title="GPU count",
        description="GPUs on each node, 0 to 64, by default 1; with 0 the run needs no GPU and "
        "starts at once.",
    )
    gpu_fraction: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = Field(
        default=None,
        title="GPU fraction",
        description="The fraction of a GPU that the run needs, over 0 to 1, by default a whole "
        "GPU; less than 1 is a share of a GPU of a cluster, without memory of its own.",
    )
    mig_profile: Annotated[str, parsed_by(parse_mig_profile)] | None = Field(
        default=None,
        title="MIG profile",
        description="The MIG instance that the run gets instead of each GPU, such as '1g.10gb', "
        "on nodes of a cluster that have it.",
    )
    nodes: Annotated[int, Field(ge=1, le=64)] = Field(
        default=1,
        title="Nodes",
        description="The number of nodes that start together, 1 to 64, by default 1.",
    )
    gpu_memory_gib: Annotated[int, Field(ge=1, le=4096)] | None = Field(
        default=None,
        title="GPU memory (GiB)",
        description="The minimum nominal memory of each GPU in GiB, by default any.",
    )
    work: Annotated[str, parsed_by(parse_work)] | None = Field(
        default=None,
        title="Description of the work",
        description="What the run does in words, such as 'fine-tune a 7B model with LoRA on 100M "
        "tokens'; with gpu_type 'auto' the run gets the cheapest type that holds this work.",
    )
    capacity_type: Literal["auto", "spot", "on-demand", "reserved"] = Field(
        default="auto",
        title="Capacity type",
        description="Which kind of capacity the run may use, by default 'auto' for any.",
    )
    expected_duration_s: PositiveDuration | None = Field(
        default=None,
        alias="expected_duration",
        title="Expected duration",
        description="How long one uninterrupted run takes, in seconds or as text such as '90m', "
        "by default unknown.",
    )
    deadline: Deadline | None = Field(
        default=None,
        title="Deadline",
        description="When the run must be finished, as a moment such as '2026-09-01T18:00Z' or a "
        "duration from its submission such as '6h', by default never; it affects spot or "
        "on-demand, and the order where the policy orders by deadline-slack.",
    )
    budget_micro_usd: (
        Annotated[int, parsed_by(parse_budget), WithJsonSchema({"type": "number"})] | None
    ) = Field(
        default=None,
        alias="budget_usd",
        title="Budget (USD)",
        description="The most that all attempts of the run may cost together in USD, by default no "
        "limit; at the limit the run saves and stops, or continues, as the policy says.",
    )
    max_duration_s: PositiveDuration | None = Field(
        default=None,
        alias="max_duration",
        title="Maximum duration",
        description="The maximum time that an attempt runs, in seconds or as text such as '12h', "
        "by default the policy's limit.",
    )
    min_runtime_s: Duration | None = Field(
        default=None,
        alias="min_runtime",
        title="Minimum run time",
        description="The time before an attempt may be preempted, in seconds or as text such as "
        "'10m', by default the policy's.",
    )
    checkpoint_uri: Address | None = Field(
        default=None,
        title="Checkpoint store",
        description="The folder or bucket of the run's checkpoints, by default the pool's.",
    )
    checkpoint_interval_s: Annotated[
        Annotated[int, Field(ge=1)] | None,
        parsed_by(parse_interval_s),
        WithJsonSchema(DURATION_SCHEMA),
    ] = Field(
        default=None,
        alias="checkpoint_interval",
        title="Checkpoint interval",
        description="How often the run saves, in seconds or as text such as '10m', or 'auto' for "
        "the policy's interval, the default.",
        json_schema_extra={"default": AUTO},
    )
    max_failures: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        default=None,
        title="Maximum failures",
        description="The number of the run's own failures after which it is not retried, by "
        "default the policy's.",
    )
    max_interruptions: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        default=None,
        title="Maximum interruptions",
        description="The number of interruptions by the machine or its provider after which the "
        "run is not retried, by default unlimited.",
    )
    preemptible: bool = Field(
        default=True,
        title="Preemptible",
        description="Whether runs of higher priority may preempt this run, by default true.",
    )
    user: Text | None = Field(
        default=None, title="User", description="The user that the run's cost is charged to."
    )
    sweep: Text | None = Field(
        default=None,
        title="Sweep",
        description="The sweep that the run belongs to; under fair share its runs come after the "
        "user's other runs.",
    )
    model: Text | None = Field(
        default=None, title="Model", description="The model that the run works on, for the reports."
    )
    gpu_priority: Text | None = Field(
        default=None,
        title="GPU priority",
        description="The queue whose priority the run has, by default its own queue.",
    )


# No pod field nests deeper. Recursive code (copies, JSON, templates) fails at about 1,000 levels.
_MOST_LEVELS = 40

_MOST_UNKNOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """What bounds a run: its own constraints, else the policy's. None: no bound."""

    max_duration_s: int | None
    max_failures: int
    max_interruptions: int | None
    start_timeout_s: int | None = None
    """How long an attempt may take to begin before it can be preempted; None: it begins with its
    admission."""


def parse_request(variables: Mapping[str, object], other_known: Collection[str]) -> GpuRequest:
    """What does a run with these job variables ask for?

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
        errors.append(
            InvalidInput("job_variables", f"have {len(unknown):,} names that are not known")
        )
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
    """Why can this not be written as JSON that every reader takes? None: it can.

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


def run_limits(request: GpuRequest, policy: Policy) -> RunLimits:
    """What bounds this run under this policy?

    Raises:
        InvalidInput: The run asks for a longer time than the policy allows.
    """
    wanted_s, longest_s = request.max_duration_s, policy.limits.max_duration_s
    if wanted_s is not None and longest_s is not None and wanted_s > longest_s:
        raise InvalidInput(
            "max_duration",
            "is over the policy's limit",
            got=format_duration(wanted_s),
            allowed=f"at most {format_duration(longest_s)} (limits.max_duration)",
        )
    return RunLimits(
        max_duration_s=wanted_s or longest_s,
        max_failures=request.max_failures or policy.limits.max_failures,
        max_interruptions=request.max_interruptions,
        start_timeout_s=policy.kubernetes.pending_timeout_s,
    )


def workload_from_request(
    request: GpuRequest,
    *,
    workload_id: str,
    name: str,
    queue: str | None,
    submitted_at: datetime,
    policy: Policy,
    user: str | None = None,
    tags: Collection[str] = (),
    hold: Hold | None = None,
    deployment: str | None = None,
) -> Workload:
    """Which workload does the scheduler see for this run?

    Args:
        queue: The run's work queue; None: it has none and counts as in Prefect's `default`.
        submitted_at: When the run first wanted to start.
        policy: Gives the priority and what the request leaves open.
        user: Who made the run, as Prefect knows it; the job variable `user` comes before it.
        tags: The flow run's tags; those of `tags.py` have a meaning.
        hold: Why the run may not be considered for now. It comes before a person's hold, a request
            beyond the team's permission before both, and an unknown queue before all: the graver
            reason wins.

        deployment: The run's deployment as `FLOW/DEPLOYMENT`; None: it has none.

    Raises:
        InvalidInput: `gpu_priority` is no queue of the policy, the run asks for more GPUs than the
            policy allows, or its deadline was over when it was submitted.
    """
    _check_gpu_limit(request, policy)
    priority = _priority(request, queue, policy)
    hold = _unknown_queue(str(queue), policy) if priority is None else hold or held_by_tag(tags)
    workload = Workload(
        workload_id=workload_id,
        name=name,
        priority=priority or 0,
        submitted_at=submitted_at,
        shape=_shape(request),
        is_preemptible=request.preemptible,
        min_runtime_s=(
            policy.preemption.min_runtime_s
            if request.min_runtime_s is None
            else request.min_runtime_s
        ),
        expected_duration_s=request.expected_duration_s,
        deadline_at=_deadline_at(request, submitted_at),
        budget_micro_usd=request.budget_micro_usd,
        team=request.team,
        user=request.user or user,
        project=request.project,
        deployment=deployment,
        queue=queue,
        group=request.sweep,
        priority_override=int(FIRST_TAG in tags),
        hold=hold,
    )
    if priority is None:
        return workload
    asked_queue = request.gpu_priority or queue or PREFECT_DEFAULT_QUEUE
    return permitted(workload, policy.queue_with_points(asked_queue), policy)


def _shape(request: GpuRequest) -> Shape:
    return Shape(
        gpu_count=request.gpu_count,
        nodes=request.nodes,
        gpu_types=request.gpu_type,
        gpu_memory_gib=request.gpu_memory_gib,
        gpu_share_milli=_gpu_share_milli(request),
        mig_profile=request.mig_profile,
        capacity_type=None if request.capacity_type == AUTO else request.capacity_type,
    )


def _deadline_at(request: GpuRequest, submitted_at: datetime) -> datetime | None:
    deadline = request.deadline
    at = submitted_at + deadline if isinstance(deadline, timedelta) else deadline
    if at is not None and at <= submitted_at:
        raise InvalidInput(
            "deadline",
            "is not after the run's submission",
            got=at.isoformat(),
            allowed=f"later than {submitted_at.isoformat(timespec='seconds')}, or a duration such "
            "as '6h' from submission",
            remedy="submit the run again with another deadline, or without one",
        )
    return at


def _contradictions(request: GpuRequest) -> list[InvalidInput]:
    errors = list(_without_gpus(request)) if request.gpu_count == 0 else []
    if request.gpu_fraction is not None and request.mig_profile is not None:
        errors.append(
            InvalidInput(
                "gpu_fraction",
                "says the part of a GPU that mig_profile says too",
                got=request.gpu_fraction,
                remedy="leave one of them out",
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


def _gpu_share_milli(request: GpuRequest) -> int:
    """The part of each GPU; of an instance the largest that it may turn out to be."""
    if request.mig_profile is not None:
        types = request.gpu_type or MIG_PROFILES
        known = [name for name in types if mig_profile(name, request.mig_profile) is not None]
        shares = (mig_share_milli(name, request.mig_profile) for name in known)
        return max(shares, default=WHOLE_GPU_MILLI)
    if request.gpu_fraction is None:
        return WHOLE_GPU_MILLI
    return max(1, round(request.gpu_fraction * WHOLE_GPU_MILLI))


def _check_gpu_limit(request: GpuRequest, policy: Policy) -> None:
    wanted = request.gpu_count * request.nodes
    most = policy.limits.max_gpus_per_run
    if most is not None and wanted > most:
        raise InvalidInput(
            "gpu_count" if request.nodes == 1 else "gpu_count × nodes",
            "is over the policy's limit",
            got=wanted,
            allowed=f"at most {most} GPUs for one run (limits.max_gpus_per_run)",
        )


def _priority(request: GpuRequest, queue: str | None, policy: Policy) -> int | None:
    if request.gpu_priority is None:
        return policy.priority_of_queue(PREFECT_DEFAULT_QUEUE if queue is None else queue)
    priority = policy.priority_of_queue(request.gpu_priority)
    if priority is None:
        raise InvalidInput(
            "gpu_priority",
            "is not a queue of the policy",
            got=request.gpu_priority,
            allowed=listed(policy.priorities),
            nearest=nearest_name(request.gpu_priority, policy.priorities),
        )
    return priority


def _unknown_queue(queue: str, policy: Policy) -> Hold:
    nearest = nearest_name(queue, policy.priorities)
    meant = f"; did you mean {nearest!r}?" if nearest else "."
    return Hold(
        reason=Reason.UNKNOWN_QUEUE,
        summary=f"Held: the policy has no priority for the queue {queue!r}{meant}",
        resolution=f"Add {queue!r} to the policy's priorities, or set the job variable "
        f"gpu_priority to one of {listed(policy.priorities)}.",
    )
