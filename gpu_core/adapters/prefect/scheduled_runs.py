"""The runs that Prefect hands out to the workers of a pool."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.responses import WorkerFlowRunResponse

from gpu_core.adapters.prefect.paging import PAGE
from gpu_core.adapters.prefect.work_pool import read_queues

Parse = Callable[[Any], WorkerFlowRunResponse | None]


async def read_scheduled_runs(
    client: PrefectClient,
    pool: str,
    queues: Iterable[str],
    before: datetime,
    parse: Parse,
    *,
    is_one_page: bool = True,
) -> dict[str, WorkerFlowRunResponse]:
    """The runs of the pool that are due before this moment, by flow run id.

    The server caps one answer and sorts by queue first: a full page may hide the whole of the next
    queue behind it. Then each queue is read by itself, from one due time to the next.

    Args:
        client: Prefect's client.
        pool: The pool's name.
        queues: The names of the queues to read; empty: all.
        before: Aware.
        parse: Reads one run; None: this version of Prefect's client cannot.
        is_one_page: Whether they may all be in one answer; it is not asked for otherwise.
    """
    names = sorted(queues)
    if is_one_page:
        first = await _page(client, pool, names, before)
        if len(first) < PAGE:
            return _by_id(first, parse)
    if not names:
        names = sorted(q.name for q in await read_queues(client, pool))
    found: dict[str, WorkerFlowRunResponse] = {}
    for name in names:
        found |= await _of_queue(client, pool, name, before, parse)
    return found


async def _of_queue(
    client: PrefectClient, pool: str, queue: str, before: datetime, parse: Parse
) -> dict[str, WorkerFlowRunResponse]:
    found: dict[str, WorkerFlowRunResponse] = {}
    after: datetime | None = None
    while True:
        rows = await _page(client, pool, [queue], before, after)
        page = _by_id(rows, parse)
        fresh = {key: response for key, response in page.items() if key not in found}
        found |= fresh
        if len(rows) < PAGE or not fresh:
            return found
        after = list(page.values())[-1].flow_run.next_scheduled_start_time


def _by_id(rows: Iterable[Any], parse: Parse) -> dict[str, WorkerFlowRunResponse]:
    read = (parse(row) for row in rows)
    return {str(each.flow_run.id): each for each in read if each is not None}


async def _page(
    client: PrefectClient,
    pool: str,
    queues: list[str],
    before: datetime,
    after: datetime | None = None,
) -> list[Any]:
    # The client's own method has no `scheduled_after`, without which the 201st run of a queue
    # would never be seen.
    body: dict[str, Any] = {"scheduled_before": before.isoformat()}
    if queues:
        body["work_queue_names"] = queues
    if after is not None:
        body["scheduled_after"] = after.isoformat()
    response = await client.request(
        "POST",
        "/work_pools/{name}/get_scheduled_flow_runs",
        path_params={"name": pool},
        json=body,
    )
    return list(response.json())
