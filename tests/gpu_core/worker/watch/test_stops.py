"""What stops the attempts of a pool, in which order, and for which reason."""

from types import SimpleNamespace

import anyio
import pytest

from gpu_core.decisions.model.attempts import EndReason
from gpu_core.testing.builders.attempts import NOON
from gpu_core.testing.builders.workloads import make_policy
from gpu_core.worker.attempts.run_faults import RunFaults
from gpu_core.worker.watch import stops as module
from gpu_core.worker.watch.stops import RunningStops


class Attempt:
    """An attempt of a run with this name."""

    def __init__(self, name):
        self.flow_run_id = name
        self.record = SimpleNamespace(name=name, flow_run_id=name)
        self.attempt = SimpleNamespace(flow_run_id=name)


class Terminator:
    """Notes what it is asked to stop; it cannot stop some."""

    def __init__(self, stubborn=()):
        self.stubborn = stubborn
        self.heard = []

    async def stop_cancelled(self, _now):
        self.heard.append("cancelled")

    async def stop_overdue(self, _policy, _now):
        self.heard.append("overdue")

    async def stop_troubled(self, _policy, _now):
        self.heard.append("troubled")

    async def stop(self, running, reason, why, _policy, _now):
        if running.flow_run_id in self.stubborn:
            raise ValueError("a value that the ledger refuses")
        self.heard.append((running.flow_run_id, reason, why))


class Watches:
    """Each watch finds one attempt, of the run of its name."""

    async def poll(self, _attempts, _now):
        """No run has started."""

    async def overspent(self, _policy, _now):
        return [(Attempt("overspent"), SimpleNamespace(reason="It has spent 5 USD"))]

    def held(self, _policy, _usage, _now):
        return [(Attempt("held"), "The team has spent 5 USD.")]

    def usage(self, _now):
        return None

    async def idle(self, _policy, _now):
        return [(Attempt("idle"), "No kernel ran for 1 h.")]

    async def hanging(self, _policy, _now):
        return [(Attempt("hung"), "No step for 1 h.")]


class Migrations:
    """One attempt should move."""

    def __init__(self, _ledger, _attempts):
        pass

    async def due(self, _view, _now):
        return [(Attempt("moves"), SimpleNamespace(reason="spot is back"))]


@pytest.fixture
def stops(monkeypatch):
    """Stops of a pool in which every watch finds an attempt."""
    monkeypatch.setattr(module, "MigrationWatch", Migrations)

    def of(terminator):
        watches = Watches()
        return RunningStops(
            ledger=SimpleNamespace(),
            attempts=SimpleNamespace(faults=RunFaults()),
            terminator=terminator,
            running_poll=watches,
            budgets=watches,
            history=watches,
            idle=watches,
            hangs=watches,
        )

    return of


def test_what_stands_on_a_gpu_that_failed_is_stopped_before_what_hangs(stops):
    """The one is charged to no run, the other is the run's failure."""
    terminator = Terminator()
    anyio.run(stops(terminator).stop_due, make_policy(), NOON)
    assert [each if isinstance(each, str) else each[1] for each in terminator.heard] == [
        "cancelled",
        "overdue",
        EndReason.BUDGET_SPENT,
        EndReason.BUDGET_HELD,
        "troubled",
        EndReason.IDLE,
        EndReason.HUNG,
    ]


def test_an_attempt_that_cannot_be_stopped_keeps_no_other_from_its_end(stops):
    terminator = Terminator(stubborn=("overspent", "idle"))
    anyio.run(stops(terminator).stop_due, make_policy(), NOON)
    stopped = [each[0] for each in terminator.heard if not isinstance(each, str)]
    assert stopped == ["held", "hung"]


def test_a_run_that_moves_to_other_capacity_is_preempted_with_the_reason(stops):
    terminator = Terminator()
    anyio.run(stops(terminator).migrate, (), (), make_policy(), NOON)
    why = "Moving to other capacity: spot is back."
    assert terminator.heard == [("moves", EndReason.PREEMPTED, why)]
