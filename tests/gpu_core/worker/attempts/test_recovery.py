"""Attempts that another worker opened, or whose start got no answer."""

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from uuid import UUID, uuid4

import anyio
import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import ObjectNotFound

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.model.cluster import NodeShare, Placement
from gpu_core.decisions.policy.policy import Policy
from gpu_core.testing.builders.attempts import admit, make_attempt, make_run
from gpu_core.testing.builders.workloads import with_shape
from gpu_core.worker.attempts.recovery import Recovery
from gpu_core.worker.attempts.registry import AttemptRegistry, with_start
from gpu_core.worker.infrastructure import Started
from tests.support.demands import make_demand

NOW = datetime.now(UTC)


def recovery(attempts, ledger, infrastructure):
    """Of attempts that this worker opened itself: no run is read."""
    return Recovery(attempts, ledger, None, None, infrastructure)


@pytest.mark.parametrize(
    ("is_there", "is_submitting", "want"),
    [
        pytest.param(True, False, True, id="it was heard all the same"),
        pytest.param(False, False, False, id="it was not"),
        pytest.param(True, True, False, id="who starts it notes it"),
    ],
)
def test_what_runs_although_its_creation_got_no_answer_is_noted(
    tmp_path, is_there, is_submitting, want
):
    """No worker would cancel it, move it from a node that goes, or end it in time."""
    run = FlowRun(id=uuid4(), flow_id=uuid4())
    placement = Placement(
        gpu_type="a10g", capacity_type="on-demand", shares=(NodeShare(node="n", gpu_ids=("0",)),)
    )
    watched = []

    class Infrastructure:
        async def find(self, attempts):
            started = Started(started_at=NOW, identity="ml:gpu-a", infrastructure="ml:gpu-a")
            return {a.attempt_id: started for a in attempts} if is_there else {}

        def watch(self, running):
            watched.append(running)

    async def story(ledger):
        attempts = AttemptRegistry("gpus", "host-1", tmp_path, ledger)
        key = str(run.id)
        await attempts.open({key: placement}, {key: make_demand(run)}, {}, Policy(version=1), NOW)
        for _ in range(2):
            submitting = {key} if is_submitting else set()
            await recovery(attempts, ledger, Infrastructure()).find_unnoted(submitting)

    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        anyio.run(story, ledger)
        (attempt,) = ledger.open_attempts("gpus", "host-1")
    assert (attempt.started_at is not None) is want
    assert len(watched) == want


class Nothing:
    """An infrastructure in which nothing runs, and a Prefect without any run."""

    def __init__(self):
        self.killed = []

    async def find(self, _attempts):
        return {}

    async def kill(self, running):
        self.killed.append(running.attempt.attempt_id)
        return len(self.killed) > 1  # the first time something of it has just been created

    def settled(self, _running):
        pass

    async def read_flow_run(self, flow_run_id):
        raise ObjectNotFound(Exception(flow_run_id))


@pytest.mark.parametrize(
    ("ours", "theirs", "want_adopted", "want_open"),
    [
        pytest.param([], ["x"], ["x"], ["x"], id="of a run that we have not"),
        pytest.param(["x"], ["x"], [], ["ours-x"], id="its run goes on in ours: it never was"),
        pytest.param(["x"], [], [], ["ours-x"], id="there is none"),
    ],
)
def test_what_another_worker_opens_late_is_taken_over_a_minute_after_it_is_seen(
    tmp_path, monkeypatch, ours, theirs, want_adopted, want_open
):
    """It had lost its lease during a cycle; no other would end its attempt."""
    now_s = 1_000.0
    monkeypatch.setattr(anyio, "current_time", lambda: now_s)
    runs = {"x": str(uuid4())}

    def at_host(name, run, number):
        return make_attempt(runs[run], number, attempt_id=name, host="host-1")

    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        for run in ours:
            admit(ledger, at_host(f"ours-{run}", run, 1), make_run(runs[run]))
        attempts = AttemptRegistry("gpus", "host-1", tmp_path, ledger)
        nothing = Nothing()
        taking = Recovery(attempts, ledger, nothing, None, nothing)
        anyio.run(taking.recover, Policy(version=1), {})
        for run in theirs:
            admit(ledger, at_host(run, run, 2), make_run(runs[run]))
        seen = []
        for _ in range(3):
            now_s += 61
            seen.append(
                [r.attempt.attempt_id for r in anyio.run(taking.adopt, Policy(version=1), {})]
            )
        assert seen == [[], want_adopted, []]
        # What the other worker may still create of it must not run as well as ours.
        assert nothing.killed == (["x", "x"] if ours and theirs else [])
        found = ledger.open_attempts("gpus", "host-1")
        assert sorted(attempt.attempt_id for attempt in found) == want_open


@pytest.mark.parametrize("is_withdrawn", [False, True])
def test_a_start_that_the_ledger_was_away_for_is_written_down_later(tmp_path, is_withdrawn):
    """What was started goes on, unless another worker withdrew its attempt meanwhile."""
    run = FlowRun(id=uuid4(), flow_id=uuid4())
    placement = Placement(
        gpu_type="a10g", capacity_type="on-demand", shares=(NodeShare(node="n", gpu_ids=("0",)),)
    )
    heard = []

    class Infrastructure:
        async def kill(self, _running):
            heard.append("kill")
            return True

        def settled(self, _running):
            heard.append("settled")

    async def story(ledger):
        attempts = AttemptRegistry("gpus", "host-1", tmp_path, ledger)
        key = str(run.id)
        await attempts.open({key: placement}, {key: make_demand(run)}, {}, Policy(version=1), NOW)
        running = attempts.of_run(key)
        started = Started(started_at=NOW, identity="a", pid=7)
        running.start(with_start(running.attempt, started), NOW)
        running.has_unwritten_start = True
        if is_withdrawn:
            assert ledger.withdraw_attempt(running.attempt.attempt_id)
        await recovery(attempts, ledger, Infrastructure()).find_unnoted(set())
        return running.has_unwritten_start, attempts.of_run(key)

    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        is_unwritten, known = anyio.run(story, ledger)
        found = ledger.open_attempts("gpus", "host-1")
    if is_withdrawn:
        assert (found, known, heard) == ((), None, ["kill", "settled"])
    else:
        assert not is_unwritten
        assert [(a.started_at, a.pid) for a in found] == [(NOW, 7)]
        assert not heard


def test_an_attempt_that_is_taken_over_holds_the_memory_that_it_was_planned_with(
    tmp_path, monkeypatch
):
    """It ran out of memory before, and has more than its run asks for."""
    run_id = str(uuid4())
    demand = make_demand(FlowRun(id=UUID(run_id), flow_id=uuid4()))
    demand = replace(demand, workload=with_shape(demand.workload, memory_mib=64, nodes=2))

    async def read(*_args):
        return demand

    monkeypatch.setattr("gpu_core.worker.attempts.recovery.read_flow_run", read)
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        admit(ledger, make_attempt(run_id, memory_mib=256, job_variables={}), make_run(run_id))
        attempts = AttemptRegistry("gpus", "host-1", tmp_path, ledger)
        nothing = Nothing()
        taking = Recovery(attempts, ledger, nothing, SimpleNamespace(read=read), nothing)
        anyio.run(taking.recover, Policy(version=1), {})
    assert attempts.of_run(run_id).workload.shape.memory_mib == 128
