"""Attempts whose record may or may not have reached the ledger."""

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from uuid import uuid4

import anyio
import pytest
import sqlalchemy as sa
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import ObjectNotFound

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.model.attempts import held_gpus
from gpu_core.decisions.model.cluster import NodeShare, Placement
from gpu_core.decisions.model.workload import Shape, Workload
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.policy.policy import Policy, parse_policy
from gpu_core.decisions.requests.job_variables import GpuRequest, RunLimits
from gpu_core.testing.builders.attempts import admit, make_attempt, make_run
from gpu_core.testing.builders.workloads import make_node
from gpu_core.worker.attempts.registry import AttemptRegistry, with_start
from gpu_core.worker.infrastructure import Binding, Started
from gpu_core.worker.pending.demand import Demand

NOW = datetime.now(UTC)


def demand(flow_run):
    return Demand(
        flow_run=flow_run,
        flow_name="train",
        deployment=None,
        queue="medium",
        request=GpuRequest(),
        limits=RunLimits(max_duration_s=None, max_failures=3, max_interruptions=None),
        workload=Workload(
            workload_id=str(flow_run.id), name="run", priority=1, submitted_at=NOW, gpu_count=1
        ),
    )


def test_an_attempt_stays_known_when_the_ledger_fails_while_it_is_written_down(tmp_path):
    """Nobody can tell whether the record arrived, so it has to be withdrawn, not forgotten."""
    run = FlowRun(id=uuid4(), flow_id=uuid4())
    placement = Placement(
        gpu_type="a10g", capacity_type="on-demand", shares=(NodeShare(node="n", gpu_ids=("0",)),)
    )
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        engine = sa.create_engine(f"sqlite:///{tmp_path / 'ledger.db'}")
        with engine.begin() as connection:
            connection.execute(
                sa.text(
                    "CREATE TRIGGER broken BEFORE INSERT ON runs "
                    "BEGIN SELECT RAISE(ABORT, 'disk full'); END"
                )
            )
        engine.dispose()
        attempts = AttemptRegistry("gpus", "host-1", tmp_path, ledger)

        async def opening():
            key = str(run.id)
            await attempts.open({key: placement}, {key: demand(run)}, {}, Policy(version=1), NOW)

        with pytest.raises(sa.exc.IntegrityError):
            anyio.run(opening)

    assert attempts.of_run(str(run.id)) is not None


def test_an_attempt_whose_node_comes_holds_and_costs_from_then_on(tmp_path):
    """While it waits nobody pays for it; a new worker finds it where it is."""
    run = FlowRun(id=uuid4(), flow_id=uuid4())
    key, came_at = str(run.id), NOW + timedelta(minutes=7)

    def on(node):
        share = NodeShare(node=node, gpu_ids=("3",))
        return Placement(gpu_type="t4", capacity_type="spot", shares=(share,))

    policy = parse_policy({"version": 1, "prices": {"t4": {"spot": 0.1}}})
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        attempts = AttemptRegistry("gpus", "host-1", tmp_path, ledger)

        async def waiting_then_there():
            await attempts.open({key: on("new/big/0")}, {key: demand(run)}, {}, policy, NOW)
            running = attempts.of_run(key)
            waits = running.awaited_kinds, running.attempt.price_micro_usd_per_gpu_hour
            binding = Binding(placement=on("n1"), since=came_at)
            await attempts.bind(running, binding, "zone-a", policy)
            return waits, running

        waits, running = anyio.run(waiting_then_there)
        (found,) = ledger.open_attempts("gpus", "host-1")
    assert waits == (("big",), 0)
    assert running.awaited_kinds == ()
    assert found == running.attempt
    assert (found.node, found.gpu_ids, found.zone) == ("n1", ("3",), "zone-a")
    assert found.price_micro_usd_per_gpu_hour == 100_000
    assert found.admitted_at == came_at
    assert running.allocation().placement == on("n1")


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
    """Nobody would cancel it, move it from a node that goes, or end it in time."""
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
        await attempts.open({key: placement}, {key: demand(run)}, {}, Policy(version=1), NOW)
        for _ in range(2):
            submitting = {key} if is_submitting else set()
            await attempts.find_unnoted(Infrastructure(), submitting)

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
    """It had lost its lease in the midst of a cycle; nobody else would end its attempt."""
    now_s = 1_000.0
    monkeypatch.setattr(anyio, "current_time", lambda: now_s)
    runs = {"x": str(uuid4())}

    def at_host(name, run, number):
        return make_attempt(runs[run], number, attempt_id=name, host="host-1")

    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        for run in ours:
            admit(ledger, at_host(f"ours-{run}", run, 1), make_run(runs[run]))
        attempts = AttemptRegistry("gpus", "host-1", tmp_path, ledger)
        asked = (Nothing(), None, Nothing(), Policy(version=1), {})
        anyio.run(attempts.recover, *asked)
        for run in theirs:
            admit(ledger, at_host(run, run, 2), make_run(runs[run]))
        seen = []
        for _ in range(3):
            now_s += 61
            seen.append([r.attempt.attempt_id for r in anyio.run(attempts.adopt, *asked)])
        assert seen == [[], want_adopted, []]
        # What the other worker may still create of it must not run beside ours.
        assert asked[2].killed == (["x", "x"] if ours and theirs else [])
        found = ledger.open_attempts("gpus", "host-1")
        assert sorted(attempt.attempt_id for attempt in found) == want_open


@pytest.mark.parametrize(
    ("shape", "shares_per_gpu", "want_gpus"),
    [
        pytest.param(Shape(), None, "1", id="a whole GPU"),
        pytest.param(Shape(gpu_share_milli=250), None, "1/4", id="a quarter of a shared one"),
        pytest.param(Shape(gpu_share_milli=100), 4, "1/4", id="of replicas a whole one"),
        pytest.param(Shape(gpu_share_milli=100), 3, "1/3", id="of three, not 333 thousandths"),
        pytest.param(Shape(mig_profile="1g.10gb"), None, "1/7", id="an instance"),
        pytest.param(Shape(mig_profile="3g.40gb"), None, "3/7", id="a larger instance"),
        # Of another GPU it would be a quarter of the memory.
        pytest.param(
            Shape(mig_profile="1g.10gb", gpu_share_milli=250),
            None,
            "1/7",
            id="an instance of any GPU",
        ),
    ],
)
def test_a_part_of_a_gpu_costs_that_part(tmp_path, shape, shares_per_gpu, want_gpus):
    run = FlowRun(id=uuid4(), flow_id=uuid4())
    division = {"is_mig": True} if shape.mig_profile else {"is_shareable": True}
    division |= {"shares_per_gpu": shares_per_gpu}
    placement = ClusterInfo([make_node(gpu_type="a100-80gb", **division)]).find(shape)
    policy = parse_policy({"version": 1, "prices": {"a100-80gb": {"on-demand": 0.8}}})
    key = str(run.id)
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        attempts = AttemptRegistry("gpus", "host-1", tmp_path, ledger)
        anyio.run(attempts.open, {key: placement}, {key: demand(run)}, {}, policy, NOW)
        (found,) = ledger.open_attempts("gpus", "host-1")
    assert (found.price_micro_usd_per_gpu_hour, found.price_source) == (800_000, "policy")
    assert found.gpus == found.priced_gpus == held_gpus(found.shares) == Fraction(want_gpus)
    assert found.shares == placement.shares


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
        await attempts.open({key: placement}, {key: demand(run)}, {}, Policy(version=1), NOW)
        running = attempts.of_run(key)
        started = Started(started_at=NOW, identity="a", pid=7)
        running.start(with_start(running.attempt, started), NOW)
        running.has_unwritten_start = True
        if is_withdrawn:
            assert ledger.withdraw_attempt(running.attempt.attempt_id)
        await attempts.find_unnoted(Infrastructure(), set())
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
