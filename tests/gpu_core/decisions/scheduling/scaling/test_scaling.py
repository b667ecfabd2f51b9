"""Which nodes come and go after a plan."""

from dataclasses import replace

from gpu_core.decisions.model.cluster import Flavor
from gpu_core.decisions.scheduling.cycle.planner import Planner, plan_cycle
from gpu_core.decisions.scheduling.plan.plan import ScaleDown, ScaleUp
from gpu_core.testing.builders.workloads import (
    HIGH,
    NOW,
    ago,
    make_allocation,
    make_node,
    make_policy,
    make_snapshot,
    make_workload,
)

A100 = Flavor("a100-80gb", "on-demand")
SCALE = {"offers": [{"gpu_type": "a100-80gb", "gpus_per_node": 8}]}


def hints(snapshot, **sections):
    plan = plan_cycle(snapshot, make_policy(scale=SCALE, **sections), NOW)
    return tuple(c for c in plan.commands if isinstance(c, ScaleUp | ScaleDown))


def test_nodes_come_for_a_run_that_has_waited_too_long():
    """Six minutes pending for GPUs that others hold."""
    held = make_allocation(make_workload("r", 8, priority=HIGH), {"n1": "0 1 2 3 4 5 6 7"})
    waits = make_workload("w", 4, submitted_at=ago(360))
    [hint] = hints(make_snapshot((make_node(),), (held,), (waits,)))
    assert isinstance(hint, ScaleUp)
    assert (hint.flavor, hint.nodes, hint.workload_ids) == (A100, 1, ("w",))


def test_no_node_comes_for_a_run_that_waits_for_quota():
    """More GPUs would not start it."""
    quotas = {
        "strategy": "static",
        "teams": {"a": {"nominal_quota": {"*": 2}}, "b": {"nominal_quota": {"*": 6}}},
    }
    held = make_allocation(make_workload("r", 2, team="a"), {"n1": "0 1"})
    waits = make_workload("w", 2, team="a", submitted_at=ago(3_600))
    snapshot = make_snapshot((make_node(),), (held,), (waits,))
    assert hints(snapshot, quotas=quotas) == ()


def test_an_idle_node_goes_unless_the_plan_uses_it():
    """Both nodes were idle for an hour; one of them gets a run in this very cycle."""
    nodes = (make_node("n1"), make_node("n2"))
    idle = {"n1": ago(3_600), "n2": ago(3_600)}
    pending = (make_workload("w"),)
    found = hints(replace(make_snapshot(nodes, (), pending), idle_since=idle))
    assert [h.node for h in found if isinstance(h, ScaleDown)] == ["n2"]


def test_nothing_is_said_about_scale_unless_the_policy_offers_nodes():
    """Nor without explanations, as in a simulation."""
    waits = make_workload("w", 4, submitted_at=ago(360))
    held = make_allocation(make_workload("r", 8, priority=HIGH), {"n1": "0 1 2 3 4 5 6 7"})
    snapshot = make_snapshot((make_node(),), (held,), (waits,))
    assert plan_cycle(snapshot, make_policy(), NOW).commands == ()
    planner = Planner(make_policy(scale=SCALE), snapshot.nodes)
    planner.allocate(held)
    planner.submit(waits)
    assert planner.plan(NOW, explain=False).commands == ()
    assert len(planner.plan(NOW).commands) == 1


def test_a_node_whose_last_holder_is_leaving_stays():
    """It goes when it is drained."""
    leaving = make_allocation(make_workload("r", 1), {"n1": "0"}, is_draining=True)
    snapshot = make_snapshot((make_node(),), (leaving,), ())
    assert hints(replace(snapshot, idle_since={"n1": ago(3_600)})) == ()
