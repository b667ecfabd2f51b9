"""`prefect-gpu hold`, `release` and `move-up`: the tags that the scheduler reads, on one run."""

from collections.abc import Sequence
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterName
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import ObjectNotFound

from gpu_core.cli.shared.prefect_api import ask
from gpu_core.decisions.model.errors import InvalidInput, listed
from gpu_core.decisions.requests.runs.run_tags import FIRST_TAG, HOLD_TAG

# What the tags mean for a run that has its GPUs: it keeps them.
_GOES_ON = {
    HOLD_TAG: "This flow run is already running and will only be held if it has to be queued "
    "again. To stop it now, run: prefect flow-run cancel {id}",
    FIRST_TAG: "This flow run is already running and will only be moved to the front if it has "
    "to be queued again.",
}


def set_tag(run: str, tag: str, *, is_set: bool) -> int:
    """Give one run this tag, or take it away; its other tags stay. Safe to repeat.

    Args:
        run: The ID or name of the flow run.
        tag: One of `decisions.tags`.
        is_set: Whether the run is to have it afterwards.

    Raises:
        InvalidInput: No run is meant, several are, or the server cannot be reached.
    """
    found = ask(lambda client: _set(client, run, tag, is_set=is_set))
    print(f"{found.name} {'has' if is_set else 'does not have'} the tag {tag} now ({found.id})")
    if _has_begun(found) and is_set:
        print(_GOES_ON[tag].format(id=found.id))
    return 0


async def _set(client: PrefectClient, run: str, tag: str, *, is_set: bool) -> FlowRun:
    found = await _find(client, run)
    tags = [name for name in found.tags if name != tag] + [tag] * is_set
    if sorted(tags) != sorted(found.tags):
        await client.update_flow_run(found.id, tags=tags)
    return found


async def _find(client: PrefectClient, run: str) -> FlowRun:
    """By id, else the only run of that name that is not over."""
    try:
        found = [await client.read_flow_run(UUID(run))]
    except (ValueError, ObjectNotFound):
        name = FlowRunFilterName(any_=[run])
        found = await client.read_flow_runs(flow_run_filter=FlowRunFilter(name=name))
    return _only([one for one in found if not _is_over(one)], run)


def _only(found: Sequence[FlowRun], run: str) -> FlowRun:
    if not found:
        raise InvalidInput(
            "run",
            "is not a pending or running flow run",
            got=run,
            allowed="the name or ID of a flow run",
            remedy="`prefect-gpu queue` lists the runs of a pool",
        )
    if len(found) > 1:
        raise InvalidInput(
            "run", "means several", got=run, allowed=listed([str(one.id) for one in found])
        )
    return found[0]


def _has_begun(run: FlowRun) -> bool:
    """Has it been given its GPUs?"""
    return run.state is not None and (run.state.is_running() or run.state.is_pending())


def _is_over(run: FlowRun) -> bool:
    return run.state is not None and run.state.is_final()
