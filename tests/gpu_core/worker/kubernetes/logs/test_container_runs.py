"""What Prefect hears of containers without Prefect inside, and in which order."""

from collections import defaultdict
from pathlib import Path
from uuid import UUID

import anyio
import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.states import Completed, Pending, Running

from gpu_core.decisions.attempts.phase import AttemptPhase
from gpu_core.decisions.model.workload import Workload
from gpu_core.decisions.requests.runs.run_workload import RunLimits
from gpu_core.decisions.requests.variables.job_variables import GpuRequest
from gpu_core.testing.builders.attempts import NOON, make_attempt, make_run
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.kubernetes.logs.container_runs import ContainerRuns
from gpu_core.worker.prefect.starts_first import StartsFirst

RUN = UUID(int=7)


class Server:
    """Accepts each state, as Prefect does; may stand still after it was asked."""

    def __init__(self, state):
        self._states = defaultdict(lambda: state)
        self.heard, self.asked = [], []
        self.is_asked, self.answers = anyio.Event(), anyio.Event()
        self.is_refusing = False

    async def read_flow_runs(self, *, flow_run_filter, limit):
        ids = flow_run_filter.id.any_
        found = [FlowRun(id=each, flow_id=UUID(int=1), state=self._states[each]) for each in ids]
        self.asked.append(len(ids))
        self.is_asked.set()
        await self.answers.wait()
        if self.is_refusing:
            raise RuntimeError("HTTP 503")
        assert len(ids) <= limit
        return found

    async def set_flow_run_state(self, flow_run_id, state):
        self._states[flow_run_id] = state
        self.heard.append(state.name)


def running(run=RUN):
    return AttemptState(
        attempt=make_attempt(str(run), attempt_id=f"{run}/1"),
        record=make_run(str(run)),
        workload=Workload(workload_id=str(run), name="run", priority=1, submitted_at=NOON),
        request=GpuRequest(),
        limits=RunLimits(max_duration_s=None, max_failures=3, max_interruptions=None),
        run_dir=Path("unused"),
    )


def of_server(server, tasks=None):
    return ContainerRuns(
        server, output=None, tasks=tasks, is_over=lambda *_: False, starts=StartsFirst()
    )


@pytest.mark.parametrize(
    ("state", "want"),
    [
        pytest.param(Pending(), ["Running"], id="it has been started"),
        pytest.param(Running(), [], id="an earlier worker has reported it"),
        pytest.param(Completed(), [], id="or its end"),
    ],
)
def test_that_it_runs_is_reported_once(state, want):
    async def story():
        server, attempt = Server(state), running()
        server.answers.set()
        containers = of_server(server)
        await containers.report_running(attempt)
        await containers.report_running(attempt)
        return server.heard

    assert anyio.run(story) == want


def settle(containers, server):
    async def settling(attempt):
        await containers.report_running(attempt)
        await server.set_flow_run_state(RUN, Completed())

    return settling


def test_its_end_is_reported_after_that_it_runs_however_long_that_takes():
    """The other way round it would run for ever: its end is not reported again."""

    async def story():
        server, attempt = Server(Pending()), running()
        containers = of_server(server)
        async with anyio.create_task_group() as group:
            group.start_soon(containers.report_running, attempt)
            await server.is_asked.wait()
            group.start_soon(settle(containers, server), attempt)
            await anyio.wait_all_tasks_blocked()
            server.answers.set()
        return server.heard

    assert anyio.run(story) == ["Running", "Completed"]


def test_what_ended_before_the_first_poll_has_run():
    """Without that its page has no time at which it started."""

    async def story():
        server = Server(Pending())
        server.answers.set()
        await settle(of_server(server), server)(running())
        return server.heard

    assert anyio.run(story) == ["Running", "Completed"]


def test_many_that_begin_together_are_read_together():
    async def story():
        server = Server(Pending())
        async with anyio.create_task_group() as tasks:
            containers = of_server(server, tasks)
            for number in range(9):
                attempt = running(UUID(int=number))
                containers.begin_to_report_running(attempt)
                containers.begin_to_report_running(attempt)  # the next cycle asks again
            await anyio.wait_all_tasks_blocked()
            server.answers.set()
        return server.heard, server.asked

    heard, asked = anyio.run(story)
    assert heard == ["Running"] * 9
    assert sum(asked) == 9
    assert len(asked) < 9


def test_what_could_not_be_reported_is_reported_when_it_is_asked_for_again():
    async def story():
        server, attempt = Server(Pending()), running()
        server.answers.set()
        async with anyio.create_task_group() as tasks:
            containers = of_server(server, tasks)
            for server.is_refusing in (True, False, False):
                containers.begin_to_report_running(attempt)
                await anyio.wait_all_tasks_blocked()
        return server.heard

    assert anyio.run(story) == ["Running"]


def test_a_report_that_waits_is_dropped_when_its_attempt_is_settled():
    """The run may be Pending for its next attempt by then."""

    async def story():
        server, attempt = Server(Pending()), running()
        async with anyio.create_task_group() as tasks:
            containers = of_server(server, tasks)
            others = [running(UUID(int=number)) for number in range(4)]
            for each in (*others, attempt):
                containers.begin_to_report_running(each)
            await server.is_asked.wait()
            attempt.move_to(AttemptPhase.ENDING, NOON)
            server.answers.set()
        return server.heard

    assert anyio.run(story) == ["Running"] * 4


def test_nothing_is_kept_of_an_attempt_that_is_settled_while_its_report_waits():
    """What is kept of one that is settled is kept for as long as the worker runs."""

    async def story():
        server = Server(Pending())
        attempts = [running(UUID(int=number)) for number in range(5)]
        async with anyio.create_task_group() as tasks:
            containers = of_server(server, tasks)
            for each in attempts:
                containers.begin(each.attempt.attempt_id)
                containers.begin_to_report_running(each)
            await server.is_asked.wait()
            for each in attempts:
                for phase in (AttemptPhase.ENDING, AttemptPhase.RELEASED, AttemptPhase.SETTLED):
                    each.move_to(phase, NOON)
                containers.forget(each.attempt.attempt_id)
            server.answers.set()
        return containers

    containers = anyio.run(story)
    kept = ("_begun", "_turns", "_being_reported", "_reported_running", "_followed")
    assert {name: len(getattr(containers, name)) for name in kept} == dict.fromkeys(kept, 0)
