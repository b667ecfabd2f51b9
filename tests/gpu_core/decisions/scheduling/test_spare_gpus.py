"""GPUs that runs below the highest priority leave free: `preemption.spare_gpus`."""

import os
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from gpu_core.decisions.model.cluster import NodeShare, Placement
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.scheduling.cycle.planner import plan_cycle
from gpu_core.decisions.scheduling.plan.plan import Admit, Preempt
from gpu_core.testing.builders.workloads import (
    CRITICAL,
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
from tests.gpu_core.decisions.scheduling.scenarios import applied, scenario
from tests.support.examples import examples

SEEDS = st.integers(0, 2**32 - 1)
many = settings(max_examples=examples(int(os.environ.get("PREFECT_GPU_EXAMPLES", "1000"))))
PRIORITIES = {"high": HIGH, "medium": 1_000, "low": LOW}


def spared_pool(seed, spare_gpus):
    """A pool in which priority decides first, and none is put before its priority."""
    pool = scenario(
        seed,
        priorities=PRIORITIES,
        preemption={"spare_gpus": spare_gpus},
        ordering={"keys": ["priority", "submitted"], "starvation_after": "30d"},
    )
    pending = tuple(replace(w, priority_override=0) for w in pool.snapshot.pending)
    return replace(pool, snapshot=replace(pool.snapshot, pending=pending))


def commands_for(pool, priority):
    """What the plan does for the runs of this priority."""
    of_priority = {w.workload_id for w in pool.snapshot.pending if w.priority == priority}
    return [
        command
        for command in plan_cycle(pool.snapshot, pool.policy, NOW).commands
        if (command.workload_id if isinstance(command, Admit) else command.for_workload_id)
        in of_priority
    ]


@many
@given(SEEDS, st.integers(1, 4))
def test_runs_of_the_highest_priority_start_and_preempt_as_without(seed, spare_gpus):
    """The spare takes nothing from them."""
    assert commands_for(spared_pool(seed, spare_gpus), HIGH) == commands_for(
        spared_pool(seed, 0), HIGH
    )


@many
@given(SEEDS, st.integers(1, 4))
def test_others_leave_the_spare_free(seed, spare_gpus):
    """All that start without filling their nodes, of each flavor that they start on."""
    pool = spared_pool(seed, spare_gpus)
    plan = plan_cycle(pool.snapshot, pool.policy, NOW)
    pending = {w.workload_id: w for w in pool.snapshot.pending}
    nodes = {node.name: node for node in pool.snapshot.nodes}
    cluster = ClusterInfo(pool.snapshot.nodes)
    for allocation in applied(pool, plan, NOW).snapshot.allocations:
        cluster.allocate(allocation.workload.shape, allocation.placement)
    free = Counter()
    for node in nodes.values():
        free[node.flavor] += cluster[node.name].free_gpus
    started = [(pending[c.workload_id], c.placement) for c in plan.commands if isinstance(c, Admit)]

    def has_to_leave_it(workload, placement):
        usable = sum(cluster[share.node].usable_gpus for share in placement.shares)
        all_usable = sum(
            cluster[name].usable_gpus
            for name in cluster.eligible(workload.shape)
            if nodes[name].flavor == placement.flavor
        )
        could_leave_it = all_usable - len(placement.gpu_ids) >= spare_gpus
        fills_its_nodes = len(placement.gpu_ids) == usable > 1
        return workload.priority < HIGH and could_leave_it and not fills_its_nodes

    # Others may take it, before or after those that have to leave it.
    for workload, placement in started:
        if not has_to_leave_it(workload, placement):
            free[placement.flavor] += len(placement.gpu_ids)
    for workload, placement in started:
        if has_to_leave_it(workload, placement) and workload.shape.gpu_count:
            event("one starts beside the spare")
            assert free[placement.flavor] >= spare_gpus


@pytest.mark.parametrize(
    ("gpus", "want"),
    [
        pytest.param([1, 1], ["w0", "w1"], id="what is more than the spare"),
        pytest.param([1, 1, 1], ["w0", "w1"], id="and nothing of it"),
        pytest.param([3, 1], ["w0"], id="one that could not leave them in an empty pool"),
        pytest.param([0, 1, 0], ["w0", "w1", "w2"], id="one without GPUs"),
        pytest.param([4], ["w0"], id="one that fills its node"),
    ],
)
def test_what_runs_of_lower_priority_may_use(gpus, want):
    """Four GPUs are free, and two are spare."""
    pending = tuple(
        make_workload(f"w{i}", count, submitted_at=ago(90 - i)) for i, count in enumerate(gpus)
    )
    policy = make_policy(preemption={"spare_gpus": 2})
    plan = plan_cycle(make_snapshot((make_node(gpus=4),), (), pending), policy, NOW)
    assert [c.workload_id for c in plan.commands] == want
    for explanation in plan.explanations[len(want) : len(want) + 1]:
        assert explanation.reason is Reason.RESERVED_AHEAD
        assert (
            "the policy reserves 2 of the free GPUs for runs with the highest priority"
            in explanation.summary
        )


def test_an_urgent_run_starts_on_the_spare_without_a_preemption():
    """Without it the run of low priority had started, and one would be preempted."""
    held = (make_allocation(make_workload("l", 3, priority=LOW), {"n1": "0 1 2"}),)
    pending = (
        make_workload("urgent", 1, priority=CRITICAL),
        make_workload("low", 1, priority=LOW, submitted_at=ago(900)),
    )
    snapshot = make_snapshot((make_node(gpus=4),), held, pending)
    plan = plan_cycle(snapshot, make_policy(preemption={"spare_gpus": 1}), NOW)
    assert [c.workload_id for c in plan.commands] == ["urgent"]
    assert not any(isinstance(c, Preempt) for c in plan.commands)


def test_a_run_of_one_gpu_leaves_the_spare_also_where_it_would_fill_its_node():
    """A pool of nodes of one GPU each has a spare one, too."""
    nodes = (make_node("n1", 1), make_node("n2", 1))
    pending = tuple(make_workload(f"w{i}", 1, submitted_at=ago(90 - i)) for i in range(2))
    policy = make_policy(preemption={"spare_gpus": 1})
    plan = plan_cycle(make_snapshot(nodes, (), pending), policy, NOW)
    assert [c.workload_id for c in plan.commands] == ["w0"]


def test_none_starts_behind_one_that_waits_for_more_than_the_spare():
    """Six GPUs, two in use and two spare: three would leave one, and a smaller one takes none."""
    held = (make_allocation(make_workload("l", 2, priority=LOW), {"n1": "0 1"}),)
    pending = tuple(
        make_workload(f"w{i}", gpus, submitted_at=ago(90 - i)) for i, gpus in enumerate([3, 1])
    )
    policy = make_policy(preemption={"spare_gpus": 2})
    plan = plan_cycle(make_snapshot((make_node(gpus=6),), held, pending), policy, NOW)
    assert plan.commands == ()
    assert [e.reason for e in plan.explanations] == [Reason.RESERVED_AHEAD] * 2


@pytest.mark.parametrize(
    ("spare_gpus", "backfill", "gpus", "want"),
    [
        pytest.param(1, "auto", [2], {"w0": "t4"}, id="another one"),
        pytest.param(1, "conservative", [2], {"w0": "t4"}, id="also with conservative backfill"),
        pytest.param(1, "auto", [2, 1], {"w0": "t4", "w1": "a100-80gb"}, id="and leaves the best"),
        pytest.param(2, "auto", [2, 1], {}, id="none, and a smaller one behind it uses none"),
    ],
)
def test_where_its_best_type_is_short_of_the_spare_a_run_uses(spare_gpus, backfill, gpus, want):
    """Two GPUs are free of the best type and three of the other one."""
    nodes = (make_node("n1", 4), make_node("n2", 4, gpu_type="t4"))
    held = (
        make_allocation(make_workload("l1", 2, priority=LOW), {"n1": "0 1"}),
        make_allocation(make_workload("l2", 1, priority=LOW), {"n2": "0"}, gpu_type="t4"),
    )
    pending = tuple(
        make_workload(f"w{i}", n, gpu_types=("a100-80gb", "t4"), submitted_at=ago(90 - i))
        for i, n in enumerate(gpus)
    )
    policy = make_policy(preemption={"spare_gpus": spare_gpus}, backfill={"mode": backfill})
    plan = plan_cycle(make_snapshot(nodes, held, pending), policy, NOW)
    assert {c.workload_id: c.placement.gpu_type for c in plan.commands} == want


def test_a_part_of_a_gpu_in_use_takes_nothing_of_the_spare():
    """Two halves on one GPU leave the other one free."""
    half = make_workload("l", 1, gpu_share_milli=500, priority=LOW)
    share = NodeShare(node="n1", gpu_ids=("0",), share_milli=500)
    on_half = Placement(gpu_type="a100-80gb", capacity_type="on-demand", shares=(share,))
    held = (replace(make_allocation(half, {"n1": "0"}), placement=on_half),)
    pending = (make_workload("w", 1, gpu_share_milli=500),)
    policy = make_policy(preemption={"spare_gpus": 1})
    nodes = (make_node(gpus=2, is_shareable=True),)
    plan = plan_cycle(make_snapshot(nodes, held, pending), policy, NOW)
    assert [c.workload_id for c in plan.commands] == ["w"]


@many
@given(SEEDS, st.integers(1, 20))
def test_no_run_waits_for_ever_for_the_spare(seed, spare_gpus):
    """In an empty pool the first in the queue hears of the spare only where it needs none of it."""
    pool = spared_pool(seed, spare_gpus)
    alone = replace(pool.snapshot, allocations=(), pending=pool.snapshot.pending[:1])
    with_spare = plan_cycle(alone, pool.policy, NOW)
    without = plan_cycle(alone, spared_pool(seed, 0).policy, NOW)
    event(f"it starts: {bool(without.commands)}")
    assert with_spare.commands == without.commands
