"""Flow runs by their ids, in pages no larger than Prefect's server answers."""

from collections.abc import Iterable
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterId,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType

PAGE = 200
"""How many objects Prefect's server returns at most in one answer (`PREFECT_API_DEFAULT_LIMIT`)."""


async def read_flow_runs_by_id(
    client: PrefectClient,
    ids: Iterable[UUID],
    *,
    in_states: Iterable[StateType] | None = None,
    not_in_states: Iterable[StateType] | None = None,
) -> dict[UUID, FlowRun]:
    """Which of these flow runs exist, and how does Prefect's server have them?

    Args:
        client: Prefect's client.
        ids: Any number of them; each page of ids is one request.
        in_states: Only runs whose state is of one of these types; None: of any.
        not_in_states: Only runs whose state is of none of these types; None: of any.

    Returns:
        The runs by id. Deleted ones, and those in other states, are missing.
    """
    state, wanted_ids = _state_filter(in_states, not_in_states), list(ids)
    found: dict[UUID, FlowRun] = {}
    for start in range(0, len(wanted_ids), PAGE):
        page = FlowRunFilterId(any_=wanted_ids[start : start + PAGE])
        wanted = FlowRunFilter(id=page, state=state)
        runs = await client.read_flow_runs(flow_run_filter=wanted, limit=PAGE)
        found.update({run.id: run for run in runs})
    return found


def _state_filter(
    in_states: Iterable[StateType] | None, not_in_states: Iterable[StateType] | None
) -> FlowRunFilterState | None:
    if in_states is None and not_in_states is None:
        return None
    types = FlowRunFilterStateType(
        any_=None if in_states is None else list(in_states),
        not_any_=None if not_in_states is None else list(not_in_states),
    )
    return FlowRunFilterState(type=types)
