"""What Prefect hears of containers without Prefect inside, and in which order."""

from pathlib import Path
from uuid import UUID

import anyio
import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.states import Completed, Pending, Running

from gpu_core.decisions.request import GpuRequest, RunLimits
from gpu_core.decisions.workload import Workload
from gpu_core.worker.kubernetes.containers import ContainerRuns
from gpu_core.worker.running import RunningAttempt
from tests.gpu_core.accounting_builders import NOON, make_attempt, make_run

RUN = UUID(int=7)


class Server:
    """Believes whatever it is told, as Prefect does; may stand still after it was asked."""

    def __init__(self, state):
        self.state = state
        self.heard = []
        self.is_asked, self.answers = anyio.Event(), anyio.Event()

    async def read_flow_run(self, flow_run_id):
        state = self.state
        self.is_asked.set()
        await self.answers.wait()
        return FlowRun(id=flow_run_id, flow_id=UUID(int=1), state=state)

    async def set_flow_run_state(self, flow_run_id, state):
        assert flow_run_id == RUN
        self.state = state
        self.heard.append(state.name)


def running():
    return RunningAttempt(
        attempt=make_attempt(str(RUN)),
        record=make_run(str(RUN)),
        workload=Workload(workload_id=str(RUN), name="run", priority=1, submitted_at=NOON),
        request=GpuRequest(),
        limits=RunLimits(max_duration_s=None, max_failures=3, max_interruptions=None),
        run_dir=Path("unused"),
    )


def of_server(server):
    return ContainerRuns(server, output=None, tasks=None, is_over=lambda _: False)


@pytest.mark.parametrize(
    ("state", "want"),
    [
        pytest.param(Pending(), ["Running"], id="it has been started"),
        pytest.param(Running(), [], id="an earlier worker has told it"),
        pytest.param(Completed(), [], id="or its end"),
    ],
)
def test_that_it_runs_is_told_once(state, want):
    async def story():
        server, attempt = Server(state), running()
        server.answers.set()
        containers = of_server(server)
        await containers.tell_running(attempt)
        await containers.tell_running(attempt)
        return server.heard

    assert anyio.run(story) == want


def settle(containers, server):
    async def settling(attempt):
        await containers.tell_running(attempt)
        await server.set_flow_run_state(RUN, Completed())

    return settling


def test_its_end_is_told_after_that_it_runs_however_long_that_takes():
    """The other way round it would run for ever: nobody tells its end once more."""

    async def story():
        server, attempt = Server(Pending()), running()
        containers = of_server(server)
        async with anyio.create_task_group() as group:
            group.start_soon(containers.tell_running, attempt)
            await server.is_asked.wait()
            group.start_soon(settle(containers, server), attempt)
            await anyio.wait_all_tasks_blocked()
            server.answers.set()
        return server.heard

    assert anyio.run(story) == ["Running", "Completed"]


def test_what_ended_before_anybody_looked_has_run():
    """Without that its page has no time at which it began."""

    async def story():
        server = Server(Pending())
        server.answers.set()
        await settle(of_server(server), server)(running())
        return server.heard

    assert anyio.run(story) == ["Running", "Completed"]
