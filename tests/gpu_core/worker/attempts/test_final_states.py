"""Runs that end while they have no attempt: their final state comes from Prefect."""

from datetime import timedelta
from types import SimpleNamespace
from uuid import UUID

import anyio
import pytest
from prefect.client.schemas.objects import State, StateType

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.prefect.paging import PAGE
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.testing.builders.attempts import NOON, at, make_attempt, make_run
from gpu_core.worker.attempts.final_states import FinalStates
from gpu_core.worker.attempts.run_faults import RunFaults

RUN = "11111111-1111-1111-1111-111111111111"


class Prefect:
    """A server that has these runs, by id, each in its state."""

    def __init__(self, states):
        self.states = states
        self.asked = []

    async def read_flow_runs(self, *, flow_run_filter, limit):
        ids = [str(each) for each in flow_run_filter.id.any_]
        assert len(ids) <= limit
        self.asked += ids
        return [
            SimpleNamespace(id=UUID(run), state=self.states[run])
            for run in ids
            if run in self.states
        ]


@pytest.fixture
def ledger(tmp_path):
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as opened:
        yield opened


def ended(flow_run_id=RUN, **fields):
    """A run whose only attempt was preempted after an hour."""
    over = {"released_at": at(1), "end_reason": EndReason.PREEMPTED} | fields
    return make_run(flow_run_id), [make_attempt(flow_run_id, **over)]


def written(ledger, prefect, present=(), *, polls=1, breaks=frozenset()):
    """The final states that are written, by run."""
    found = {}

    async def finish(flow_run_id, final):
        if flow_run_id in breaks:
            raise OSError("its row is damaged")
        found[flow_run_id] = final
        ledger.finish_run(flow_run_id, final)

    async def poll():
        states = FinalStates(prefect, ledger, "gpus", RunFaults(), finish)
        for _ in range(polls):
            await states.write_missing(present)

    anyio.run(poll)
    return found


@pytest.mark.parametrize(
    ("state", "want"),
    [
        pytest.param(State(type=StateType.CANCELLED), "Cancelled", id="cancelled while it waited"),
        pytest.param(State(type=StateType.COMPLETED), "Completed", id="its worker was killed"),
        pytest.param(State(type=StateType.FAILED, name="TimedOut"), "TimedOut", id="by its name"),
        pytest.param(State(type=StateType.SCHEDULED), None, id="it waits"),
        pytest.param(State(type=StateType.PAUSED), None, id="it is suspended"),
        pytest.param(State(type=StateType.CANCELLING), None, id="it is being cancelled"),
        pytest.param(None, None, id="it has no state"),
    ],
)
def test_a_run_without_an_attempt_has_the_final_state_that_prefect_has(ledger, state, want):
    ledger.import_records([ended()])
    assert written(ledger, Prefect({RUN: state})).get(RUN) == want
    assert ledger.run(RUN).final_state == want


def test_a_deleted_run_is_over(ledger):
    ledger.import_records([ended()])
    assert written(ledger, Prefect({})) == {RUN: "Deleted"}


@pytest.mark.parametrize(
    ("record", "present"),
    [
        pytest.param(ended(), {RUN}, id="it waits in the queue"),
        pytest.param(ended(released_at=None, end_reason=None), (), id="it has an open attempt"),
        pytest.param((make_run(RUN, final_state="Failed"), []), (), id="its state is known"),
        pytest.param((make_run(RUN, pool="others"), []), (), id="it is of another pool"),
        pytest.param((make_run("not-an-id"), []), (), id="its id is damaged"),
    ],
)
def test_prefect_is_not_asked_where(ledger, record, present):
    ledger.import_records([record])
    prefect = Prefect({RUN: State(type=StateType.COMPLETED)})
    assert written(ledger, prefect, present) == {}
    assert prefect.asked == []


def test_it_looks_once_a_minute(ledger):
    ledger.import_records([ended()])
    prefect = Prefect({RUN: State(type=StateType.SCHEDULED)})
    written(ledger, prefect, polls=3)
    assert prefect.asked == [RUN]


def test_an_error_of_one_run_stops_no_other(ledger):
    """More of them than one answer of Prefect's server holds."""
    runs = [str(UUID(int=number)) for number in range(PAGE + 1)]
    ledger.import_records([ended(run) for run in runs])
    prefect = Prefect(dict.fromkeys(runs, State(type=StateType.CANCELLED)))
    found = written(ledger, prefect, breaks={runs[0]})
    assert found == dict.fromkeys(runs[1:], "Cancelled")


def test_a_run_with_a_closed_and_an_open_attempt_is_not_over(ledger):
    run, (first,) = ended()
    second = make_attempt(RUN, 2, admitted_at=NOON + timedelta(hours=2))
    ledger.import_records([(run, [first, second])])
    assert ledger.unfinished_runs("gpus") == ()
