"""Which pass of a sweep decides, where several were asked for or scheduled."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import anyio
import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.states import Completed, Running, Scheduled

from gpu_core.adapters.prefect.sweeps import claim_pass, schedule_pass

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
OLD, NEW = {"budget_usd": 10}, {"budget_usd": 20}


class Server:
    """Prefect's server as far as passes need it: it makes, reads, tags and cancels runs."""

    def __init__(self):
        self.runs = {}

    def ask(self, parameters):
        """A person starts the flow."""
        return self._add(parameters, Scheduled(), [])

    def _add(self, parameters, state, tags):
        number = len(self.runs) + 1
        run = FlowRun(
            id=UUID(int=number), flow_id=UUID(int=99), deployment_id=UUID(int=98),
            created=NOON + timedelta(seconds=number), parameters=parameters, tags=tags, state=state,
        )  # fmt: skip
        self.runs[run.id] = run
        return run

    def set(self, run, state):
        """Put the run into this state."""
        self.runs[run.id] = self.runs[run.id].model_copy(update={"state": state})

    def begin(self, run):
        """Does this run, which begins, decide?"""
        self.set(run, Running())
        return anyio.run(claim_pass, self, "lr", run.id)

    def schedule_after(self, run):
        """It schedules the next pass, and ends."""
        before = set(self.runs)
        anyio.run(schedule_pass, self, "lr", run.id, NOON + timedelta(minutes=10))
        self.set(run, Completed())
        (added,) = set(self.runs) - before
        return self.runs[added]

    async def read_flow_run(self, run_id):
        return self.runs[run_id]

    async def update_flow_run(self, run_id, *, tags):
        self.runs[run_id] = self.runs[run_id].model_copy(update={"tags": tags})

    async def set_flow_run_state(self, run_id, state):
        self.set(self.runs[run_id], state)

    async def create_flow_run_from_deployment(self, _, *, parameters, state, tags, **__):
        return self._add(parameters, state, tags)

    async def read_flow_runs(self, *, flow_run_filter, limit, offset):
        (tag,) = flow_run_filter.tags.all_
        closed = flow_run_filter.state.type.not_any_
        found = [
            run
            for run in self.runs.values()
            if tag in run.tags and (run.state is None or run.state.type not in closed)
        ]
        return found[offset : offset + limit]


def test_what_is_asked_while_a_pass_runs_replaces_the_pass_that_it_schedules():
    server = Server()
    first = server.ask(OLD)
    assert server.begin(first)
    asked = server.ask(NEW)  # waits, as one pass runs at a time
    scheduled = server.schedule_after(first)
    assert server.begin(asked)
    assert server.runs[scheduled.id].state.is_cancelled()
    assert server.schedule_after(asked).parameters == NEW


def test_what_is_asked_replaces_also_a_later_pass_of_an_older_request():
    server = Server()
    first = server.ask(OLD)
    assert server.begin(first)
    asked = server.ask(NEW)
    second = server.schedule_after(first)
    assert server.begin(second)
    third = server.schedule_after(second)
    assert server.begin(asked)
    assert server.runs[third.id].state.is_cancelled()


def test_a_pass_that_runs_again_leaves_the_next_one_as_it_is():
    server = Server()
    first = server.ask(OLD)
    assert server.begin(first)
    scheduled = server.schedule_after(first)
    assert not server.begin(first)
    server.set(first, Completed())
    assert server.begin(scheduled)


def test_an_older_request_that_runs_again_does_not_replace_a_newer_one():
    server = Server()
    older, newer = server.ask(OLD), server.ask(NEW)
    assert server.begin(older)
    server.set(older, Completed())
    assert server.begin(newer)
    server.schedule_after(server.schedule_after(newer))
    assert not server.begin(older)


def test_a_pass_that_runs_is_not_interrupted():
    server = Server()
    assert server.begin(server.ask(OLD))
    with pytest.raises(RuntimeError, match="Another pass of sweep lr is already running"):
        server.begin(server.ask(NEW))
