"""What goes wrong for one run stops no other: an error at every place that handles one run."""

import errno
import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import anyio
import httpx
import pytest
import sqlalchemy as sa
from prefect.settings import PREFECT_LOGGING_TO_API_ENABLED, temporary_settings

import gpu_core.worker.pending.demand as demand
import gpu_core.worker.pending.history as history
import gpu_core.worker.pending.refusals as refusals
import gpu_core.worker.scheduler as scheduler
import gpu_core.worker.watch.budgets as budget_watch
from gpu_core.adapters.kubernetes.api import KubernetesError
from gpu_core.adapters.ledger import Ledger, LedgerError, UnknownAttempt
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.policy.policy import parse_policy
from gpu_core.decisions.quota.usage_tracker import UsageTracker
from gpu_core.decisions.scheduling.cycle.planner import SnapshotPlanner
from gpu_core.testing.builders.workloads import make_node
from gpu_core.worker.attempts import run_faults
from gpu_core.worker.attempts.registry import AttemptRegistry
from gpu_core.worker.attempts.run_faults import RunFaults
from gpu_core.worker.operations.outage_errors import is_outage
from tests.support.pool import FakePrefect, OnePool, refused_request, run_id

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
GOOD, BAD, LATER = run_id(1), run_id(2), run_id(3)
POLICY = parse_policy({"version": 1, "prices": {"a10g": {"on-demand": 1}}})


@pytest.fixture(scope="module", autouse=True)
def no_server():
    """What is logged for a run's page would start one."""
    with temporary_settings({PREFECT_LOGGING_TO_API_ENABLED: False}):
        yield


ERRORS = [
    pytest.param(RuntimeError("boom"), id="any error"),
    pytest.param(sa.exc.DataError("INSERT", {}, Exception("NUL")), id="a value of the database"),
]


class Fault:
    """Makes functions fail when they handle the bad run."""

    def __init__(self, monkeypatch, error):
        self.monkeypatch = monkeypatch
        self.error = error
        self.is_on = True
        self.raised = 0

    def at(self, owner, name, concerns):
        """`concerns(*arguments, **options)`: is it about the bad run?"""
        original = getattr(owner, name)

        def failing(*arguments, **options):
            if self.is_on and concerns(*arguments, **options):
                self.raised += 1
                raise self.error
            return original(*arguments, **options)

        self.monkeypatch.setattr(owner, name, failing)


def mentions_bad(*arguments, **options):
    """Is the bad run among what a function got, at any depth that matters here?"""
    return any(str(BAD) in repr(value) for value in (*arguments, *options.values()))


WAITING = [
    pytest.param(demand.DemandReader, "read", id="reading its variables"),
    pytest.param(demand, "workload_from_request", id="making a workload of it"),
    pytest.param(demand, "run_limits", id="bounding it"),
    pytest.param(history, "with_gpu_types", id="choosing GPU types"),
    pytest.param(history.NextAttempts, "of", id="choosing its capacity"),
    pytest.param(refusals, "why_unpayable", id="what it can pay"),
    pytest.param(SnapshotPlanner, "plan", id="planning"),
    pytest.param(AttemptRegistry, "_new", id="making its attempt"),
    pytest.param(Ledger, "admit", id="writing it down"),
]

CONCERNS = {
    # It knows only the request.
    "run_limits": lambda request, _policy: request.team == "bad",
    # With the run as it is planned, not with one that is held.
    "plan": lambda _planner, snapshot, *_rest: any(w.team == "bad" for w in snapshot.pending),
}


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(("owner", "name"), WAITING)
def test_a_run_that_fails_while_it_waits_is_held_alone(tmp_path, monkeypatch, owner, name, error):
    """The others start in the same cycle; the page of the run says why it does not."""
    # On a busy machine the first hold, of 5 s, is over before the second cycle.
    monkeypatch.setattr(run_faults, "_FIRST_HOLD_S", 600)
    fault = Fault(monkeypatch, error)
    fault.at(owner, name, CONCERNS.get(name, mentions_bad))
    prefect = FakePrefect()
    for number, team in ((1, "good"), (2, "bad"), (3, "good")):
        prefect.submit(number, {"team": team})

    async def story(ledger):
        pool = OnePool(tmp_path, ledger, prefect, [make_node(gpus=3)])
        async with pool.scheduling():
            first = await pool.cycle()
            second = await pool.cycle()
            page = prefect.state(2)
            fault.is_on = False
            pool.scheduler._faults._faults.clear()
            return first, second, page, await pool.cycle(), pool.holding()

    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        first, second, page, third, holding = anyio.run(story, ledger)
    assert fault.raised
    assert first == {GOOD, LATER}
    assert second == set()
    assert page.startswith("InternalError: Held: the run could not be ")
    assert type(error).__name__ in page
    assert third == {BAD}
    assert holding == {GOOD, BAD, LATER}


RUNNING = [
    pytest.param("stop", "terminator", id="ending it"),
    pytest.param("trouble", "infrastructure", id="asking whether it can go on"),
    pytest.param("lives", "infrastructure", id="asking whether it lives"),
    pytest.param("refresh", "infrastructure", id="asking for its checkpoints"),
    pytest.param("reconcile", "infrastructure", id="looking after it"),
    pytest.param("watch", "infrastructure", id="watching it"),
    pytest.param("run_budget_use", budget_watch, id="its budget"),
    pytest.param("heartbeat", Ledger, id="its heartbeat"),
    pytest.param("plan", SnapshotPlanner, id="planning around it"),
    pytest.param("start", UsageTracker, id="counting it"),
    pytest.param("mark_started", Ledger, id="noting its start"),
]


def is_bad(pool, name):
    """How does a function that knows no run ids show that it is about the bad run?"""

    def concerns(*arguments, **options):
        if name == "plan":
            return any(held.workload.team == "bad" for held in arguments[1].allocations)
        bad = [r for r in pool.scheduler._attempts if r.attempt.flow_run_id == str(BAD)]
        ids = {running.attempt.attempt_id for running in bad} | {str(BAD)}
        text = repr((arguments, options))
        return any(key in text for key in ids)

    return concerns


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(("name", "where"), RUNNING)
def test_a_run_that_fails_while_it_holds_gpus_keeps_them(tmp_path, monkeypatch, name, where, error):
    """A later run starts on what is free, and the other one is ended as its limit says."""
    fault = Fault(monkeypatch, error)
    prefect = FakePrefect()
    bounded = {"max_duration": "1s"}
    prefect.submit(1, bounded)
    prefect.submit(2, {"budget_usd": 100, "team": "bad"} | (bounded if name == "stop" else {}))

    async def story(ledger):
        pool = OnePool(tmp_path, ledger, prefect, [make_node(gpus=3)], POLICY)
        async with pool.scheduling():
            assert await pool.cycle() == {GOOD, BAD}
            owner = {
                "terminator": pool.scheduler.terminator,
                "infrastructure": pool.infrastructure,
            }.get(where, where)
            fault.at(owner, name, is_bad(pool, name))
            monkeypatch.setattr(scheduler, "datetime", _Later)
            prefect.submit(3, {})
            third = await pool.cycle()
            draining = {r.flow_run_id for r in pool.scheduler._attempts if r.is_stop_requested}
            return third, draining, pool.holding()

    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        third, draining, holding = anyio.run(story, ledger)
    assert fault.raised
    assert third == {LATER}
    assert str(GOOD) in draining
    assert BAD in holding


class _Later(datetime):
    """The worker's clock an hour later: every running run has run too long."""

    @classmethod
    def now(cls, tz=None):
        return datetime.now(tz) + timedelta(hours=1)


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        pytest.param(Ledger, "run", id="its record"),
        pytest.param(demand.DemandReader, "read", id="its variables"),
        pytest.param(FakePrefect, "read_flow_run", id="its state"),
    ],
)
def test_a_run_that_cannot_be_taken_over_keeps_its_gpus(tmp_path, monkeypatch, owner, name, error):
    """The next worker begins all the same, and gives its GPUs to no run."""
    fault = Fault(monkeypatch, error)
    prefect = FakePrefect()
    prefect.submit(1, {})
    prefect.submit(2, {})

    async def story(ledger):
        pool = OnePool(tmp_path, ledger, prefect, [make_node(gpus=3)])
        async with pool.scheduling():
            assert await pool.cycle() == {GOOD, BAD}
        fault.at(owner, name, mentions_bad)
        prefect.submit(3, {})
        prefect.submit(4, {})
        next_worker = OnePool(tmp_path, ledger, prefect, [make_node(gpus=3)])
        async with next_worker.scheduling():
            return await next_worker.cycle(), next_worker.holding()

    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        admitted, holding = anyio.run(story, ledger)
    assert fault.raised
    assert admitted == {LATER}
    assert holding == {GOOD, BAD, LATER}


@pytest.mark.parametrize("is_started", [False, True])
def test_an_id_that_is_none_stops_no_cycle(tmp_path, is_started):
    """A row of the ledger is damaged: Prefect knows no such run, and the others are scheduled."""
    prefect = FakePrefect()
    prefect.submit(1, {})
    prefect.submit(2, {})

    async def story(ledger):
        pool = OnePool(tmp_path, ledger, prefect, [make_node("n1", gpus=4)])
        async with pool.scheduling():
            assert await pool.cycle() == {GOOD, BAD}
            running = pool.scheduler._attempts.of_run(str(BAD))
            changes = {"flow_run_id": "no uuid"} | ({} if is_started else {"started_at": None})
            running.attempt = replace(running.attempt, **changes)
            pool.scheduler.terminator.poll_cancellations_soon()
            prefect.submit(3, {})
            return await pool.cycle()

    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        assert anyio.run(story, ledger) == {LATER}


def test_no_run_gets_gpus_of_a_node_on_which_a_damaged_record_holds_some(tmp_path):
    """Nothing says any more which of them it holds."""
    prefect = FakePrefect()
    prefect.submit(1, {})
    nodes = [make_node("n1", gpus=2), make_node("n2", gpus=1)]

    async def story(ledger):
        pool = OnePool(tmp_path, ledger, prefect, nodes[:1])
        async with pool.scheduling():
            assert await pool.cycle() == {GOOD}
        engine = sa.create_engine(f"sqlite:///{tmp_path / 'ledger.db'}")
        with engine.begin() as connection:
            connection.execute(sa.text("UPDATE attempts SET gpu_ids = '[', shares = '['"))
        engine.dispose()
        prefect.submit(2, {})
        prefect.submit(3, {})
        next_worker = OnePool(tmp_path, ledger, prefect, nodes)
        async with next_worker.scheduling():
            return await next_worker.cycle(), next_worker.scheduler._nodes.seen

    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        admitted, seen = anyio.run(story, ledger)
    assert len(admitted) == 1
    assert [node.name for node in seen] == ["n2"]


@pytest.mark.parametrize(
    ("error", "want"),
    [
        pytest.param(httpx.ConnectError("refused"), True, id="no answer"),
        pytest.param(httpx.ReadTimeout("late"), True, id="the request timed out"),
        pytest.param(refused_request(503), True, id="the server is busy"),
        pytest.param(refused_request(401), False, id="an account that may not read one run"),
        pytest.param(refused_request(403), False, id="a proxy that refuses one run's text"),
        pytest.param(refused_request(500), False, id="the server fails on one run"),
        pytest.param(refused_request(422), False, id="a value that the server refuses"),
        pytest.param(sa.exc.OperationalError("x", {}, Exception()), True, id="no database"),
        pytest.param(sa.exc.TimeoutError("no connection left"), True, id="no connection left"),
        pytest.param(sa.exc.InternalError("x", {}, Exception()), True, id="read-only"),
        pytest.param(sa.exc.IntegrityError("x", {}, Exception()), True, id="a damaged database"),
        pytest.param(sa.exc.DataError("x", {}, Exception()), False, id="a value it refuses"),
        pytest.param(LedgerError("closed"), True, id="no ledger"),
        pytest.param(UnknownAttempt("x"), False, id="one attempt is not in it"),
        pytest.param(KubernetesError(0, "", "no answer"), True, id="no cluster"),
        pytest.param(KubernetesError(401, "", "who"), True, id="the worker's token is old"),
        pytest.param(KubernetesError(403, "", "no"), False, id="a right that one object needs"),
        pytest.param(KubernetesError(422, "Invalid", "no"), False, id="an object it refuses"),
        pytest.param(OSError(errno.ENOSPC, "full"), True, id="the disk is full"),
        pytest.param(PermissionError(errno.EACCES, "no"), False, id="the folder of one run"),
        pytest.param(ConnectionResetError(), True, id="cut off"),
        pytest.param(TimeoutError(), True, id="too late"),
        pytest.param(ValueError("x"), False, id="anything else"),
    ],
)
def test_an_outage_is_no_runs_fault(error, want):
    """It ends the cycle, which is repeated, and no run is held for it."""
    assert is_outage(error) is want
    faults = RunFaults()

    def happen():
        with faults.contained("run", "run", "read", NOON):
            raise error

    if want:
        with pytest.raises(type(error)):
            happen()
    else:
        happen()
    assert (faults.hold("run", NOON) is None) is want


def test_a_run_that_fails_again_and_again_is_tried_less_and_less_often(caplog):
    """Nor is its error logged each second."""
    faults, looked_at = RunFaults(), []
    for second in range(7200):
        now = NOON + timedelta(seconds=second)
        if faults.hold("run", now) is None:
            looked_at.append(second)
        with faults.contained("run", "my run", "read", now):
            raise ValueError("x" * 1_000)
        faults.keep({"run"}, now)
    assert looked_at[:5] == [0, 5, 15, 35, 75]
    assert max(b - a for a, b in itertools.pairwise(looked_at)) == 600
    assert len(caplog.records) == len(looked_at)
    hold = faults.hold("run", NOON + timedelta(seconds=7200))
    assert hold.reason is Reason.INTERNAL_ERROR
    assert len(hold.summary) < 400
    faults.keep((), NOON)
    assert faults.hold("run", NOON) is None


def test_an_error_is_shown_without_secrets():
    """It stands on the page of a run, which all users read."""
    faults = RunFaults(lambda text: text.replace("pa55word", "***"))
    with faults.contained("run", "run", "read", NOON):
        raise ValueError("postgresql://worker:pa55word@host/ledger")
    assert "pa55word" not in faults.hold("run", NOON).summary
    assert "worker:***@host" in faults.hold("run", NOON).summary
