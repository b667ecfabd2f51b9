"""The options of `prefect-gpu plan`."""

import argparse
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from gpu_core.cli.catalog.arguments import add_catalog_options, selection_of

if TYPE_CHECKING:
    from gpu_core.cli.plan.command import PastRuns
    from gpu_core.decisions.offerings.constraints import Conditions, Place, Wishes
    from gpu_core.decisions.requirements.duration import Observed
    from gpu_core.decisions.requirements.stated import Stated


def add_plan(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    command = commands.add_parser(
        "plan",
        help="which offerings could run a job, what each costs, and which to take",
        description=(
            "Rank every offering that could run a job by the expected cost of the whole job under "
            "its deadline and budget, with memory, time, interruptions, and why the others are "
            "refused. Nothing is started."
        ),
    )
    command.add_argument(
        "text", nargs="?", help="what is to be done, such as 'fine-tune a 7B model with LoRA'"
    )
    _add_job(command)
    _add_wishes(command)
    _add_conditions(command)
    add_catalog_options(command)
    command.add_argument("--top", type=int, default=10, help="rows of the table (default: 10)")
    command.set_defaults(run=_plan)


def _add_job(command: argparse.ArgumentParser) -> None:
    job = command.add_argument_group("job", "each comes before what the text says")
    job.add_argument("--model", help="a known model, such as llama-3-8b")
    job.add_argument("--parameters", help="of a transformer, such as 7B")
    job.add_argument("--method", choices=("full", "lora", "qlora", "inference"))
    job.add_argument("--precision", choices=("fp32", "bf16", "fp16", "int8", "int4"))
    job.add_argument("--optimizer", choices=("adamw", "adamw-8bit", "sgd-momentum", "sgd"))
    job.add_argument("--zero-stage", type=int, help="0 to 3; default: as little as fits")
    job.add_argument("--recompute", choices=("none", "selective", "full"), help="default: as fits")
    job.add_argument("--lora-rank", type=int)
    job.add_argument("--batch", type=int, help="sequences or images at once on each GPU")
    job.add_argument("--accumulation", type=int, help="batches between two updates (default: 8)")
    job.add_argument("--sequence-length", type=int, help="tokens; inference: with the answer")
    job.add_argument("--output-tokens", type=int, help="that inference writes for each prompt")
    job.add_argument("--amount", help="tokens or images to train on; prompts or images to answer")


def _add_wishes(command: argparse.ArgumentParser) -> None:
    wishes = command.add_argument_group("wishes")
    wishes.add_argument("--deadline", help="a moment such as 2026-12-01T08:00Z, or 24h from now")
    wishes.add_argument("--budget-usd", help="for the whole job")
    wishes.add_argument("--by", choices=("cost", "time"), default="cost", help="what comes first")
    wishes.add_argument("--max-nodes", type=int, default=1, help="default: 1")
    wishes.add_argument("--gpus", type=int, help="exactly so many, over all nodes")
    wishes.add_argument("--data-gib", type=float, help="data that the job reads")
    wishes.add_argument("--data-at", metavar="PROVIDER/REGION", help="where the data lies")


def _add_conditions(command: argparse.ArgumentParser) -> None:
    conditions = command.add_argument_group("conditions")
    conditions.add_argument(
        "--observed",
        metavar="TYPE:GPUS:SPEED[,SPEED]",
        help="tokens, prompts or images per second of earlier runs, such as a100-80gb:8:21000",
    )
    conditions.add_argument(
        "--deployment",
        metavar="FLOW/DEPLOYMENT",
        help="learn the speed from its completed runs; needs --ledger",
    )
    conditions.add_argument("--ledger", help="with these runs: its file or address")
    conditions.add_argument(
        "--amount-each", help="what each of these runs did (default: as much as this job)"
    )
    conditions.add_argument("--startup", help="until work begins on a new node (default: 5m)")
    conditions.add_argument("--spot-life", help="of a spot instance, on average (default: 7600s)")
    conditions.add_argument(
        "--storage-gb-per-s", type=float, help="of a node, for checkpoints (default: 1)"
    )


def _plan(options: argparse.Namespace) -> int:
    from gpu_core.cli.plan.command import PlanOptions, plan
    from gpu_core.decisions.model.errors import InvalidInput

    if options.top < 1:
        raise InvalidInput("top", "is too small", got=options.top, allowed="1 or more")
    now = datetime.now(UTC)
    return plan(
        PlanOptions(
            text=options.text,
            stated=_stated(options),
            wishes=_wishes(options, now),
            conditions=_conditions(options),
            observed=_observed(options.observed),
            past=_past_runs(options),
            catalog_path=options.catalog,
            own_sheets=tuple(options.prices),
            selection=selection_of(options),
            top=options.top,
            as_json=options.json,
        ),
        now,
    )


def _stated(options: argparse.Namespace) -> "Stated":
    from gpu_core.decisions.catalog.gpu_types import Precision
    from gpu_core.decisions.requirements.counts import parse_count
    from gpu_core.decisions.requirements.job import Method, Optimizer, Recompute
    from gpu_core.decisions.requirements.stated import Stated

    parameters, amount = options.parameters, options.amount
    return Stated(
        model_name=options.model,
        parameters=None if parameters is None else round(parse_count(parameters, "parameters")),
        method=options.method and Method(options.method),
        precision=options.precision and Precision(options.precision),
        optimizer=options.optimizer and Optimizer(options.optimizer),
        zero_stage=options.zero_stage,
        recompute=options.recompute and Recompute(options.recompute),
        lora_rank=options.lora_rank,
        batch_per_gpu=options.batch,
        accumulation=options.accumulation,
        sequence_length=options.sequence_length,
        output_tokens=options.output_tokens,
        amount=None if amount is None else parse_count(amount, "amount"),
    )


def _wishes(options: argparse.Namespace, now: datetime) -> "Wishes":
    from gpu_core.decisions.model.units import micro_usd
    from gpu_core.decisions.offerings.constraints import Goal, Wishes
    from gpu_core.decisions.requests.job_variables import parse_deadline

    deadline = options.deadline and parse_deadline(options.deadline, "deadline")
    budget = options.budget_usd
    return Wishes(
        goal=Goal(options.by),
        deadline_at=now + deadline if isinstance(deadline, timedelta) else deadline,
        budget_micro_usd=None if budget is None else micro_usd(budget, "budget-usd"),
        max_nodes=options.max_nodes,
        gpus=options.gpus,
        data_gib=options.data_gib,
        data_at=_place(options.data_at),
    )


def _place(text: str | None) -> "Place | None":
    from gpu_core.decisions.model.errors import InvalidInput
    from gpu_core.decisions.offerings.constraints import Place

    if text is None:
        return None
    provider, slash, region = text.partition("/")
    if not (provider and slash and region):
        raise InvalidInput("data-at", "is no place", got=text, allowed="such as aws/us-east-1")
    return Place(provider=provider, region=region)


def _conditions(options: argparse.Namespace) -> "Conditions":
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


def _past_runs(options: argparse.Namespace) -> "PastRuns | None":
    from gpu_core.cli.plan.command import PastRuns
    from gpu_core.decisions.model.errors import InvalidInput
    from gpu_core.decisions.requirements.counts import parse_count

    ledger, deployment, each = options.ledger, options.deployment, options.amount_each
    if deployment is None or ledger is None:
        for field, value in (("ledger", ledger), ("deployment", deployment), ("amount-each", each)):
            if value is not None:
                remedy = "name both ledger and deployment"
                raise InvalidInput(field, "has no effect alone", got=value, remedy=remedy)
        return None
    if options.observed is not None:
        raise InvalidInput("observed", "and deployment are alternatives", got=options.observed)
    return PastRuns(
        ledger=ledger,
        deployment=deployment,
        amount_each=None if each is None else parse_count(each, "amount-each"),
    )


def _observed(text: str | None) -> "Observed | None":
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
