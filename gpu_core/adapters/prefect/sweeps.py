"""The runs of a sweep, and its passes: read, started, given more dollars, resumed."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from httpx import codes
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    FlowRunFilterTags,
)
from prefect.client.schemas.objects import TERMINAL_STATES, FlowRun, State
from prefect.client.schemas.responses import (
    DeploymentResponse,
    OrchestrationResult,
    SetStateStatus,
)
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.states import AwaitingRetry, Cancelled, Scheduled

from gpu_core.adapters.prefect.paging import read_all
from gpu_core.adapters.prefect.states import restore_overwritten
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.units import MICRO_USD_PER_USD

_BUDGET = "budget_usd"

_ASKED = "gpu-sweep-asked:"
"""Of passes that a pass has scheduled: the tag with the moment of the request."""

_BETWEEN = timedelta(minutes=10)
"""Until a run starts whose pass has died before it has raised the budget."""


async def read_deployment(client: PrefectClient, name: str) -> DeploymentResponse:
    """The deployment of the trials.

    Raises:
        InvalidInput: There is none of this name.
    """
    try:
        return await client.read_deployment_by_name(name)
    except (ObjectNotFound, ValueError):
        raise InvalidInput(
            "deployment", "does not exist", got=name,
            allowed="the name of a deployment, as FLOW/DEPLOYMENT",
            remedy="to list the deployments, run `prefect deployment ls`",
        ) from None  # fmt: skip


async def read_trials(client: PrefectClient, sweep: str) -> dict[str, FlowRun]:
    """All runs that this sweep has started, by their keys."""
    found = await _tagged(client, _trial_tag(sweep))
    return {run.idempotency_key: run for run in found if run.idempotency_key is not None}


def budget_of(run: FlowRun) -> object:
    """The budget of a run, in USD, as it was written; None: it has none of its own."""
    return (run.job_variables or {}).get(_BUDGET)


async def start_trial(
    client: PrefectClient,
    deployment_id: UUID,
    *,
    sweep: str,
    key: str,
    name: str,
    parameters: Mapping[str, Any],
    budget_micro_usd: int,
) -> FlowRun:
    """Start a trial with its budget. One that has started is not started again.

    Raises:
        InvalidInput: The deployment does not take these parameters.
    """
    try:
        return await client.create_flow_run_from_deployment(
            deployment_id,
            parameters=dict(parameters),
            name=name,
            tags=[_trial_tag(sweep)],
            idempotency_key=key,
            job_variables={_BUDGET: budget_micro_usd / MICRO_USD_PER_USD, "sweep": sweep},
        )
    except PrefectHTTPStatusError as error:
        if error.response.status_code not in (codes.CONFLICT, codes.UNPROCESSABLE_ENTITY):
            raise
        raise InvalidInput(
            "trials",
            f"were rejected by the deployment: {error.response.text}",
            got=dict(parameters),
        ) from None


async def resume_trial(
    client: PrefectClient, run: FlowRun, budget_micro_usd: int, message: str
) -> bool:
    """Let a run that its budget has stopped continue from its checkpoint with this budget.

    Prefect's server changes job variables of scheduled runs only (3.8, `api/flow_runs.py`): the run
    is scheduled for later, given its budget, and then scheduled for now.

    Returns:
        False: Prefect refuses, or a person has cancelled it meanwhile, which stands.
    """
    # As AwaitingRetry it keeps its number of attempts; with a message it is no requeued process.
    if run.state is None or not run.state.is_scheduled():
        later = datetime.now(UTC) + _BETWEEN
        if not await _schedule(client, run, AwaitingRetry(message=message, scheduled_time=later)):
            return False
    budget = {_BUDGET: budget_micro_usd / MICRO_USD_PER_USD}
    try:
        await client.update_flow_run(run.id, job_variables={**(run.job_variables or {}), **budget})
    except PrefectHTTPStatusError as error:
        if error.response.status_code != codes.BAD_REQUEST:
            raise
        return False  # it is not scheduled any more
    again = await client.read_flow_run(run.id)
    return await _schedule(client, again, AwaitingRetry(message=message))


async def _schedule(client: PrefectClient, run: FlowRun, state: State[Any]) -> bool:
    """Put the run into this state of waiting. Returns whether it waits now."""
    if run.state is not None and run.state.is_cancelled():
        return False
    answer: OrchestrationResult[Any] = await client.set_flow_run_state(run.id, state)
    if answer.status is not SetStateStatus.ACCEPT or answer.state is None:
        return False
    return not await restore_overwritten(
        client, run, answer.state, lambda each: each.is_cancelled() or each.is_completed()
    )


async def claim_pass(client: PrefectClient, sweep: str, own_id: UUID) -> bool:
    """May this run decide for the sweep? Scheduled passes of older requests are cancelled.

    A pass is as old as the run with which a person asked: one that the pass before has scheduled
    does not replace what was asked while that one ran.

    Returns:
        False: a newer pass is scheduled or runs, and decides instead.

    Raises:
        RuntimeError: An older pass still runs.
    """
    own = await client.read_flow_run(own_id)
    tag = _pass_tag(sweep)
    if tag not in own.tags:
        await client.update_flow_run(own_id, tags=[*own.tags, tag])
    others = [run for run in await _tagged(client, tag, is_open=True) if run.id != own_id]
    if any(_age(run) > _age(own) for run in others):
        return False
    for other in others:
        if other.state is None or not other.state.is_scheduled():
            raise RuntimeError(f"Another pass of sweep {sweep} is already running: {other.name}.")
    for other in others:
        message = f"{own.name} continues the sweep instead."
        await client.set_flow_run_state(other.id, Cancelled(message=message))
    return True


async def schedule_pass(client: PrefectClient, sweep: str, own_id: UUID, at: datetime) -> None:
    """Schedule the next pass with the same parameters. Done twice it is scheduled once."""
    own = await client.read_flow_run(own_id)
    if own.deployment_id is None:
        return
    await client.create_flow_run_from_deployment(
        own.deployment_id,
        parameters=own.parameters,
        state=Scheduled(scheduled_time=at),
        name=f"sweep-{sweep}-{at:%m-%d-%H-%M-%S}",
        tags=[_pass_tag(sweep), f"{_ASKED}{_asked_at(own).isoformat()}"],
        idempotency_key=f"gpu-sweep-pass/{sweep}/after/{own_id}",
        work_queue_name=own.work_queue_name,
        job_variables=own.job_variables,
    )


def _trial_tag(sweep: str) -> str:
    return f"gpu-sweep:{sweep}"


def _pass_tag(sweep: str) -> str:
    return f"gpu-sweep-pass:{sweep}"


def _age(run: FlowRun) -> tuple[datetime, datetime, str]:
    return _asked_at(run), _created(run), str(run.id)


def _asked_at(run: FlowRun) -> datetime:
    """The moment at which a person asked for what this pass does."""
    asked = next((tag for tag in run.tags if tag.startswith(_ASKED)), None)
    return _created(run) if asked is None else datetime.fromisoformat(asked.removeprefix(_ASKED))


def _created(run: FlowRun) -> datetime:
    if run.created is None:
        raise RuntimeError(f"The Prefect server did not return the creation time of {run.name}.")
    return run.created


async def _tagged(client: PrefectClient, tag: str, *, is_open: bool = False) -> list[FlowRun]:
    state = None
    if is_open:
        state = FlowRunFilterState(type=FlowRunFilterStateType(not_any_=list(TERMINAL_STATES)))
    wanted = FlowRunFilter(tags=FlowRunFilterTags(all_=[tag]), state=state)
    return await read_all(
        lambda limit, offset: client.read_flow_runs(
            flow_run_filter=wanted, limit=limit, offset=offset
        )
    )
