"""What the policy says about places, in a whole cycle."""

import pytest

from gpu_core.decisions.scheduling.plan import Admit
from gpu_core.decisions.scheduling.planner import plan_cycle
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
