"""A work pool as Prefect's API shows it: pauses, limits, workers, and the runs that wait."""

from collections.abc import Awaitable, Iterable
from datetime import datetime
from typing import Any

import httpx
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterNextScheduledStartTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
    WorkerFilter,
    WorkerFilterStatus,
    WorkPoolFilter,
    WorkPoolFilterName,
    WorkPoolFilterType,
)
from prefect.client.schemas.objects import FlowRun, StateType, WorkerStatus, WorkPool, WorkQueue
from prefect.client.schemas.sorting import FlowRunSort

from gpu_core.adapters.prefect.paging import read_all, read_pages
from gpu_core.decisions.checks.prefect.pool_status import (
    PoolStatus,
    QueueStatus,
    SeenWorker,
    StrangersRun,
)

# A pool that has been paused for a week may have any number of them; all are counted.
_MOST_WAITING = 1_000
_EVENTS = 50


async def read_pools(client: PrefectClient, types: Iterable[str]) -> list[WorkPool]:
    """The work pools of these types, by name, however many the server has."""
    wanted = WorkPoolFilter(type=WorkPoolFilterType(any_=sorted(types)))
    return await read_all(
        lambda limit, offset: client.read_work_pools(
            limit=limit, offset=offset, work_pool_filter=wanted
        )
    )


async def read_queues(client: PrefectClient, pool: str) -> list[WorkQueue]:
    """The work queues of this pool, however many it has.

    Raises:
        ObjectNotFound: There is no such pool.
    """
    return await read_all(
        lambda limit, offset: client.read_work_queues(
            work_pool_name=pool, limit=limit, offset=offset
        )
    )


async def read_pool_status(client: PrefectClient, name: str) -> PoolStatus:
    """The limits and pauses of this pool, its active runs and its workers.

    Raises:
        ObjectNotFound: There is no such pool.
    """
    pool = await client.read_work_pool(name)
    queues = await read_queues(client, name)
    is_limited = pool.concurrency_limit is not None or any(
        queue.concurrency_limit is not None for queue in queues
    )
    active = await _active(client, name) if is_limited else {}
    return PoolStatus(
        name=name,
        pool_id=str(pool.id),
        worker_type=pool.type,
        is_paused=pool.is_paused,
        concurrency_limit=pool.concurrency_limit,
        queues=tuple(_queue(queue, active) for queue in sorted(queues, key=_priority)),
        workers=await _workers(client, pool),
    )


async def read_waiting(
    client: PrefectClient, pool: str, before: datetime
) -> tuple[tuple[FlowRun, ...], int]:
    """The runs of the pool that wait and are due before this moment, and how many there are.

    The earliest ones first, up to a thousand, whether Prefect hands them out or not.
    """
    wanted = FlowRunFilter(
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.SCHEDULED])),
        next_scheduled_start_time=FlowRunFilterNextScheduledStartTime(before_=before),
    )
    of_pool = WorkPoolFilter(name=WorkPoolFilterName(any_=[pool]))

    def read(limit: int, offset: int) -> Awaitable[list[FlowRun]]:
        return client.read_flow_runs(
            flow_run_filter=wanted,
            work_pool_filter=of_pool,
            sort=FlowRunSort.NEXT_SCHEDULED_START_TIME_ASC,
            limit=limit,
            offset=offset,
        )

    found: list[FlowRun] = []
    async for page in read_pages(read):
        found += page
        if len(found) >= _MOST_WAITING:
            break
    # What waits for a retry in its own process is not handed out to workers.
    waiting = tuple(run for run in found if not _is_in_process(run))
    if len(found) < _MOST_WAITING:
        return waiting, len(found)
    response = await client.request(
        "POST",
        "/flow_runs/count",
        json={
            "flow_runs": wanted.model_dump(mode="json"),
            "work_pools": of_pool.model_dump(mode="json"),
        },
    )
    return waiting, int(response.json())


async def read_strangers_runs(client: PrefectClient, pool: PoolStatus) -> tuple[StrangersRun, ...]:
    """The runs of the pool that online workers of another type started recently."""
    events = await _events(client, pool.pool_id, "prefect.worker.submitted-flow-run")
    found = (_strangers_run(event) for event in events)
    return tuple(run for run in found if run is not None and run.worker in pool.strangers)


def _is_in_process(run: FlowRun) -> bool:
    return run.empirical_policy is not None and run.empirical_policy.retry_type == "in_process"


def _priority(queue: WorkQueue) -> int:
    return queue.priority or 0


def _queue(queue: WorkQueue, active: dict[str, int]) -> QueueStatus:
    return QueueStatus(
        name=queue.name,
        is_paused=queue.is_paused,
        concurrency_limit=queue.concurrency_limit,
        active=active.get(queue.name, 0),
    )


async def _active(client: PrefectClient, pool: str) -> dict[str, int]:
    """How many runs of each queue are Pending or Running?"""
    response = await client.request(
        "POST",
        "/work_pools/{name}/concurrency_status",
        path_params={"name": pool},
        json={"flow_run_limit": 0},
    )
    return {each["queue_name"]: each["active_slots"] for each in response.json()["queues"]}


async def _workers(client: PrefectClient, pool: WorkPool) -> tuple[SeenWorker, ...]:
    online = WorkerFilter(status=WorkerFilterStatus(any_=[WorkerStatus.ONLINE]))
    workers = await client.read_workers_for_work_pool(pool.name, worker_filter=online)
    names = [worker.name for worker in workers]
    if not names:
        return ()
    events = await _events(client, str(pool.id), "prefect.worker.started", "prefect.worker.stopped")
    return _seen(names, events)


def _seen(names: Iterable[str], events: Iterable[dict[str, Any]]) -> tuple[SeenWorker, ...]:
    """The workers with their types; without those that said since that they stop.

    Prefect takes a worker to be online for a minute and a half after its last heartbeat, and does
    not keep its type. The events of workers have it.
    """
    newest: dict[str, dict[str, Any]] = {}
    for event in events:  # the newest first
        newest.setdefault(event["resource"].get("prefect.resource.name", ""), event)
    seen = []
    for name in sorted(names):
        known = newest.get(name, {"event": None, "resource": {}})
        if known["event"] == "prefect.worker.stopped":
            continue
        kind = known["resource"].get("prefect.worker-type")
        seen.append(SeenWorker(name=name, worker_type=kind))
    return tuple(seen)


async def _events(client: PrefectClient, pool_id: str, *names: str) -> list[dict[str, Any]]:
    """The newest events of these names that concern the pool, the newest one first."""
    wanted = {
        "event": {"name": list(names)},
        "any_resource": {"id": [f"prefect.work-pool.{pool_id}"]},
        "order": "DESC",
    }
    try:
        response = await client.request(
            "POST", "/events/filter", json={"limit": _EVENTS, "filter": wanted}
        )
    except httpx.HTTPStatusError:
        return []  # a server that keeps no events
    return list(response.json()["events"])


def _strangers_run(event: dict[str, Any]) -> StrangersRun | None:
    worker = event["resource"]
    runs = (each for each in event["related"] if each.get("prefect.resource.role") == "flow-run")
    run = next(runs, None)
    if run is None:
        return None
    return StrangersRun(
        run_id=run["prefect.resource.id"].removeprefix("prefect.flow-run."),
        run=run.get("prefect.resource.name", ""),
        worker=SeenWorker(
            name=worker.get("prefect.resource.name", ""),
            worker_type=worker.get("prefect.worker-type"),
        ),
    )
