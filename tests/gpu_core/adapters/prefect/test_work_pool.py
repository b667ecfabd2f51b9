"""Which workers serve a pool, from what Prefect's API keeps of them."""

import anyio
import httpx

from gpu_core.adapters.prefect.work_pool import _events, _seen, _strangers_run
from gpu_core.decisions.checks.prefect.pool_status import SeenWorker


def event(what: str, worker: str, kind: str = "process", **more: object) -> dict[str, object]:
    resource = {"prefect.resource.name": worker, "prefect.worker-type": kind}
    return {"event": f"prefect.worker.{what}", "resource": resource, "related": [], **more}


def test_a_worker_that_said_that_it_stops_is_gone_before_its_heartbeat_is_old() -> None:
    newest_first = [
        event("started", "again"),
        event("stopped", "gone"),
        event("started", "gone"),
        event("stopped", "again"),
        event("started", "ours", "gpu-process"),
    ]
    assert _seen(["gone", "again", "ours", "unknown"], newest_first) == (
        SeenWorker(name="again", worker_type="process"),
        SeenWorker(name="ours", worker_type="gpu-process"),
        SeenWorker(name="unknown", worker_type=None),
    )


def test_whose_run_it_is_stands_in_the_event() -> None:
    of_run = {
        "prefect.resource.role": "flow-run",
        "prefect.resource.id": "prefect.flow-run.1234",
        "prefect.resource.name": "train",
    }
    pool = {"prefect.resource.role": "work-pool", "prefect.resource.id": "prefect.work-pool.1"}
    found = _strangers_run(event("submitted-flow-run", "w", related=[pool, of_run]))
    assert found is not None
    assert (found.run_id, found.run, found.worker.name) == ("1234", "train", "w")
    assert _strangers_run(event("submitted-flow-run", "w", related=[pool])) is None


def test_a_server_that_keeps_no_events_costs_nothing() -> None:
    class Client:
        async def request(self, *_arguments: object, **_options: object) -> object:
            request = httpx.Request("POST", "http://server/api/events/filter")
            raise httpx.HTTPStatusError("no", request=request, response=httpx.Response(404))

    assert anyio.run(_events, Client(), "1", "prefect.worker.started") == []  # type: ignore[arg-type]
