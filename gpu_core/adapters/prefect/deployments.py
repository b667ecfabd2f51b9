"""Deployments by their ids, and as proposals read and change them."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import DeploymentUpdate
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterId
from prefect.client.schemas.responses import DeploymentResponse
from prefect.exceptions import ObjectNotFound

from gpu_core.adapters.prefect.paging import PAGE
from gpu_core.decisions.optimization.proposals.target import Target

_SUSPENDED = "Suspended"
_RESUMING = "Resuming"


async def read_deployments_by_id(
    client: PrefectClient, ids: Sequence[UUID]
) -> dict[UUID, DeploymentResponse]:
    """The deployments among these that exist.

    Args:
        client: Prefect's client.
        ids: Any number of them; each page of ids is one request.
    """
    found: dict[UUID, DeploymentResponse] = {}
    for start in range(0, len(ids), PAGE):
        wanted = DeploymentFilter(id=DeploymentFilterId(any_=list(ids[start : start + PAGE])))
        page = await client.read_deployments(deployment_filter=wanted, limit=PAGE)
        found.update({each.id: each for each in page})
    return found


async def read_target(client: PrefectClient, name: str) -> Target | None:
    """The deployment of this name, `flow/deployment`; None: there is none."""
    try:
        found = await client.read_deployment_by_name(name)
    except ObjectNotFound:
        return None
    return Target(
        deployment_id=str(found.id),
        work_pool=found.work_pool_name,
        work_queue=found.work_queue_name,
        entrypoint=found.entrypoint,
        job_variables=found.job_variables or {},
    )


async def write_job_variables(client: PrefectClient, target: Target) -> None:
    """Give the deployment these job variables, all at once; everything else stays as it is."""
    update = DeploymentUpdate(job_variables=dict(target.job_variables))
    await client.update_deployment(UUID(target.deployment_id), update)


class Resumption(NamedTuple):
    """The moment at which a suspended run was resumed, and the last possible one.

    None: not known.
    """

    resumed_at: datetime | None
    expires_at: datetime | None


async def read_resumption(client: PrefectClient, flow_run_id: UUID) -> Resumption:
    """The resumption of this run from its last suspension."""
    states = await client.read_flow_run_states(flow_run_id)
    ordered = sorted(states, key=lambda state: state.timestamp)
    suspended = [n for n, state in enumerate(ordered) if state.name == _SUSPENDED]
    if not suspended:
        return Resumption(None, None)
    last = suspended[-1]
    expires_at = ordered[last].state_details.pause_timeout
    following = ordered[last + 1] if last + 1 < len(ordered) else None
    is_resumed = following is not None and following.name == _RESUMING
    return Resumption(following.timestamp if following and is_resumed else None, expires_at)
