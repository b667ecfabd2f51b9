"""Flow runs by their ids, in pages no larger than Prefect's server answers.

Inside this package a flow run's id is text, as in the ledger; Prefect's client wants a UUID.
"""

from collections.abc import Iterable, Iterator
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterId,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.exceptions import ObjectNotFound

from gpu_core.adapters.prefect.paging import PAGE


async def read_flow_run(client: PrefectClient, flow_run_id: str) -> FlowRun | None:
    """The flow run as Prefect has it; None: it was deleted, or no run can have this id."""
    if not is_flow_run_id(flow_run_id):
        return None
    try:
        return await client.read_flow_run(UUID(flow_run_id))
    except ObjectNotFound:
        return None


async def read_parent(client: PrefectClient, flow_run: FlowRun) -> str | None:
    """The run that started this one, such as with `run_deployment`.

    None: none, or it was deleted.
    """
    if flow_run.parent_task_run_id is None:
        return None
    try:
        task_run = await client.read_task_run(flow_run.parent_task_run_id)
    except ObjectNotFound:
        return None
    return None if task_run.flow_run_id is None else str(task_run.flow_run_id)


async def read_flow_runs_by_id(
    client: PrefectClient,
    ids: Iterable[str],
    *,
    in_states: Iterable[StateType] | None = None,
    not_in_states: Iterable[StateType] | None = None,
) -> dict[str, FlowRun]:
    """The flow runs among these that exist, as Prefect's server has them.

    Args:
        client: Prefect's client.
        ids: Any number of them; each page of ids is one request. No run has one that is no UUID.
        in_states: Only runs whose state is of one of these types; None: of any.
        not_in_states: Only runs whose state is of none of these types; None: of any.

    Returns:
        The runs by id. Deleted ones, and those in other states, are missing.
    """
    found: dict[str, FlowRun] = {}
    for wanted in _pages(ids, _state_filter(in_states, not_in_states)):
        runs = await client.read_flow_runs(flow_run_filter=wanted, limit=PAGE)
        found.update({str(run.id): run for run in runs})
    return found


async def count_flow_runs_by_id(
    client: PrefectClient, ids: Iterable[str], *, in_states: Iterable[StateType]
) -> int:
    """How many of these flow runs are in such a state? The server counts much faster than it reads.

    Args:
        client: Prefect's client.
        ids: Any number of them; each page of ids is one request. No run has one that is no UUID.
        in_states: Only runs whose state is of one of these types.
    """
    count = 0
    for wanted in _pages(ids, _state_filter(in_states, None)):
        body = {"flow_runs": wanted.model_dump(mode="json", exclude_unset=True)}
        count += int((await client.request("POST", "/flow_runs/count", json=body)).json())
    return count


def _pages(ids: Iterable[str], state: FlowRunFilterState | None) -> Iterator[FlowRunFilter]:
    wanted = [UUID(text) for text in ids if is_flow_run_id(text)]
    for start in range(0, len(wanted), PAGE):
        yield FlowRunFilter(id=FlowRunFilterId(any_=wanted[start : start + PAGE]), state=state)


def is_flow_run_id(text: str) -> bool:
    """Can Prefect know a run of this id? Not where its row in the ledger is damaged."""
    try:
        UUID(text)
    except ValueError:
        return False
    return True


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
