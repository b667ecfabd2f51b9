"""Which nodes are kept for a run whose start is unknown, and which are left to those behind it."""

from datetime import timedelta

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.workload import RunTime, RunTimeSource, Shape
from gpu_core.decisions.policy.backfill import Backfill
from gpu_core.decisions.policy.policy import parse_policy
from gpu_core.decisions.scheduling.cycle.planner import plan_cycle
from gpu_core.decisions.scheduling.plan.plan import Admit
from gpu_core.decisions.scheduling.reservations.kept_nodes import likely_nodes
from gpu_core.testing.builders.workloads import (
    HIGH,
    LOW,
    NOW,
    ago,
    make_allocation,
    make_node,
    make_policy,
    make_snapshot,
    make_workload,
)


def pool_of(used_by_node):
    """Nodes of eight GPUs, and on each a run of unknown length that holds so many of them."""
    nodes = [make_node(f"n{i}", 8) for i in range(len(used_by_node))]
    held = [
        make_allocation(
            make_workload(f"r{i}", gpus, priority=HIGH),
            {f"n{i}": " ".join(map(str, range(gpus)))},
            admitted_at=NOW - timedelta(seconds=since_s),
        )
        for i, (gpus, since_s) in enumerate(used_by_node)
        if gpus
    ]
    return nodes, held


def started(nodes, held, pending, mode="auto"):
    policy = make_policy(backfill={"mode": mode}, preemption={"enabled": False})
    plan = plan_cycle(make_snapshot(tuple(nodes), tuple(held), tuple(pending)), policy, NOW)
    return {c.workload_id: c.placement for c in plan.commands if isinstance(c, Admit)}, plan


def singles(count):
    return [make_workload(f"s{i}", 1, priority=LOW, submitted_at=ago(10)) for i in range(count)]


BIG = make_workload("big", 8, priority=LOW, submitted_at=ago(90))


def test_it_is_the_default():
    """A policy that names no mode has it."""
    assert parse_policy({"version": 1}, source="test").backfill.mode is Backfill.AUTO


@pytest.mark.parametrize(
    ("mode", "want"),
    [("auto", 20), ("easy", 0), ("conservative", 0), ("none", 0), ("greedy", 20)],
)
def test_gpus_that_the_first_run_cannot_use_are_used(mode, want):
    """70 of 80 GPUs are free, none of ten nodes is: 20 runs on one GPU each need not wait."""
    nodes, held = pool_of([(1, 600)] * 10)
    found, plan = started(nodes, held, [BIG, *singles(20)], mode)
    assert len(found) == want
    assert plan.explanations[0].reason is Reason.WAITING_FOR_GPUS
    assert plan.explanations[0].expected_start_at is None


@pytest.mark.parametrize(("mode", "want"), [("none", set()), ("greedy", {"last"})])
def test_a_strict_queue_keeps_nodes_for_each_that_waits(mode, want):
    """Not for the first only: the second could use a node that the first could not."""
    nodes = [make_node("n1", 2, gpu_type="t4"), make_node("n2", 2)]
    held = [
        make_allocation(make_workload("r1", 2, priority=HIGH), {"n1": "0 1"}, gpu_type="t4"),
        make_allocation(make_workload("r2", priority=HIGH), {"n2": "0"}),
    ]
    pending = [
        make_workload("first", 1, gpu_types=("t4",), submitted_at=ago(90)),
        make_workload("second", 2, submitted_at=ago(80)),
        make_workload("last", 1, submitted_at=ago(70)),
    ]
    found, _ = started(nodes, held, pending, mode)
    assert found.keys() == want


@pytest.mark.parametrize(
    ("used_by_node", "want"),
    [
        pytest.param([(1, 600), (1, 60), (1, 6_000)], "n1", id="the youngest run ends first"),
        pytest.param([(4, 600), (7, 60), (1, 6_000)], "n1", id="what it holds does not count"),
        pytest.param([(8, 600), (8, 600), (8, 60)], "n2", id="full nodes, too"),
    ],
)
def test_the_node_that_is_likely_free_first_is_kept(used_by_node, want):
    """A run of unknown length likely lasts as long again as it has lasted."""
    nodes, held = pool_of(used_by_node)
    found, _ = started(nodes, held, [BIG, *singles(24)])
    free = sum(8 - gpus for i, (gpus, _) in enumerate(used_by_node) if f"n{i}" != want)
    assert {share.node for placement in found.values() for share in placement.shares} <= {
        f"n{i}" for i in range(len(used_by_node)) if f"n{i}" != want
    }
    assert len(found) == free


def test_what_the_plan_itself_starts_counts_as_in_the_next_cycle():
    """The run that is to last a minute is on n0, so n1 is kept, where nothing has run for long."""
    nodes = [make_node("n0", 3), make_node("n1", 4)]
    pending = [
        make_workload("four", 4, submitted_at=ago(90)),
        make_workload("one", 1, submitted_at=ago(80)),
        make_workload("minute", 1, submitted_at=ago(70), expected_duration_s=60),
        make_workload("three", 3, submitted_at=ago(60)),
        make_workload("last", 1, submitted_at=ago(50)),
    ]
    found, _ = started(nodes, [], pending)
    assert found.keys() == {"four", "one", "minute", "last"}


def test_conservative_backfill_keeps_the_order_of_gpu_types():
    """The node that comes first by name is taken among those of the type that the run prefers."""
    nodes = [make_node("n0", 4, gpu_type="a10g"), make_node("n1", 4, gpu_type="t4")]
    run = make_workload("run", 1, gpu_types=("t4", "a10g"))
    found, _ = started(nodes, [], [run], "conservative")
    assert [share.node for share in found["run"].shares] == ["n1"]


def test_gangs_that_wait_one_behind_the_other_keep_nodes_at_the_same_time():
    """Nodes are released for both, of twelve that are alike three and five; the rest is open."""
    gangs = [
        make_workload(f"gang-{n}", 8, nodes=n, priority=LOW, submitted_at=ago(90 - n))
        for n in (2, 3)
    ]
    nodes, held = pool_of([(1, 600)] * 12)
    found, _ = started(nodes, held, [*gangs, *singles(100)])
    assert len(found) == 4 * 7


@pytest.mark.parametrize(
    ("used_by_node", "want"),
    [
        pytest.param([(1, 600)] * 20, 7, id="nodes that are alike: seven"),
        pytest.param([(1, 60)] * 4 + [(1, 86_400)] * 16, 5, id="others take days: a fourth"),
        pytest.param([(1, 60)] * 4 + [(1, 86_400)] * 8, 4, id="of twelve: as many as it needs"),
        pytest.param([(0, 0)] * 2 + [(1, 3_600)] * 10, 5, id="two are free: any two of three"),
        pytest.param([(0, 0)] * 3 + [(1, 3_600)] * 9, 4, id="three are free: one more"),
        pytest.param([(8, 600)] * 4, 4, id="no more than it needs are there"),
        pytest.param([(7, 600)] * 40, 10, id="a fourth of 40"),
        pytest.param([(7, 600)] * 100, 20, id="five for each, of 100"),
    ],
)
def test_a_gang_of_four_nodes_does_not_keep_a_small_pool(used_by_node, want):
    """In a replay one kept all 20 nodes for 14 hours, and up to 55 of 160 GPUs were idle."""
    nodes, held = pool_of(used_by_node)
    gang = make_workload("gang", 8, nodes=4, priority=LOW, submitted_at=ago(90))
    found, _ = started(nodes, held, [gang, *singles(160)])
    assert len(found) == sum(8 - gpus for gpus, _ in used_by_node[want:])


def starts_after_s(waits_s, wanted):
    """The time after which so many of these nodes are expected to be free, if each is free after t
    with the probability t / (t + its wait)."""
    low_s, high_s = 0.0, 1e9
    for _ in range(100):
        t = (low_s + high_s) / 2
        is_early = sum(t / (t + wait_s) for wait_s in waits_s) < wanted
        low_s, high_s = (t, high_s) if is_early else (low_s, t)
    return high_s


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=40), st.integers(1, 8))
def test_what_is_kept_is_what_a_workload_needs_and_can_get(waits_s, wanted):
    """A node more than it needs is kept if it is more likely free than not at the start, or is
    within five for each and a fourth of the pool."""
    assume(waits_s.count(0) < wanted <= len(waits_s))
    cheap = 0 if wanted == 1 else min(5 * wanted, len(waits_s) // 4)
    wait_of = {f"n{i:02}": float(wait_s) for i, wait_s in enumerate(waits_s)}
    shape = Shape(gpu_count=8, nodes=wanted)
    kept = likely_nodes(shape, [list(wait_of)], lambda node, _: wait_of[node])
    by_wait = sorted(wait_of.values())
    assert sorted(wait_of[node] for node in kept) == by_wait[: len(kept)]
    assert max(wanted, cheap) <= len(kept) <= max(2 * wanted - 1, cheap)
    for count in range(max(wanted, cheap) + 1, len(waits_s) + 1):
        last_s, start_s = by_wait[count - 1], starts_after_s(by_wait[:count], wanted)
        if abs(last_s - start_s) > 1e-6 * start_s:
            assert (count <= len(kept)) == (last_s < start_s)


@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 100_000)), min_size=1, max_size=12),
    st.integers(1, 4),
    st.integers(1, 30),
)
@example([(1, 0)] * 4 + [(0, 0)], 2, 8)
def test_what_starts_behind_it_uses_no_more_than_the_rest(used_by_node, gang_nodes, behind):
    """Of the nodes that a waiting gang could use, as many as it needs are left alone, and first of
    all those that are free for it; but fewer than twice as many are."""
    nodes, held = pool_of(used_by_node)
    gang = make_workload("gang", 8, nodes=gang_nodes, priority=LOW, submitted_at=ago(90))
    found, _ = started(nodes, held, [gang, *singles(behind)])
    if "gang" in found or gang_nodes > len(nodes):
        return
    used = {share.node for placement in found.values() for share in placement.shares}
    assert len(nodes) - len(used) >= gang_nodes
    free = {node.name for node, (gpus, _) in zip(nodes, used_by_node, strict=True) if not gpus}
    assert used.isdisjoint(free)
    open_gpus = sorted(8 - gpus for gpus, _ in used_by_node)[: -(2 * gang_nodes - 1)]
    assert len(found) >= min(behind, sum(open_gpus))


LASTING = RunTime(median_s=4_600.0, upper_s=4_600.0, source=RunTimeSource.STATED)


def test_known_ends_are_reservations_as_with_easy():
    """For a workload on one node nothing but the mode's name differs."""
    nodes, _ = pool_of([(0, 0)] * 2)
    held = [
        make_allocation(
            make_workload(f"r{i}", 4, priority=HIGH, run_time=LASTING), {f"n{i}": "0 1 2 3"}
        )
        for i in range(2)
    ]
    pending = [BIG, *singles(8)]
    auto, easy = (started(nodes, held, pending, mode) for mode in ("auto", "easy"))
    assert auto == easy
    assert len(auto[0]) == 4


def test_a_gang_keeps_more_nodes_than_it_needs_also_where_ends_are_known():
    """They are estimates: the runs of one node may outlast theirs, and those of another not."""
    nodes, _ = pool_of([(0, 0)] * 5)
    held = [
        make_allocation(
            make_workload(f"r{i}", 1, priority=HIGH, run_time=LASTING), {node.name: "0"}
        )
        for i, node in enumerate(nodes)
    ]
    gang = make_workload("gang", 8, nodes=2, priority=LOW, submitted_at=ago(90))
    found, plan = started(nodes, held, [gang, *singles(100)])
    assert len(found) == 2 * 7
    assert plan.explanations[0].expected_start_at is not None
