"""What the policy says about places, in a whole cycle."""

import pytest

from gpu_core.decisions.scheduling.cycle.planner import plan_cycle
from gpu_core.decisions.scheduling.plan.plan import Admit
from gpu_core.testing.builders.workloads import (
    NOW,
    ago,
    make_allocation,
    make_node,
    make_policy,
    make_snapshot,
    make_workload,
)


@pytest.mark.parametrize(
    ("strategy", "want"),
    [
        pytest.param("best-fit", "a", id="the first by name, of equals"),
        pytest.param("fragmentation-aware", "t", id="not the type that others must have"),
    ],
)
def test_where_a_workload_goes_by_who_waits_and_runs(strategy, want):
    """One running workload needs an A100, none needs a T4."""
    nodes = (make_node("a", 4), make_node("t", 4, gpu_type="t4"))
    runs = make_allocation(make_workload("r", 1, gpu_types=("a100-80gb",)), {"a": "0"})
    other = make_allocation(make_workload("s", 1), {"t": "0"}, "t4")
    pending = (make_workload("w", submitted_at=ago(90)),)
    snapshot = make_snapshot(nodes, (runs, other), pending)
    plan = plan_cycle(snapshot, make_policy(placement={"strategy": strategy}), NOW)
    [command] = plan.commands
    assert isinstance(command, Admit)
    assert command.placement.shares[0].node == want


def test_a_gang_starts_on_shares_of_several_sizes():
    """Thirds of GPUs on one node, any share on the other; it needs both nodes."""
    nodes = (
        make_node("any", 2, is_shareable=True),
        make_node("thirds", 2, is_shareable=True, shares_per_gpu=3, has_whole_gpus=False),
    )
    gang = make_workload("gang", 1, nodes=2, gpu_share_milli=300)
    plan = plan_cycle(make_snapshot(nodes, (), (gang,)), make_policy(), NOW)
    [command] = plan.commands
    milli = {share.node: share.share_milli for share in command.placement.shares}
    assert milli == {"any": 300, "thirds": 333}
