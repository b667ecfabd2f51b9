"""Plans that read what was measured: who loses GPUs, and that nothing else changes."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.model.measurements import Measurements, NodeLoad
from gpu_core.decisions.scheduling.cycle.planner import Planner, plan_cycle
from gpu_core.decisions.scheduling.plan.plan import Preempt
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
from tests import strategies

LEAST_LOADED = make_policy(placement={"strategy": "least-loaded"})
RATIOS = st.floats(0, 1)


def victims(utilization, *, first_saved_s=600.0, second_saved_s=500.0):
    """Of two runs on the only node, `first` would lose a little more."""
    saved = {"first": first_saved_s, "second": second_saved_s}
    allocations = tuple(
        make_allocation(
            make_workload(name, priority=LOW, is_preemptible=True),
            {"n1": gpu},
            checkpointed_at=ago(saved[name]),
        )
        for gpu, name in enumerate_as_text(saved)
    )
    snapshot = make_snapshot(
        (make_node(gpus=2),), allocations, (make_workload("wants", priority=HIGH),)
    )
    plan = plan_cycle(
        replace(snapshot, measurements=Measurements(utilization=utilization)), make_policy(), NOW
    )
    return [command for command in plan.commands if isinstance(command, Preempt)]


def enumerate_as_text(names):
    return [(str(number), name) for number, name in enumerate(names)]


@pytest.mark.parametrize(
    ("utilization", "want"),
    [
        pytest.param({}, "second", id="without a measurement: the least unsaved time"),
        pytest.param({"first": 0.05}, "first", id="the one whose GPUs did little of the time"),
        pytest.param({"second": 0.9}, "second", id="the other one counts in full"),
        pytest.param({"first": 0.85, "second": 1.0}, "second", id="a little less is not enough"),
        pytest.param({"first": 0.0, "second": 0.0}, "first", id="idle both: the latest id decides"),
    ],
)
def test_who_is_preempted(utilization, want):
    (command,) = victims(utilization)
    assert command.workload_id == want
    lost_s = 600 if want == "first" else 500
    assert command.lost_gpu_s == lost_s, "what is reported as lost is not weighed"


snapshots = strategies.contests() | strategies.snapshots()


@given(snapshots, st.sampled_from(["best-fit", "spread", "round-robin", "least-loaded"]))
def test_measurements_of_other_names_and_full_use_change_no_plan(snapshot, strategy):
    policy = make_policy(placement={"strategy": strategy})
    working = {a.workload.workload_id: 1.0 for a in snapshot.allocations}
    for measurements in (
        Measurements(loads={"elsewhere": NodeLoad(load_ratio=0.5, held_milli=0)}),
        Measurements(utilization={"another": 0.0}),
        Measurements(utilization=working),
    ):
        measured = replace(snapshot, measurements=measurements)
        assert repr(plan_cycle(measured, policy, NOW)) == repr(plan_cycle(snapshot, policy, NOW))


@given(snapshots, st.data())
def test_measurements_start_and_refuse_the_same_runs_on_nodes_with_whole_gpus(snapshot, data):
    """Their nodes share no GPU: a load says nothing of them."""
    loads = {
        node.name: NodeLoad(load_ratio=data.draw(RATIOS), held_milli=0) for node in snapshot.nodes
    }
    whole = replace(
        snapshot, nodes=tuple(replace(node, is_shareable=False) for node in snapshot.nodes)
    )
    measured = replace(whole, measurements=Measurements(loads=loads))
    assert plan_cycle(measured, LEAST_LOADED, NOW) == plan_cycle(whole, LEAST_LOADED, NOW)


@given(snapshots, st.data())
def test_a_planner_that_measured_before_plans_as_one_that_did_not(snapshot, data):
    shared = tuple(replace(node, is_shareable=True) for node in snapshot.nodes)
    snapshot = replace(snapshot, nodes=shared)
    ids = [a.workload.workload_id for a in snapshot.allocations]

    def drawn():
        return Measurements(
            loads={
                node.name: NodeLoad(
                    load_ratio=data.draw(RATIOS), held_milli=data.draw(st.integers(0, 2000))
                )
                for node in shared
                if data.draw(st.booleans())
            },
            utilization={i: data.draw(RATIOS) for i in ids if data.draw(st.booleans())},
        )

    planner = Planner(LEAST_LOADED, snapshot.nodes)
    for allocation in snapshot.allocations:
        planner.allocate(allocation)
    for workload in snapshot.pending:
        planner.submit(workload)
    for measurements in (drawn(), drawn(), Measurements()):
        plan = planner.plan(
            NOW,
            usage=snapshot.usage,
            preemptors=snapshot.preemptors,
            idle_since=snapshot.idle_since,
            measurements=measurements,
        )
        fresh = plan_cycle(replace(snapshot, measurements=measurements), LEAST_LOADED, NOW)
        assert plan == fresh
