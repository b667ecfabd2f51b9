"""What the worker writes to runs that changed since it looked."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from uuid import UUID

import anyio
import pytest
from prefect.client.orchestration import PrefectClient
from prefect.states import Pending

from gpu_core.adapters.prefect.states import restore_rescheduled
from gpu_core.decisions.attempts.settlement import Settlement
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.reasons import Explanation, Reason
from gpu_core.decisions.model.workload import Workload
from gpu_core.decisions.requests.runs.run_workload import RunLimits
from gpu_core.decisions.requests.variables.job_variables import GpuRequest
from gpu_core.worker.attempts.ending import ends_run, publish
from gpu_core.worker.pending.demand import Demand
from gpu_core.worker.pending.publisher import Publisher
from tests.end_to_end.conftest import FLOWS

NOW = datetime.now(UTC)


def explanation(run):
    return Explanation(
        workload_id=run, reason=Reason.WAITING_FOR_GPUS, summary="", resolution="", position=1
    )


def demand(seen):
    run = str(seen.id)
    return Demand(
        flow_run=seen,
        flow_name="do_nothing",
        deployment=None,
        queue=None,
        request=GpuRequest(),
        limits=RunLimits(max_duration_s=None, max_failures=3, max_interruptions=None),
        workload=Workload(workload_id=run, name="run", priority=1, submitted_at=NOW),
    )


def test_a_run_that_was_cancelled_meanwhile_is_not_brought_back(server, pool):
    """Prefect accepts Scheduled for a cancelled run: publishing why it waits would revive it."""
    run = pool.submit(pool.deploy(f"{FLOWS}:do_nothing"), "cancelled")

    async def publish_after_cancelling():
        async with PrefectClient(server.api_url) as client:
            seen = await client.read_flow_run(UUID(run))
            pool.call("POST", f"/flow_runs/{run}/set_state", {"state": {"type": "CANCELLED"}})
            publisher = Publisher(client, pool.name, None, anyio.Lock())
            await publisher.waiting(
                [explanation(run)], {run: demand(seen)}, {}, NOW, limit=1, is_held=lambda _: False
            )

    anyio.run(publish_after_cancelling)

    assert pool.state(run) == "Cancelled"


class Overtaken(PrefectClient):
    """Prefect, where a person cancels each run just before something is written to it."""

    def __init__(self, api_url, cancel):
        super().__init__(api_url)
        self._cancel = cancel

    async def set_flow_run_state(self, flow_run_id, state, *arguments, force=False, **options):
        if not force:
            self._cancel(flow_run_id)
        return await super().set_flow_run_state(
            flow_run_id, state, *arguments, force=force, **options
        )


class Misdated(Overtaken):
    """A server where the cancellation's request came last and got the run's lock first.

    Prefect stamps a state before its request waits for that lock.
    """

    async def read_flow_run_states(self, flow_run_id):
        states = await super().read_flow_run_states(flow_run_id)
        last = max(state.timestamp for state in states)
        for state in states:
            if state.is_cancelled():
                state.timestamp = last + timedelta(milliseconds=1)
        return states


@pytest.mark.parametrize(
    "person",
    [
        pytest.param(Overtaken, id="states in the order of their timestamps"),
        pytest.param(Misdated, id="the cancellation with the later timestamp"),
    ],
)
def test_a_run_that_is_cancelled_while_its_reason_is_written_stays_cancelled(server, pool, person):
    """Between the look at it and the write to it; no worker may start it again."""
    run = pool.submit(pool.deploy(f"{FLOWS}:do_nothing"), "cancelled")

    def cancel(flow_run_id):
        pool.call("POST", f"/flow_runs/{flow_run_id}/set_state", {"state": {"type": "CANCELLED"}})

    async def emit():
        async with person(server.api_url, cancel) as client:
            seen = {run: demand(await client.read_flow_run(UUID(run)))}
            publisher = Publisher(client, pool.name, None, anyio.Lock())
            await publisher.waiting(
                [explanation(run)], seen, {}, NOW, limit=1, is_held=lambda _: False
            )

    anyio.run(emit)

    assert [state["type"] for state in pool.states(run)][-2:] == ["SCHEDULED", "CANCELLED"]
    assert pool.state(run) == "Cancelled"


@pytest.mark.parametrize("end", ["COMPLETED", "CANCELLED"])
def test_a_run_that_ends_while_it_is_put_back_in_line_stays_over(server, pool, end):
    """Its body would run again: its last words were under way as its process was ended."""
    run = pool.submit(pool.deploy(f"{FLOWS}:do_nothing"), "completed")
    set_state = f"/flow_runs/{run}/set_state"
    pool.call("POST", set_state, {"state": {"type": "RUNNING"}, "force": True})
    preempted = Settlement(
        end_reason=EndReason.PREEMPTED,
        is_charged_failure=False,
        next_state="AwaitingRetry",
        message="Preempted: requeued.",
    )

    def finish(_flow_run_id):
        pool.call("POST", set_state, {"state": {"type": end}})

    async def put_back():
        async with Overtaken(server.api_url, finish) as client:
            seen = await client.read_flow_run(UUID(run))
            return await publish(client, SimpleNamespace(is_noted=False), seen, preempted)

    assert not anyio.run(put_back).stands
    assert [state["type"] for state in pool.states(run)][-3:] == [end, "SCHEDULED", end]


RESCHEDULED = {"type": "SCHEDULED", "name": "AwaitingRetry"}


@pytest.mark.parametrize(
    ("states", "want"),
    [
        pytest.param(
            [{"type": "RUNNING"}, {"type": "COMPLETED"}, RESCHEDULED],
            "COMPLETED",
            id="it completed as SIGTERM came",
        ),
        pytest.param(
            [{"type": "RUNNING"}, {"type": "CANCELLED"}, RESCHEDULED],
            "CANCELLED",
            id="a person cancelled it as SIGTERM came",
        ),
        pytest.param([{"type": "RUNNING"}, RESCHEDULED], None, id="SIGTERM ended it"),
        pytest.param(
            [{"type": "RUNNING"}, {"type": "FAILED"}, RESCHEDULED], None, id="it had failed"
        ),
        pytest.param(
            [{"type": "COMPLETED"}, {"type": "RUNNING"}, RESCHEDULED],
            None,
            id="it had completed before, and ran again",
        ),
        pytest.param(
            [{"type": "COMPLETED"}, RESCHEDULED | {"message": "Retry from the UI"}],
            None,
            id="a person wants it to run again",
        ),
    ],
)
def test_what_completed_as_sigterm_came_is_not_executed_again(server, pool, states, want):
    run = pool.submit(pool.deploy(f"{FLOWS}:do_nothing"), "rescheduled")
    for state in states:
        pool.call("POST", f"/flow_runs/{run}/set_state", {"state": state, "force": True})

    async def restore():
        async with PrefectClient(server.api_url) as client:
            seen = await client.read_flow_run(UUID(run))
            return await restore_rescheduled(client, seen, ends_run)

    put_back = anyio.run(restore)
    assert (put_back and put_back.type.value) == want
    assert pool.states(run)[-1]["type"] == (want or states[-1]["type"])


def test_a_waiting_run_of_a_schedule_survives_the_pausing_of_its_deployment(server, pool):
    """Prefect deletes what waits then, unless its state has the name that Prefect knows."""
    deployment = pool.deploy(f"{FLOWS}:do_nothing")
    schedule = {"interval": 3600, "anchor_date": NOW.isoformat()}
    pool.call("POST", f"/deployments/{deployment}/schedules", [{"schedule": schedule}])
    pool.call("POST", f"/deployments/{deployment}/schedule", {"min_runs": 2, "max_runs": 2})
    body = {"deployments": {"id": {"any_": [deployment]}}, "sort": "EXPECTED_START_TIME_ASC"}
    reported, unreported = (run["id"] for run in pool.call("POST", "/flow_runs/filter", body))

    async def emit():
        async with PrefectClient(server.api_url) as client:
            seen = await client.read_flow_run(UUID(reported))
            publisher = Publisher(client, pool.name, None, anyio.Lock())
            await publisher.waiting(
                [explanation(reported)],
                {reported: demand(seen)},
                {},
                NOW,
                limit=1,
                is_held=lambda _: False,
            )

    anyio.run(emit)
    assert pool.message(reported).startswith("WaitingForGpus: ")

    pool.call("POST", f"/deployments/{deployment}/pause_deployment")

    left = [run["id"] for run in pool.call("POST", "/flow_runs/filter", body)]
    assert (reported in left, unreported in left) == (True, False)


class Hesitant(PrefectClient):
    """Stands still between looking at a run and writing to it, until it is asked to go on."""

    def __init__(self, api_url):
        super().__init__(api_url)
        self.has_looked, self.may_write = anyio.Event(), anyio.Event()
        self.happened = []

    async def set_flow_run_state(self, flow_run_id, state, *arguments, **options):
        self.has_looked.set()
        await self.may_write.wait()
        written = await super().set_flow_run_state(flow_run_id, state, *arguments, **options)
        self.happened.append(f"{flow_run_id} told")
        return written


def test_a_run_that_starts_while_its_reason_is_published_has_started(server, pool):
    """Prefect accepts Scheduled for a pending run too: it would be started again."""
    deployment = pool.deploy(f"{FLOWS}:do_nothing")
    first, second = (pool.submit(deployment, name) for name in ("first", "second"))
    held = set()

    async def start(turn, client, happened):
        held.update((first, second))
        async with turn:
            happened.append("both start")
        for run in held:
            await client.set_flow_run_state(UUID(run), Pending())

    async def publish_while_it_starts():
        async with PrefectClient(server.api_url) as client, Hesitant(server.api_url) as hesitant:
            seen = {run: await client.read_flow_run(UUID(run)) for run in (first, second)}
            turn = anyio.Lock()
            publisher = Publisher(hesitant, pool.name, None, turn)

            async def emit():
                await publisher.waiting(
                    [explanation(run) for run in seen],
                    {run: demand(flow_run) for run, flow_run in seen.items()},
                    {},
                    NOW,
                    limit=2,
                    is_held=held.__contains__,
                )

            async with anyio.create_task_group() as group:
                group.start_soon(emit)
                await hesitant.has_looked.wait()
                group.start_soon(start, turn, client, hesitant.happened)
                # As far as the start gets while the first one's reason is still to be written.
                await anyio.wait_all_tasks_blocked()
                hesitant.may_write.set()
        return hesitant.happened

    assert anyio.run(publish_while_it_starts) == [f"{first} told", "both start"]

    assert [pool.state(run) for run in (first, second)] == ["Pending", "Pending"]
