"""Which attempts have started, by Prefect's states of their runs."""

from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import anyio
import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.states import Pending, Running

from gpu_core.decisions.requests.runs.run_workload import RunLimits
from gpu_core.decisions.requests.variables.job_variables import GpuRequest
from gpu_core.testing.builders.attempts import make_attempt, make_run
from gpu_core.testing.builders.workloads import make_workload
from gpu_core.worker.attempts.running_poll import RunningPoll
from gpu_core.worker.attempts.state import AttemptState

NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)
ADMITTED_AT = NOW - timedelta(seconds=100)


def starting(priority=1, *, is_preemptible=True, **changes):
    """An attempt whose process is there, and whose flow has not started."""
    run = str(uuid4())
    attempt = make_attempt(run, attempt_id=run, admitted_at=ADMITTED_AT, started_at=ADMITTED_AT)
    return AttemptState(
        attempt=replace(attempt, **changes),
        record=make_run(run),
        workload=make_workload(run, priority=priority, is_preemptible=is_preemptible),
        request=GpuRequest(),
        limits=RunLimits(
            max_duration_s=None, max_failures=3, max_interruptions=None, start_timeout_s=600
        ),
        run_dir=None,
    )


class Server:
    """Prefect's answers, by its own filter."""

    def __init__(self, states):
        self.states = states
        self.questions = 0

    async def read_flow_runs(self, *, flow_run_filter, limit):
        self.questions += 1
        left_out = flow_run_filter.state.type.not_any_
        return [
            FlowRun(id=id_, flow_id=uuid4(), state=self.states[id_])
            for id_ in flow_run_filter.id.any_
            if id_ in self.states and self.states[id_].type not in left_out
        ][:limit]


def polled(attempts, states):
    server = Server(states)

    async def poll():
        async with running_poll(server) as found:
            await found.poll(attempts, NOW)

    anyio.run(poll)
    return server


@asynccontextmanager
async def running_poll(server):
    async with anyio.create_task_group() as tasks:
        yield RunningPoll(server, tasks, lambda: None)


def state(kind, ago_s):
    return kind().model_copy(update={"timestamp": NOW - timedelta(seconds=ago_s)})


@pytest.mark.parametrize(
    ("kind", "ago_s", "want_ago_s"),
    [
        pytest.param(Running, 40, 40, id="it runs"),
        pytest.param(Running, -5, 0, id="by a clock that is ahead"),
        pytest.param(Running, 500, 100, id="by a clock that is behind"),
        pytest.param(Pending, 40, None, id="it is Pending"),
    ],
)
def test_it_begins_when_prefect_says_that_it_runs(kind, ago_s, want_ago_s):
    """Never before its admission, and never in the future."""
    running = starting()
    polled([running], {UUID(running.flow_run_id): state(kind, ago_s)})
    want = None if want_ago_s is None else NOW - timedelta(seconds=want_ago_s)
    assert running.began_at == want
    assert running.allocation().is_starting is (want is None)


def test_the_start_protects_for_as_long_as_the_policy_says():
    """Ten minutes from the admission, here."""
    assert starting().allocation().protected_until == ADMITTED_AT + timedelta(minutes=10)


@pytest.mark.parametrize(
    "running",
    [
        pytest.param(starting(started_at=None), id="nothing was started"),
        pytest.param(starting(drain_requested_at=NOW), id="it was asked to end"),
    ],
)
def test_nothing_is_asked_of(running):
    """There is nothing to learn."""
    assert polled([running], {}).questions == 0


def test_the_server_is_asked_once_a_second_at_most():
    """However often a cycle is woken."""
    running = starting()
    server = Server({})

    async def twice():
        async with running_poll(server) as found:
            await found.poll([running], NOW)
            await found.poll([running], NOW)
            assert server.questions == 1
            found._polls.reset()
            await found.poll([running], NOW)
        assert server.questions == 2

    anyio.run(twice)


@pytest.mark.parametrize(
    ("running", "pending", "is_soon"),
    [
        pytest.param(starting(1), [2], True, id="a more urgent one waits"),
        pytest.param(starting(2), [1, 2], False, id="no run is more urgent"),
        pytest.param(starting(1), [], False, id="no run waits"),
        pytest.param(starting(1, is_preemptible=False), [2], False, id="it is no victim"),
    ],
)
def test_the_next_cycle_comes_soon_where_a_run_waits_for_the_start(running, pending, is_soon):
    """Otherwise the end of a start changes nothing."""
    waiting = [make_workload(f"p{number}", priority=p) for number, p in enumerate(pending)]
    found = RunningPoll(Server({}), None, None).next_poll_at([running], waiting, NOW)
    assert found == (NOW + timedelta(seconds=1) if is_soon else None)


def test_a_damaged_id_keeps_no_other_from_having_begun():
    """No flow run has the id that the ledger says."""
    damaged, sound = starting(flow_run_id="no-uuid"), starting()
    polled([damaged, sound], {UUID(sound.flow_run_id): state(Running, 40)})
    assert (damaged.began_at, sound.began_at) == (None, NOW - timedelta(seconds=40))
