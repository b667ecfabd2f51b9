"""Runs that a process of an attempt that is over has taken out of the line."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from uuid import UUID

import anyio
import pytest
from prefect.client.schemas.objects import State, StateType

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.testing.builders.attempts import make_attempt, make_run
from gpu_core.worker.attempts.zombie_states import ZombieStateGuard, was_taken_out

RUN = UUID("11111111-1111-1111-1111-111111111111")
NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


def states(*types):
    """A run's states, one a second."""
    return [
        State(type=StateType(kind), name=kind.title(), timestamp=NOON + timedelta(seconds=second))
        for second, kind in enumerate(types)
    ]


@pytest.mark.parametrize(
    ("types", "want"),
    [
        pytest.param(
            ["SCHEDULED", "PENDING", "SCHEDULED", "CRASHED"], True, id="crashed while it waited"
        ),
        pytest.param(["SCHEDULED", "RUNNING"], True, id="said to run while it waited"),
        pytest.param(
            ["SCHEDULED", "PENDING", "RUNNING", "CRASHED"], False, id="crashed in its attempt"
        ),
        pytest.param(
            ["SCHEDULED", "PENDING", "CRASHED"], False, id="could not be started by another worker"
        ),
        pytest.param([], False, id="nothing is known"),
    ],
)
def test_a_run_was_taken_out_of_the_line_by_who_was_not_given_it(types, want):
    assert was_taken_out(states(*types)) is want


class Prefect:
    """A server that knows one run."""

    def __init__(self, *types):
        self.states = states(*types)
        self.was_set = []
        self.asked = 0

    async def read_flow_runs(self, **_):
        self.asked += 1
        newest = self.states[-1:]
        return [SimpleNamespace(id=RUN, name="run", state=state) for state in newest]

    async def read_flow_run_states(self, _):
        return self.states

    async def set_flow_run_state(self, flow_run_id, state, force):
        assert force
        self.was_set.append((flow_run_id, state.type, state.message))


def looked_after(prefect, queued=()):
    """The runs that are still watched after one look."""
    guard = ZombieStateGuard(prefect)
    guard.watch(str(RUN), "its node was lost")
    anyio.run(guard.requeue_missing, queued)
    return list(guard._waiting)


@pytest.mark.parametrize("kind", ["CRASHED", "RUNNING"])
def test_a_run_that_was_taken_out_of_the_line_is_put_back_with_its_story(kind):
    prefect = Prefect("SCHEDULED", "PENDING", "SCHEDULED", kind)
    assert looked_after(prefect) == [str(RUN)]
    assert prefect.was_set == [(RUN, StateType.SCHEDULED, "its node was lost")]


@pytest.mark.parametrize(
    ("types", "want_watched"),
    [
        pytest.param(["SCHEDULED"], [str(RUN)], id="it is not due"),
        pytest.param(["SCHEDULED", "PENDING"], [str(RUN)], id="it is being started"),
        pytest.param(["SCHEDULED", "CANCELLED"], [], id="a person cancelled it"),
        pytest.param(["SCHEDULED", "COMPLETED"], [], id="its last process did its work after all"),
        pytest.param(["SCHEDULED", "PENDING", "CRASHED"], [], id="another worker was given it"),
        pytest.param([], [], id="it was deleted"),
    ],
)
def test_a_run_is_left_alone_when(types, want_watched):
    prefect = Prefect(*types)
    assert looked_after(prefect) == want_watched
    assert prefect.was_set == []


def test_nothing_is_asked_while_all_are_in_the_queue():
    prefect = Prefect("SCHEDULED", "CRASHED")
    assert looked_after(prefect, queued=[str(RUN)]) == [str(RUN)]
    assert prefect.asked == 0


@pytest.mark.parametrize(
    ("final_state", "end_reason", "want_watched"),
    [
        pytest.param(None, EndReason.INTERRUPTED, [str(RUN)], id="it waits for its next attempt"),
        pytest.param("Crashed", EndReason.INTERRUPTED, [], id="it is over"),
        pytest.param(None, None, [], id="it runs"),
    ],
)
def test_the_next_worker_watches_what_an_earlier_one_put_back(
    tmp_path, final_state, end_reason, want_watched
):
    now = datetime.now(UTC)
    attempt = make_attempt(
        str(RUN), admitted_at=now - timedelta(minutes=2), end_reason=end_reason,
        released_at=end_reason and now - timedelta(minutes=1),
    )  # fmt: skip
    guard = ZombieStateGuard(Prefect())
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        ledger.import_records([(make_run(str(RUN), final_state=final_state), [attempt])])
        anyio.run(guard.recover, ledger, "gpus", now)
    assert list(guard._waiting) == want_watched
