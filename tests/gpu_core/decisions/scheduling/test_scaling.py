"""Which nodes come and go after a plan."""

from gpu_core.decisions.cluster import Flavor
from gpu_core.decisions.scale import Offer, ScaleDown, ScaleUp
from gpu_core.decisions.scheduling.planner import plan_cycle
from gpu_core.decisions.scheduling.scaling import plan_scale
from tests.strategies import (
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
OFFERS = (Offer(flavor=A100, gpus_per_node=8),)


def hints(snapshot, policy, idle_since=None):
    plan = plan_cycle(snapshot, policy, NOW)
    return plan_scale(snapshot, plan, policy, NOW, offers=OFFERS, idle_since=idle_since or {})


def test_nodes_come_for_whoever_has_waited_too_long():
    """Six minutes in line for GPUs that others hold."""
    held = make_allocation(make_workload("r", 8, priority=HIGH), {"n1": "0 1 2 3 4 5 6 7"})
    waits = make_workload("w", 4, submitted_at=ago(360))
    [hint] = hints(make_snapshot((make_node(),), (held,), (waits,)), make_policy())
    assert isinstance(hint, ScaleUp)
    assert (hint.flavor, hint.nodes, hint.workload_ids) == (A100, 1, ("w",))


def test_no_node_comes_for_whoever_waits_for_quota():
    """More GPUs would not start it."""
    quotas = {
        "strategy": "static",
        "teams": {"a": {"nominal_quota": {"*": 2}}, "b": {"nominal_quota": {"*": 6}}},
    }
    held = make_allocation(make_workload("r", 2, team="a"), {"n1": "0 1"})
    waits = make_workload("w", 2, team="a", submitted_at=ago(3_600))
    snapshot = make_snapshot((make_node(),), (held,), (waits,))
    assert hints(snapshot, make_policy(quotas=quotas)) == ()


def test_an_idle_node_goes_unless_the_plan_uses_it():
    """Both nodes were idle for an hour; one of them gets a run in this very cycle."""
    nodes = (make_node("n1"), make_node("n2"))
    idle = {"n1": ago(3_600), "n2": ago(3_600)}
    pending = (make_workload("w"),)
    found = hints(make_snapshot(nodes, (), pending), make_policy(), idle)
    assert [h.node for h in found if isinstance(h, ScaleDown)] == ["n2"]
