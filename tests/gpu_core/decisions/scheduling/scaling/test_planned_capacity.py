"""`scale.max_gpus`: never more GPUs than this, with the nodes that a plan lets come."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.scheduling.cycle.planner import Planner, plan_cycle
from gpu_core.decisions.scheduling.plan.plan import Admit, Preempt
from gpu_core.testing.builders.workloads import (
    HIGH,
    LOW,
    NOW,
    make_allocation,
    make_node,
    make_policy,
    make_snapshot,
    make_workload,
)
from tests.strategies import snapshots


def planned(name, gpus=8, **changes):
    return make_node(f"new/{name}/0", gpus, is_planned=True, **changes)


def policy_of(max_gpus, **sections):
    return make_policy(scale={"max_gpus": max_gpus}, **sections)


def starts(plan):
    """Each started workload with its nodes."""
    return {
        command.workload_id: [share.node for share in command.placement.shares]
        for command in plan.commands
        if isinstance(command, Admit)
    }


BIG, BIGGER, T4 = planned("big"), planned("bigger"), planned("t4", 4, gpu_type="t4")
ON_T4 = make_workload("on t4", 4, gpu_types=("t4",))
FULL = make_allocation(make_workload("r", 8, is_preemptible=False), {"n1": "0 1 2 3 4 5 6 7"})


@pytest.mark.parametrize(
    ("max_gpus", "pending", "want"),
    [
        pytest.param(None, ["a", "b"], {"a": BIG, "b": BIGGER}, id="no limit"),
        pytest.param(24, ["a", "b"], {"a": BIG, "b": BIGGER}, id="exactly at the limit"),
        pytest.param(23, ["a", "b"], {"a": BIG}, id="one GPU less: one node"),
        pytest.param(15, ["a"], {}, id="no node fits"),
        pytest.param(0, ["a"], {}, id="fewer than are there"),
    ],
)
def test_nodes_come_within_the_limit(max_gpus, pending, want):
    """The node that is there has 8 GPUs, all in use."""
    workloads = tuple(make_workload(name, 8) for name in pending)
    snapshot = make_snapshot((make_node("n1"), BIG, BIGGER), (FULL,), workloads)
    plan = plan_cycle(snapshot, policy_of(max_gpus), NOW)
    assert starts(plan) == {name: [node.name] for name, node in want.items()}


def test_a_node_that_is_on_its_way_counts():
    on_its_way = make_allocation(make_workload("r", 1), {BIG.name: "0"})
    snapshot = make_snapshot((BIG, BIGGER), (on_its_way,), (make_workload("a", 8),))
    assert starts(plan_cycle(snapshot, policy_of(15), NOW)) == {}
    assert starts(plan_cycle(snapshot, policy_of(16), NOW)) == {"a": [BIGGER.name]}


def test_a_run_that_a_node_on_its_way_holds_preempts_none():
    low = make_allocation(make_workload("low", 8, priority=LOW), {"n1": "0 1 2 3 4 5 6 7"})
    urgent = make_workload("urgent", 8, priority=HIGH)
    with_node = plan_cycle(
        make_snapshot((make_node("n1"), BIG), (low,), (urgent,)), policy_of(16), NOW
    )
    over_limit = plan_cycle(
        make_snapshot((make_node("n1"), BIG), (low,), (urgent,)), policy_of(15), NOW
    )
    assert [type(command) for command in with_node.commands] == [Admit]
    assert [type(command) for command in over_limit.commands] == [Preempt]


def test_the_more_urgent_run_gets_the_node_that_may_still_come():
    """Of another kind, too; the other waits and says for what."""
    urgent = replace(ON_T4, priority=HIGH)
    snapshot = make_snapshot((BIG, T4), (), (make_workload("a", 8), urgent))
    plan = plan_cycle(snapshot, policy_of(11), NOW)
    assert starts(plan) == {"on t4": [T4.name]}
    (waits,) = [e for e in plan.explanations if e.workload_id == "a"]
    assert (waits.reason, waits.summary) == (
        Reason.WAITING_FOR_GPUS,
        (
            "Waiting for 8 GPUs of any type on one node: adding nodes would exceed "
            "`scale.max_gpus` (11)."
        ),
    )


def test_a_gang_gets_all_of_its_nodes_or_none():
    gang = make_workload("gang", 8, nodes=2, priority=HIGH)
    snapshot = make_snapshot((BIG, BIGGER), (), (gang, make_workload("a", 8)))
    assert starts(plan_cycle(snapshot, policy_of(15), NOW)) == {"a": [BIG.name]}
    assert starts(plan_cycle(snapshot, policy_of(16), NOW)) == {"gang": [BIG.name, BIGGER.name]}


def test_a_gang_that_cannot_have_all_of_its_nodes_takes_nothing_from_those_behind_it():
    """One node for it would be useless, and leave three GPUs."""
    gang = make_workload("gang", 8, nodes=2, priority=HIGH)
    snapshot = make_snapshot((BIG, BIGGER, T4), (), (gang, ON_T4))
    assert starts(plan_cycle(snapshot, policy_of(11), NOW)) == {"on t4": [T4.name]}


def test_a_node_larger_than_the_limit_can_never_come():
    plan = plan_cycle(make_snapshot((T4, BIG), (), (make_workload("a", 8),)), policy_of(7), NOW)
    assert [e.reason for e in plan.explanations] == [Reason.EXCEEDS_CLUSTER]


@given(snapshots(), st.data())
def test_a_plan_never_lets_more_come(snapshot, data):
    """Whatever waits, runs and drains there; and a planner that is used again plans the same."""
    held = {s.node for a in snapshot.allocations for s in a.placement.shares}
    nodes = tuple(
        replace(node, is_planned=data.draw(st.booleans()), unhealthy_gpu_ids=frozenset())
        for node in (*snapshot.nodes, *(make_node(f"m{i}", i + 1) for i in range(3)))
    )
    snapshot = replace(snapshot, nodes=nodes)
    policy = policy_of(data.draw(st.integers(0, 12)))
    gpus = {node.name: len(node.gpu_ids) for node in nodes}
    there = {node.name for node in nodes if not node.is_planned} | held
    before = sum(gpus[name] for name in there)

    plan = plan_cycle(snapshot, policy, NOW)

    coming = {name for names in starts(plan).values() for name in names} - there
    after = before + sum(gpus[name] for name in coming)
    assert after <= max(policy.scale.max_gpus, before)
    uncapped = plan_cycle(snapshot, make_policy(), NOW)
    wanted = {name for names in starts(uncapped).values() for name in names} - there
    if before + sum(gpus[name] for name in wanted) <= policy.scale.max_gpus:
        assert starts(plan) == starts(uncapped)

    planner = Planner(policy, nodes)
    for allocation in snapshot.allocations:
        planner.allocate(allocation)
    for workload in snapshot.pending:
        planner.submit(workload)
    assert planner.plan(NOW) == plan
    assert planner.plan(NOW) == plan
