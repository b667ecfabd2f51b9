"""Which nodes are kept for a run whose start is unknown, and which are left to those behind it."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.workload import RunTime, RunTimeSource
from gpu_core.decisions.policy.backfill import Backfill
from gpu_core.decisions.policy.policy import parse_policy
from gpu_core.decisions.scheduling.cycle.planner import plan_cycle
from gpu_core.decisions.scheduling.plan.plan import Admit
from gpu_core.decisions.scheduling.reservations.kept_nodes import KEPT_PER_NODE
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


@pytest.mark.parametrize(("mode", "want"), [("auto", 20), ("easy", 0), ("none", 0), ("greedy", 20)])
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
    """Nodes are released for both; the rest is open."""
    gangs = [
        make_workload(f"gang-{n}", 8, nodes=n, priority=LOW, submitted_at=ago(90 - n))
        for n in (2, 3)
    ]
    nodes, held = pool_of([(1, 600)] * (5 * KEPT_PER_NODE + 4))
    found, _ = started(nodes, held, [*gangs, *singles(100)])
    assert len(found) == 4 * 7


@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 100_000)), min_size=1, max_size=12),
    st.integers(1, 4),
    st.integers(1, 30),
)
def test_what_starts_behind_it_uses_no_more_than_the_rest(used_by_node, gang_nodes, behind):
    """Of the nodes that a waiting gang could use, those that it needs are left alone."""
    nodes, held = pool_of(used_by_node)
    gang = make_workload("gang", 8, nodes=gang_nodes, priority=LOW, submitted_at=ago(90))
    found, _ = started(nodes, held, [gang, *singles(behind)])
    if "gang" in found or gang_nodes > len(nodes):
        return
    used = {share.node for placement in found.values() for share in placement.shares}
    wanted = gang_nodes * (KEPT_PER_NODE if gang_nodes > 1 else 1)
    assert len(nodes) - len(used) >= min(len(nodes), wanted)


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
    nodes, _ = pool_of([(0, 0)] * (2 * KEPT_PER_NODE + 2))
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
