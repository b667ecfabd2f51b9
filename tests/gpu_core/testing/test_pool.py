"""The pool in memory: what it holds after cycles, ends and interruptions."""

import pytest

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.reasons import Reason
from gpu_core.testing import CRITICAL, LOW, MemoryPool, make_node, make_policy


def test_a_plan_changes_nothing() -> None:
    pool = MemoryPool()
    pool.submit("a", gpus=8)
    before = pool.snapshot
    assert pool.plan() == pool.plan()
    assert pool.snapshot == before
    assert pool.explanation("a") is None


def test_a_finished_workload_makes_room() -> None:
    pool = MemoryPool()
    pool.submit("a", gpus=8)
    pool.submit("b", gpus=8)
    pool.cycle()
    assert list(pool.placements) == ["a"]
    why = pool.explanation("b")
    assert why is not None
    assert why.reason == Reason.WAITING_FOR_GPUS
    pool.finish("a")
    pool.cycle()
    assert list(pool.placements) == ["b"]
    assert pool.pending == ()


def test_the_gpus_of_a_victim_go_to_its_preemptor() -> None:
    """A third workload that fits them, too, and came first, waits."""
    pool = MemoryPool(policy=make_policy(preemption={"min_runtime": "0s"}))
    pool.submit("victim", gpus=8, priority=LOW)
    pool.cycle()
    pool.clock.advance(60)
    pool.save("victim")
    pool.submit("urgent", gpus=8, priority=CRITICAL)
    pool.cycle()
    assert pool.placements == {}
    pool.submit("more urgent", gpus=8, priority=2 * CRITICAL)
    pool.cycle()
    assert list(pool.placements) == ["urgent"]
    assert set(pool.pending) == {"victim", "more urgent"}


def test_a_workload_waits_again_when_its_node_is_gone() -> None:
    pool = MemoryPool([make_node("spot", gpus=4), make_node("other", gpus=2)])
    pool.submit("a", gpus=4)
    pool.cycle()
    assert pool.interrupt("spot") == ("a",)
    pool.cycle()
    why = pool.explanation("a")
    assert why is not None
    assert why.reason == Reason.EXCEEDS_CLUSTER
    pool.add_node(make_node("new", gpus=4))
    pool.cycle()
    assert pool.placements["a"].shares[0].node == "new"
    assert pool.snapshot.allocations[0].attempt == 2


@pytest.mark.parametrize(
    ("act", "want"),
    [
        pytest.param(lambda p: p.submit("train"), "in the pool already .*'train'", id="twice"),
        pytest.param(
            lambda p: p.finish("trian"), "Did you mean 'train'", id="a misspelled workload"
        ),
        pytest.param(lambda p: p.interrupt("n-1"), "Did you mean 'n1'", id="a misspelled node"),
        pytest.param(
            lambda p: p.clock.advance(-1), "Allowed: 0 or more", id="a clock that goes back"
        ),
    ],
)
def test_a_mistake_of_the_test_is_refused(act, want) -> None:
    pool = MemoryPool()
    pool.submit("train")
    pool.cycle()
    before = pool.snapshot
    with pytest.raises(InvalidInput, match=want):
        act(pool)
    assert pool.snapshot == before
