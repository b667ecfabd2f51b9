"""The options of `prefect-gpu plan`."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Group, Parameter

from gpu_core.cli.catalog.arguments import DEFAULT_OPTIONS, CatalogOptions
from gpu_core.cli.shared.options import AsJson, whole_number

if TYPE_CHECKING:
    from gpu_core.cli.plan.command import PastRuns
    from gpu_core.decisions.offerings.constraints import Conditions, Constraints, DataPlace
    from gpu_core.decisions.requests.requirements.estimates.duration import ObservedThroughput
    from gpu_core.decisions.requests.requirements.reading.job_request import JobRequest

_JOB = Group("Job", help="Options override the text.", sort_key=1)
_CONSTRAINTS = Group("Constraints", sort_key=2)
_CONDITIONS = Group("Conditions", sort_key=3)


@Parameter(name="*", group=_JOB)
@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """Options that describe the job."""

    model: Annotated[str | None, Parameter(help="Name of a supported model (e.g. llama-3-8b).")] = (
        None
    )
    parameters: Annotated[str | None, Parameter(help="Number of model parameters (e.g. 7B).")] = (
        None
    )
    method: Annotated[
        Literal["full", "lora", "qlora", "inference"] | None, Parameter(help="The training method.")
    ] = None
    precision: Annotated[
        Literal["fp32", "bf16", "fp16", "int8", "int4"] | None, Parameter(help="The number format.")
    ] = None
    optimizer: Annotated[
        Literal["adamw", "adamw-8bit", "sgd-momentum", "sgd"] | None,
        Parameter(help="The optimizer."),
    ] = None
    zero_stage: Annotated[
        int | None,
        whole_number(
            "The ZeRO stage to use (0 to 3). Defaults to the lowest stage that fits in memory."
        ),
    ] = None
    recompute: Annotated[
        Literal["none", "selective", "full"] | None,
        Parameter(
            help="The activation recomputation. Defaults to the lowest level that fits in memory."
        ),
    ] = None
    lora_rank: Annotated[int | None, whole_number("The LoRA rank to use.")] = None
    batch: Annotated[int | None, whole_number("Batch size per GPU, in sequences or images.")] = None
    accumulation: Annotated[
        int | None, whole_number("Number of gradient accumulation steps. Defaults to 8.")
    ] = None
    sequence_length: Annotated[
        int | None,
        whole_number(
            "Number of tokens per sample. For inference, this includes the generated tokens."
        ),
    ] = None
    output_tokens: Annotated[
        int | None, whole_number("Number of tokens to generate per prompt.")
    ] = None
    amount: Annotated[
        str | None,
        Parameter(
            help="The amount of work in the job: the number of tokens or images for training, or "
            "of prompts or images for inference."
        ),
    ] = None


@Parameter(name="*", group=_CONSTRAINTS)
@dataclass(frozen=True, kw_only=True)
class ConstraintOptions:
    """Options that limit the answer."""

    deadline: Annotated[
        str | None,
        Parameter(
            help="The deadline of the job: a time (e.g. 2026-12-01T08:00Z) or a duration from "
            "now (e.g. 24h)."
        ),
    ] = None
    budget_usd: Annotated[str | None, Parameter(help="Maximum cost of the job.")] = None
    by: Annotated[Literal["cost", "time"], Parameter(help="The field to sort by.")] = "cost"
    max_nodes: Annotated[int, whole_number("Maximum number of nodes to use.")] = 1
    gpus: Annotated[int | None, whole_number("Total number of GPUs to use across all nodes.")] = (
        None
    )
    data_gib: Annotated[float | None, Parameter(help="Size of the input data.")] = None
    data_at: Annotated[
        str | None, Parameter(help="Location of the input data, in the format PROVIDER/REGION.")
    ] = None


@Parameter(name="*", group=_CONDITIONS)
@dataclass(frozen=True, kw_only=True)
class ConditionOptions:
    """Options for known speeds, start times and spot lifetimes."""

    observed: Annotated[
        str | None,
        Parameter(
            help="The measured throughput of previous runs in tokens, prompts or images per "
            "second, in the format TYPE:GPUS:SPEED[,SPEED] (e.g. a100-80gb:8:21000)."
        ),
    ] = None
    deployment: Annotated[
        str | None,
        Parameter(
            help="The name of a deployment, in the format FLOW/DEPLOYMENT, whose previous runs "
            "are used to estimate the throughput. Requires --ledger."
        ),
    ] = None
    ledger: Annotated[
        str | None, Parameter(help="The file path or URL of the ledger containing these runs.")
    ] = None
    amount_each: Annotated[
        str | None,
        Parameter(
            help="The amount of work performed by each of these runs. Defaults to the "
            "value of --amount."
        ),
    ] = None
    startup: Annotated[
        str | None, Parameter(help="The time required to start a new node. Defaults to 5m.")
    ] = None
    spot_life: Annotated[
        str | None, Parameter(help="The mean lifetime of a spot instance. Defaults to 7600s.")
    ] = None
    storage_gb_per_s: Annotated[
        float | None,
        Parameter(help="The bandwidth available for writing checkpoints. Defaults to 1."),
    ] = None


_NO_JOB, _NO_CONSTRAINTS, _NO_CONDITIONS = JobOptions(), ConstraintOptions(), ConditionOptions()


def plan(
    text: Annotated[
        str | None,
        Parameter(help="A text description of the job, such as 'fine-tune a 7B model with LoRA'."),
    ] = None,
    /,
    *,
    job: JobOptions = _NO_JOB,
    constraints: ConstraintOptions = _NO_CONSTRAINTS,
    conditions: ConditionOptions = _NO_CONDITIONS,
    catalog: CatalogOptions = DEFAULT_OPTIONS,
    top: Annotated[int, whole_number("The maximum number of rows to display.")] = 10,
    as_json: AsJson = False,
) -> int:
    """Compare the cost and duration of a job across GPU offerings.

    Estimates the cost, duration, memory usage and interruptions of the job for each offering, and
    ranks all offerings that satisfy the deadline and the budget. For other offerings, the reason
    for their exclusion is displayed. No resources are provisioned.
    """
    from gpu_core.cli.plan.command import PlanOptions
    from gpu_core.cli.plan.command import plan as run_plan
    from gpu_core.decisions.model.errors import InvalidInput

    if top < 1:
        raise InvalidInput("top", "is too small", got=top, allowed="1 or more")
    now = datetime.now(UTC)
    return run_plan(
        PlanOptions(
            text=text,
            stated=_stated(job),
            constraints=_constraints(constraints, now),
            conditions=_conditions(conditions),
            observed=_observed(conditions.observed),
            past=_past_runs(conditions),
            catalog_path=catalog.catalog,
            own_sheets=catalog.prices,
            selection=catalog.selection,
            top=top,
            as_json=as_json,
        ),
        now,
    )


def _stated(options: JobOptions) -> "JobRequest":
    from gpu_core.decisions.catalog.gpu_types import Precision
    from gpu_core.decisions.requests.requirements.jobs.job import Method, Optimizer, Recompute
    from gpu_core.decisions.requests.requirements.jobs.number_words import parse_count
    from gpu_core.decisions.requests.requirements.reading.job_request import JobRequest

    parameters, amount = options.parameters, options.amount
    return JobRequest(
        model_name=options.model,
        parameters=None if parameters is None else round(parse_count(parameters, "parameters")),
        method=Method(options.method) if options.method else None,
        precision=Precision(options.precision) if options.precision else None,
        optimizer=Optimizer(options.optimizer) if options.optimizer else None,
        zero_stage=options.zero_stage,
        recompute=Recompute(options.recompute) if options.recompute else None,
        lora_rank=options.lora_rank,
        batch_per_gpu=options.batch,
        accumulation=options.accumulation,
        sequence_length=options.sequence_length,
        output_tokens=options.output_tokens,
        amount=None if amount is None else parse_count(amount, "amount"),
    )


def _constraints(options: ConstraintOptions, now: datetime) -> "Constraints":
    from gpu_core.decisions.model.units import micro_usd
    from gpu_core.decisions.offerings.constraints import Constraints, Goal
    from gpu_core.decisions.requests.variables.variable_values import parse_deadline

    deadline = parse_deadline(options.deadline, "deadline") if options.deadline else None
    budget = options.budget_usd
    return Constraints(
        goal=Goal(options.by),
        deadline_at=now + deadline if isinstance(deadline, timedelta) else deadline,
        budget_micro_usd=None if budget is None else micro_usd(budget, "budget-usd"),
        max_nodes=options.max_nodes,
        gpus=options.gpus,
        data_gib=options.data_gib,
        data_at=_place(options.data_at),
    )


def _place(text: str | None) -> "DataPlace | None":
    from gpu_core.decisions.model.errors import InvalidInput
    from gpu_core.decisions.offerings.constraints import DataPlace

    if text is None:
        return None
    provider, slash, region = text.partition("/")
    if not (provider and slash and region):
        raise InvalidInput(
            "data-at",
            "is not a place",
            got=text,
            allowed="PROVIDER/REGION such as aws/us-east-1",
        )
    return DataPlace(provider=provider, region=region)


def _conditions(options: ConditionOptions) -> "Conditions":
    from gpu_core.decisions.model.units import parse_duration_s
    from gpu_core.decisions.offerings.constraints import Conditions

    usual = Conditions()
    startup, life = options.startup, options.spot_life
    rate = options.storage_gb_per_s
    return Conditions(
        startup_s=usual.startup_s if startup is None else parse_duration_s(startup, "startup"),
        storage_gb_per_s=usual.storage_gb_per_s if rate is None else rate,
        spot_mean_life_s=(
            usual.spot_mean_life_s if life is None else parse_duration_s(life, "spot-life")
        ),
    )


def _past_runs(options: ConditionOptions) -> "PastRuns | None":
    from gpu_core.cli.plan.command import PastRuns
    from gpu_core.decisions.model.errors import InvalidInput
    from gpu_core.decisions.requests.requirements.jobs.number_words import parse_count

    ledger, deployment, each = options.ledger, options.deployment, options.amount_each
    if deployment is None or ledger is None:
        for field, value in (("ledger", ledger), ("deployment", deployment), ("amount-each", each)):
            if value is not None:
                remedy = "please specify both --ledger and --deployment"
                raise InvalidInput(field, "cannot be used on its own", got=value, remedy=remedy)
        return None
    if options.observed is not None:
        raise InvalidInput("observed", "and deployment are alternatives", got=options.observed)
    return PastRuns(
        ledger=ledger,
        deployment=deployment,
        amount_each=None if each is None else parse_count(each, "amount-each"),
    )


def _observed(text: str | None) -> "ObservedThroughput | None":
    from gpu_core.decisions.model.errors import InvalidInput
    from gpu_core.decisions.offerings.estimates import observed_on

    if text is None:
        return None
    try:
        gpu_type, gpus, speeds = text.split(":")
        return observed_on(gpu_type, int(gpus), tuple(float(s) for s in speeds.split(",")))
    except ValueError:
        raise InvalidInput(
            "observed", "cannot be read", got=text, allowed="such as a100-80gb:8:21000,20500"
        ) from None
