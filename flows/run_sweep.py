"""Runs a sweep with a budget in dollars. Each pass gives more budget to the best trials and plans
the next pass."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from uuid import UUID

from mlflow import MlflowClient
from mlflow.entities import Run
from prefect import flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun
from prefect.runtime import flow_run
from prefect.utilities.asyncutils import run_coro_as_sync
from pydantic import Field

from gpu_core.adapters.ledger.policy_in_force import (
    PolicyInForce,
    policy_in_file,
    policy_in_force,
)
from gpu_core.adapters.ledger.source import open_to_read
from gpu_core.adapters.mlflow.metric_history import read_metric
from gpu_core.adapters.mlflow.sweep_parent import log_sweep
from gpu_core.adapters.prefect import sweeps
from gpu_core.adapters.prefect.pool_ledger import pool_ledger_url
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.units import format_usd
from gpu_core.decisions.optimization.sweeps.checks import (
    places_for,
    refuse_other_sweep,
    refuse_policy,
    sweep_problem,
)
from gpu_core.decisions.optimization.sweeps.page import is_over, sweep_page, sweep_sentence
from gpu_core.decisions.optimization.sweeps.request import SweepRequest, sweep_request
from gpu_core.decisions.optimization.sweeps.rungs import (
    MetricGoal,
    SweepDecision,
    SweepRun,
    SweepStep,
    budget_after,
    sweep_step,
)
from gpu_core.decisions.optimization.sweeps.trials import (
    SweepTrial,
    budget_micro_usd,
    needs_resumption,
    sweep_run,
)


class Sweep(NamedTuple):
    """A sweep as one pass has found it."""

    deployment_id: UUID
    ledger_url: str
    pool: str | None
    flow_runs: dict[str, FlowRun]
    """The trials that have started, by their keys."""


@flow(name="run-sweep")
def run_sweep(
    name: str,
    deployment: str,
    metric: str,
    budget_usd: float,
    first_rung_usd: float,
    grid: dict[str, list[Any]] | None = None,
    trials: list[dict[str, Any]] | None = None,
    rungs: int = 3,
    reduction: int = 3,
    goal: MetricGoal = MetricGoal.HIGHER,
    waits_for_rung: bool = False,
    keep: Sequence[int] = (),
    parallel: int = 4,
    every_s: Annotated[int, Field(ge=1)] = 600,
    pool: str | None = None,
    policy: Path | None = None,
) -> None:
    """Compares the trials of a sweep at equal dollars, and gives more dollars to the best ones.

    Other trials are parked. Each run of this flow is a single pass, which schedules the next pass
    until there are no more changes. If a pass fails, you can run it again, and trials that have
    already started are not started twice. The most recent request is used. This allows you to
    continue a sweep under the same name with a different budget, more trials, or other trials to
    keep.

    Args:
        name: The name of the sweep. Can contain lower-case letters, digits and hyphens.
        deployment: The deployment of the trials as `flow/deployment`. The flow must save
            checkpoints and log the metric.
        metric: The MLflow metric by which trials are compared.
        budget_usd: The budget of all trials together.
        first_rung_usd: The maximum cost of a trial before the first comparison.
        grid: Parameters of the flow with a list of values. Each combination is a trial.
        trials: The parameters of each trial. Cannot be combined with `grid`.
        rungs: The maximum number of comparisons of a trial. At each comparison, the dollars are
            multiplied by `reduction`.
        reduction: The number of trials of which one is promoted.
        goal: Whether higher or lower values of the metric are better.
        waits_for_rung: Whether to wait until all trials have reached a rung before they are
            compared.
        keep: The numbers of trials, starting at 1, that are always promoted.
        parallel: The maximum number of trials that can spend dollars at the same time.
        every_s: The number of seconds until the next pass. Must be at least 1.
        pool: The work pool from which the ledger is read. Defaults to the work pool of the
            deployment.
        policy: The path to a policy file. Defaults to the policy that is in force on the workers of
            the pool of the trials.

    Raises:
        InvalidInput: A parameter cannot be used, or the trials do not keep checkpoints, do not have
            a price or this metric, or are not stopped at their budgets. No trial was given any
            dollars.
        LedgerError: The ledger cannot be read, or is of another version.
        MlflowException: MLflow cannot be reached. The next pass is scheduled.
        RuntimeError: Another pass of the sweep is running.
    """
    given = policy_in_file(policy)
    request = sweep_request(
        name=name,
        deployment=deployment,
        metric=metric,
        budget_usd=budget_usd,
        first_rung_usd=first_rung_usd,
        grid=grid,
        trials=trials,
        rungs=rungs,
        reduction=reduction,
        goal=goal,
        waits_for_rung=waits_for_rung,
        keep=keep,
        parallel=parallel,
    )
    own_id = UUID(str(flow_run.id))
    if not run_coro_as_sync(claim(name, own_id)):
        get_run_logger().info("Skipping, because a newer pass of sweep %s is active", name)
        return
    try:
        continues = one_pass(request, pool, given)
    except InvalidInput:
        raise  # a person has to correct it
    except Exception:
        run_coro_as_sync(schedule_next(name, own_id, every_s))
        raise
    if continues:
        run_coro_as_sync(schedule_next(name, own_id, every_s))


def one_pass(request: SweepRequest, pool: str | None, given: PolicyInForce | None) -> bool:
    """Read, decide, give dollars and publish. Returns whether the sweep continues.

    Raises:
        InvalidInput: The sweep cannot continue. The page says why, if its trials and their metric
            could be read.
    """
    found: Sweep = run_coro_as_sync(read_sweep(request, pool))
    trials, metric_names, tracked = read_trials(request, found, given)
    now = datetime.now(UTC)
    runs = [sweep_run(request.plan, trial, now) for trial in trials]
    decided = sweep_step(request.plan, runs, places_for(request, trials))
    problem = sweep_problem(request, trials, metric_names, now)
    if problem is None:
        try:
            run_coro_as_sync(give_dollars(request, found, trials, runs, decided))
        except InvalidInput as refused:
            problem = refused
    publish_sweep(request.artifact_key, sweep_page(request, trials, runs, decided, problem))
    sentence = sweep_sentence(request, trials, runs, decided)
    log_sweep(
        MlflowClient(),
        f"{found.deployment_id}/{request.name}",
        tracked,
        sentence,
        name=f"sweep {request.name}",
        is_over=problem is not None or is_over(decided),
    )
    if problem is not None:
        raise problem
    get_run_logger().info("%s", sentence)
    return not is_over(decided)


async def read_sweep(request: SweepRequest, pool: str | None) -> Sweep:
    """The sweep in Prefect.

    Raises:
        InvalidInput: There is no such deployment, it has no ledger, or the sweep is another one.
    """
    async with get_client() as client:
        deployment = await sweeps.read_deployment(client, request.deployment)
        runs = await sweeps.read_trials(client, request.name)
    refuse_other_sweep(
        request,
        {key: run.parameters for key, run in runs.items()},
        is_same_deployment=all(run.deployment_id == deployment.id for run in runs.values()),
    )
    url = await pool_ledger_url(pool or deployment.work_pool_name, str(flow_run.id))
    return Sweep(deployment.id, url, pool or deployment.work_pool_name, runs)


def read_trials(
    request: SweepRequest, found: Sweep, given: PolicyInForce | None
) -> tuple[tuple[SweepTrial, ...], frozenset[str], list[Run]]:
    """The trials with their dollars and their metric, the names of all metrics, the MLflow runs.

    Raises:
        InvalidInput: Under the policy in force no trial stops at its budget.
    """
    # After Prefect: a run that a person has resumed meanwhile has an open attempt.
    with open_to_read(found.ledger_url) as ledger:
        refuse_policy(policy_in_force(given, ledger, found.pool, datetime.now(UTC)).policy)
        attempts = ledger.attempts_of(str(run.id) for run in found.flow_runs.values())
    client, names, trials = MlflowClient(), frozenset[str](), []
    tracked: list[Run] = []
    for number, parameters in enumerate(request.trials, start=1):
        is_kept = number in request.kept
        trial = SweepTrial(number=number, parameters=parameters, is_kept=is_kept)
        run = found.flow_runs.get(request.key(parameters))
        if run is not None:
            run_id = str(run.id)
            history = read_metric(client, run_id, request.metric)
            names |= history.names
            tracked += [history.run] if history.run is not None else []
            trial = replace(
                trial,
                flow_run_id=run_id,
                state_type=None if run.state_type is None else run.state_type.value,
                message=None if run.state is None else run.state.message,
                budget_micro_usd=budget_micro_usd(sweeps.budget_of(run)),
                attempts=attempts[run_id],
                points=history.points,
            )
        trials.append(trial)
    return tuple(trials), names, tracked


async def give_dollars(
    request: SweepRequest,
    found: Sweep,
    trials: Sequence[SweepTrial],
    runs: Sequence[SweepRun],
    decided: SweepDecision,
) -> None:
    """Start and resume what was decided. A budget is raised before its run may spend it."""
    async with get_client() as client:
        for trial, run in zip(trials, runs, strict=True):
            step, key = decided.steps[trial.trial_id], request.key(trial.parameters)
            budget = budget_after(request.plan, run, step)
            if step is SweepStep.START:
                await sweeps.start_trial(
                    client,
                    found.deployment_id,
                    sweep=request.name,
                    key=key,
                    name=f"{request.name}-{trial.number}",
                    parameters=trial.parameters,
                    budget_micro_usd=budget,
                )
            if needs_resumption(trial, step):
                why = f"Resumed by sweep {request.name} with a budget of {format_usd(budget)}"
                await sweeps.resume_trial(client, found.flow_runs[key], budget, why)


async def claim(sweep: str, own_id: UUID) -> bool:
    """Does this pass decide for the sweep?"""
    async with get_client() as client:
        return await sweeps.claim_pass(client, sweep, own_id)


async def schedule_next(sweep: str, own_id: UUID, every_s: int) -> None:
    """Schedule the next pass."""
    async with get_client() as client:
        at = datetime.now(UTC) + timedelta(seconds=every_s)
        await sweeps.schedule_pass(client, sweep, own_id, at)


@task(cache_policy=NO_CACHE)
def publish_sweep(key: str, page: str) -> None:
    """Publish the page where people look."""
    create_markdown_artifact(page, key=key, description="Results of the sweep")
