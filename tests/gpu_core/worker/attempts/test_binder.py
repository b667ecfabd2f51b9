"""Where an attempt really was is written down before it is settled, however short it was."""

from datetime import UTC, datetime

import anyio
import pytest
from prefect.settings import PREFECT_LOGGING_TO_API_ENABLED, temporary_settings

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.attempts.phase import AttemptPhase
from gpu_core.decisions.model.cluster import ZONE_LABEL, NodeShare, Placement
from gpu_core.testing.builders.workloads import make_node
from gpu_core.worker.infrastructure import Binding
from tests.support.pool import FakePrefect, OnePool, run_id

RUN = run_id(1)
ELSEWHERE = Placement(
    gpu_type="a10g", capacity_type="spot", shares=(NodeShare(node="n2", gpu_ids=("0",)),)
)


@pytest.fixture(scope="module", autouse=True)
def no_server():
    """What is logged for a run's page would start one."""
    with temporary_settings({PREFECT_LOGGING_TO_API_ENABLED: False}):
        yield


@pytest.mark.parametrize(
    "ledger_fails", [False, True], ids=["the ledger works", "the ledger fails"]
)
def test_an_attempt_that_ends_between_two_cycles_is_where_others_placed_it(
    tmp_path, monkeypatch, ledger_fails
):
    """A cycle may wait for Prefect for long. And its GPUs are freed, whatever fails."""
    prefect = FakePrefect()
    prefect.submit(1, {})
    killed_on = []

    async def story(ledger):
        pool = OnePool(tmp_path, ledger, prefect, [make_node("n1"), make_node("n2")])
        came = anyio.Event()

        async def kill(running):
            killed_on.append(running.attempt.node)
            came.set()
            return False

        async with pool.scheduling():
            assert await pool.cycle() == {RUN}
            (running,) = pool.scheduler._attempts
            assert running.attempt.node == "n1"
            binding = Binding(placement=ELSEWHERE, since=datetime.now(UTC))
            monkeypatch.setattr(pool.infrastructure, "binding", lambda *_: binding)
            monkeypatch.setattr(pool.infrastructure, "kill", kill)
            if ledger_fails:
                monkeypatch.setattr(ledger, "move_attempt", lambda *_: 1 / 0)
            pool.infrastructure.ended.add(running.attempt.attempt_id)
            pool.scheduler.settler.find_ended(set())
            await came.wait()

    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        anyio.run(story, ledger)
        (attempt,) = ledger.attempts_of([str(RUN)])[str(RUN)]
    want_node = "n1" if ledger_fails else "n2"
    assert killed_on == [want_node]
    assert (attempt.node, attempt.capacity_type == "spot") == (want_node, not ledger_fails)


def test_an_attempt_whose_node_is_gone_is_where_its_pods_were_seen_last(tmp_path, monkeypatch):
    """What its last pods say counts once nothing of it lives, at the price of that node."""
    prefect = FakePrefect()
    prefect.submit(1, {})
    asked = []

    async def story(ledger):
        pool = OnePool(tmp_path, ledger, prefect, [make_node("n1")])
        settled = anyio.Event()
        gone = make_node("n2", gpu_type="a10g", capacity_type="spot", labels={ZONE_LABEL: "zone-b"})

        def final_binding(running, _others, _policy):
            asked.append(running.phase)
            return Binding(placement=ELSEWHERE, since=running.attempt.admitted_at, node=gone)

        async with pool.scheduling():
            assert await pool.cycle() == {RUN}
            (running,) = pool.scheduler._attempts
            monkeypatch.setattr(pool.infrastructure, "final_binding", final_binding)
            monkeypatch.setattr(pool.infrastructure, "settled", lambda _: settled.set())
            pool.infrastructure.ended.add(running.attempt.attempt_id)
            pool.scheduler.settler.find_ended(set())
            with anyio.fail_after(20):
                await settled.wait()

    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        anyio.run(story, ledger)
        (attempt,) = ledger.attempts_of([str(RUN)])[str(RUN)]
    assert asked == [AttemptPhase.RELEASED]
    assert (attempt.node, attempt.zone, attempt.gpu_type) == ("n2", "zone-b", "a10g")
    assert attempt.released_at is not None


def test_two_that_end_between_two_cycles_have_different_gpus_of_the_node_they_were_on(
    tmp_path, monkeypatch
):
    """Both are settled at once, and the first may be long over when the second is put there; a
    worker that has just started has seen no nodes."""
    prefect = FakePrefect()
    runs = [prefect.submit(number, {}) for number in (1, 2)]
    nodes = [make_node("n1", gpus=2), make_node("n2")]

    async def story(ledger):
        pool = OnePool(tmp_path, ledger, prefect, nodes)
        settled, all_settled = set(), anyio.Event()

        def note_settled(running):
            settled.add(running.attempt.attempt_id)
            if len(settled) == len(runs):
                all_settled.set()

        def binding(running, unsettled, _policy):
            assert pool.scheduler._nodes.seen
            if running.attempt.node == "n2":
                return None
            others = [other for other in unsettled if other is not running]
            taken = {gpu for o in others if o.attempt.node == "n2" for gpu in o.attempt.gpu_ids}
            free = min({"0", "1"} - taken)
            shares = (NodeShare(node="n2", gpu_ids=(free,)),)
            placement = Placement(gpu_type="a10g", capacity_type="spot", shares=shares)
            return Binding(placement=placement, since=datetime.now(UTC))

        async with pool.scheduling():
            assert await pool.cycle() == set(runs)
            monkeypatch.setattr(pool.infrastructure, "binding", binding)
            monkeypatch.setattr(pool.infrastructure, "settled", note_settled)
            pool.scheduler._nodes.seen = ()
            pool.infrastructure.ended |= {a.attempt.attempt_id for a in pool.scheduler._attempts}
            pool.scheduler.settler.find_ended(set())
            with anyio.fail_after(240):
                await all_settled.wait()

    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        anyio.run(story, ledger)
        found = ledger.attempts_of([str(run) for run in runs])
    held = sorted((attempt.node, *attempt.gpu_ids) for (attempt,) in found.values())
    assert held == [("n2", "0"), ("n2", "1")]
