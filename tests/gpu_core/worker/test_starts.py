"""What a start asks of Prefect, and what it leaves behind when something is wrong."""

import logging
from types import SimpleNamespace
from uuid import UUID

import anyio
import httpx
import pytest
from prefect.client.schemas.objects import FlowRun, WorkPool
from prefect.client.schemas.responses import (
    OrchestrationResult,
    SetStateStatus,
    StateAcceptDetails,
)
from prefect.utilities.services import critical_service_loop
from prefect.workers.base import BaseWorker

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.worker import GpuKubernetesWorker, GpuProcessWorker
from gpu_core.worker.attempts.state import StartFailure, StartFailureKind
from gpu_core.worker.infrastructure import NotStarted, Postponed, Refused, Unavailable
from tests.support.pool import refused_request

RUN = FlowRun(id=UUID(int=1), flow_id=UUID(int=2), name="run")
POOL = WorkPool(
    id=UUID(int=3),
    name="gpus",
    type="gpu-process",
    base_job_template=GpuProcessWorker.get_default_base_job_template(),
    default_queue_id=UUID(int=4),
)


class Server:
    """Writes down what it is asked and given."""

    def __init__(self, waiting):
        self.waiting = waiting
        self.heard = []

    async def read_flow_runs(self, **_options):
        self.heard.append("who waits?")
        return self.waiting

    async def set_flow_run_state(self, _flow_run_id, state, **_options):
        self.heard.append(state.name)
        if state.is_pending():
            assert state.message == "Attempt 2 starts without GPUs because no GPUs were requested."
        accepted = StateAcceptDetails(type="accept_details")
        return OrchestrationResult(state=state, status=SetStateStatus.ACCEPT, details=accepted)

    async def update_flow_run(self, flow_run_id, infrastructure_pid):
        assert flow_run_id == RUN.id
        self.heard.append(infrastructure_pid)


class Scheduler:
    """Has admitted the run; starting it ends like this."""

    def __init__(self, server, outcome, holds):
        self.server = server
        self.outcome = outcome
        self.begin_note = lambda _flow_run_id: holds
        self.failures = []
        self.running = SimpleNamespace(
            attempt=SimpleNamespace(number=2, gpu_type=None),
            deployment=None,
            record=SimpleNamespace(flow_name="train"),
            claim=self.claim_now,
        )

    def claim_now(self, _now):
        self.is_claimed = True

    async def wait_until_published(self):
        assert not self.server.heard, "it could be told why it waits, and be Scheduled again"
        self.server.heard.append("why it waits")

    def claim(self, flow_run_id):
        assert flow_run_id == str(RUN.id)

    def admitted(self, _flow_run_id):
        return self.running

    def end_unstarted(self, flow_run_id, failure):
        assert flow_run_id == str(RUN.id)
        self.failures.append(failure)

    async def launch(self, _flow_run, _configuration):
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


@pytest.mark.parametrize(
    ("waiting", "outcome", "holds", "want"),
    [
        pytest.param([RUN], "host:7", True, ["Pending", "host:7"], id="started"),
        pytest.param([RUN], "host:7", False, ["Pending"], id="it is ending already"),
        pytest.param([], "host:7", True, [], id="another user has completed it"),
        pytest.param([RUN], NotStarted("no room"), True, ["Pending"], id="not this time"),
        pytest.param([RUN], ValueError("no image"), True, ["Pending", "Crashed"], id="never"),
        pytest.param([RUN], httpx.ConnectError("away"), True, ["Pending"], id="the API is away"),
        pytest.param([RUN], Unavailable("no disk"), True, ["Pending"], id="the disk is full"),
    ],
)
def test_what_prefect_hears_of_a_start(monkeypatch, waiting, outcome, holds, want):
    """Not more than this: its server is one process, and every start asks it."""
    # Events and the lines of a run's log would look for a server of their own.
    monkeypatch.setattr(GpuProcessWorker, "get_flow_run_logger", lambda *_: logging.getLogger())
    monkeypatch.setattr(GpuProcessWorker, "_emit_flow_run_submitted_event", lambda *_: None)
    server = Server(waiting)

    async def story():
        worker = GpuProcessWorker(work_pool_name="gpus")
        worker._client, worker._work_pool = server, POOL
        worker._scheduler = Scheduler(server, outcome, holds)
        worker._submitting_flow_run_ids.add(RUN.id)
        async with anyio.create_task_group() as group:
            worker._runs_task_group = group
            await worker._submit_run(RUN)
        return worker._submitting_flow_run_ids, worker._scheduler.failures

    submitting, failures = anyio.run(story)
    assert submitting == set()
    assert server.heard == ["why it waits", "who waits?", *want]
    is_of_platform = isinstance(outcome, httpx.ConnectError | Unavailable)
    assert [failure.kind for failure in failures] == [StartFailureKind.EXCUSED] * is_of_platform


class SlowPublication(Scheduler):
    """Prefect takes longer to hear why runs wait than a cycle takes."""

    def __init__(self, server):
        super().__init__(server, "host:7", holds=True)
        self.plan, self.published, self.under_way, self.most_at_once = 0, [], 0, 0
        self.begun, self.answered = anyio.Event(), anyio.Event()

    @property
    def has_news(self):
        return self.plan > 0

    async def publish(self):
        self.published.append(self.plan)
        self.plan = 0
        self.under_way += 1
        self.most_at_once = max(self.most_at_once, self.under_way)
        self.begun.set()
        await self.answered.wait()
        self.under_way -= 1

    async def refresh_pool(self):
        pass

    async def wait_until_published(self):
        self.server.heard.append("why it waits")


def test_publications_of_many_cycles_leave_the_lanes_to_starts(monkeypatch):
    """With 500 runs on a busy server they had taken all lanes: a start waited for 25 minutes."""
    monkeypatch.setattr(GpuKubernetesWorker, "get_flow_run_logger", lambda *_: logging.getLogger())
    monkeypatch.setattr(GpuKubernetesWorker, "_emit_flow_run_submitted_event", lambda *_: None)
    server = Server([RUN])

    async def story():
        worker = GpuKubernetesWorker(work_pool_name="gpus")
        worker._client, worker._work_pool = server, POOL
        worker._scheduler = scheduler = SlowPublication(server)
        async with anyio.create_task_group() as group:
            worker._runs_task_group = group
            for cycle in range(1, 4 * worker.starts_at_once):
                scheduler.plan = cycle
                group.start_soon(worker._publish, scheduler)
                if cycle == 1:
                    await scheduler.begun.wait()
            await anyio.wait_all_tasks_blocked()
            await worker._submit_run(RUN)
            assert "Pending" in server.heard
            scheduler.answered.set()
        return scheduler, cycle

    scheduler, last = anyio.run(story)
    assert scheduler.most_at_once == 1
    # The newest of those that came meanwhile, and none of the others.
    assert scheduler.published == [1, last]


def test_a_start_that_got_no_answer_is_given_back_by_who_settles_it():
    """The server may have heard it: the run would be pending for ever."""

    class Silent(Server):
        async def set_flow_run_state(self, _flow_run_id, state, **_options):
            self.heard.append(state.name)
            raise httpx.ReadTimeout("no answer")

    server = Silent([RUN])

    async def story():
        worker = GpuProcessWorker(work_pool_name="gpus")
        worker._client, worker._work_pool = server, POOL
        worker._scheduler = Scheduler(server, "host:7", holds=True)
        await worker._submit_run(RUN)
        return worker._scheduler.is_claimed

    assert anyio.run(story)
    assert server.heard == ["why it waits", "who waits?", "Pending"]


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(Refused("the cluster refuses it"), id="by the cluster"),
        pytest.param(InvalidInput("framework", "takes whole GPUs"), id="by what it asks for"),
    ],
)
def test_what_can_never_be_started_is_left_to_who_settles_ends(monkeypatch, caplog, error):
    """Not Crashed at once: what was made of it is ended first. No traceback says it better."""
    monkeypatch.setattr(GpuProcessWorker, "get_flow_run_logger", lambda *_: logging.getLogger())
    worker = GpuProcessWorker(work_pool_name="gpus")
    worker._scheduler = Scheduler(Server([]), error, holds=True)
    assert anyio.run(worker.run, RUN, SimpleNamespace()).identifier == "none"
    assert worker._scheduler.failures == [StartFailure(StartFailureKind.REFUSED, str(error))]
    assert not caplog.records


def test_what_the_cluster_does_not_take_now_gives_its_gpus_back(monkeypatch, caplog):
    monkeypatch.setattr(GpuProcessWorker, "get_flow_run_logger", lambda *_: logging.getLogger())
    worker = GpuProcessWorker(work_pool_name="gpus")
    worker._scheduler = Scheduler(Server([]), Postponed("exceeded quota"), holds=True)
    assert anyio.run(worker.run, RUN, SimpleNamespace()).identifier == "none"
    assert worker._scheduler.failures == [
        StartFailure(StartFailureKind.POSTPONED, "exceeded quota")
    ]
    assert not caplog.records


@pytest.mark.parametrize("cycle_is_under_way", [False, True])
def test_ends_are_noticed_while_a_cycle_waits_for_an_answer(cycle_is_under_way):
    """In an outage a request takes minutes; the GPUs of what ends meanwhile are free at once."""
    asked = []

    async def story():
        worker = GpuProcessWorker(work_pool_name="gpus")
        released = anyio.Event()

        def release_ended(submitting):
            asked.append(submitting)
            released.set()

        worker._scheduler = SimpleNamespace(release_ended=release_ended)
        worker._submitting_flow_run_ids.add(RUN.id)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(worker._release_while_cycle_waits)
            if cycle_is_under_way:
                await worker._pass.acquire()
            worker._wake()
            if cycle_is_under_way:
                await released.wait()
            else:
                await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()

    anyio.run(story)
    assert asked == ([{str(RUN.id)}] if cycle_is_under_way else [])


class Synced(Exception):
    """The loop went on after more failures than Prefect's own loop takes."""


@pytest.mark.parametrize(
    ("has_synced", "error", "want"),
    [
        pytest.param(True, httpx.ConnectError("refused"), Synced, id="an outage"),
        pytest.param(True, refused_request(503), Synced, id="a server without its database"),
        pytest.param(True, refused_request(403), httpx.HTTPStatusError, id="it may not act"),
        pytest.param(False, httpx.ConnectError("refused"), RuntimeError, id="a wrong address"),
    ],
)
def test_no_outage_ends_a_worker_that_has_worked(monkeypatch, has_synced, error, want):
    """Prefect's own loop gives up after four times three failures in a row."""
    syncs = []

    async def fail(_worker):
        syncs.append(1)
        if len(syncs) > 20:
            raise Synced
        raise error

    monkeypatch.setattr(BaseWorker, "sync_with_backend", fail)

    async def story():
        worker = GpuProcessWorker(work_pool_name="gpus")
        worker._has_successfully_synced = has_synced
        await critical_service_loop(worker.sync_with_backend, 0, backoff=4, printer=lambda *_: None)

    with pytest.raises(want):
        anyio.run(story)
