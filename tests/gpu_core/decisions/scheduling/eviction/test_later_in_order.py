"""Victims by the order of the queue."""

from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.scheduling.cycle.planner import plan_cycle
from gpu_core.decisions.scheduling.plan.plan import Preempt
from gpu_core.testing.builders.workloads import (
    NOW,
    make_allocation,
    make_node,
    make_policy,
    make_snapshot,
    make_workload,
)
from tests.gpu_core.decisions.scheduling.scenarios import scenario
from tests.support.examples import examples

BY_SERVICE = {"keys": ["priority", "least-attained-service", "most-gpus"]}
BY_ORDER = {"takes_from": "later-in-order"}


def preempts(plan):
    return [command for command in plan.commands if isinstance(command, Preempt)]


def test_nobody_goes_where_the_quota_stays_short():
    """Team a may use two GPUs. Without `old` a GPU is free, and the quota of a has one."""
    teams = {name: {"nominal_quota": {"*": 2}} for name in "ab"}
    runs = [
        make_allocation(make_workload(name, team=team, is_preemptible=goes), {"n1": gpu})
        for name, team, gpu, goes in (
            ("old", "a", "0", True),
            ("kept", "a", "1", False),
            ("other", "b", "2", True),
        )
    ]
    quotas = {"strategy": "static", "teams": teams}
    policy = make_policy(ordering=BY_SERVICE, preemption=BY_ORDER, quotas=quotas)
    waits = make_workload("wide", 2, team="a")
    plan = plan_cycle(make_snapshot((make_node(gpus=4),), tuple(runs), (waits,)), policy, NOW)
    assert preempts(plan) == []


@settings(max_examples=examples(500))
@given(st.integers(0, 2**32 - 1))
def test_whoever_preempts_gets_the_gpus(seed):
    """No run is preempted for one that then waits for quota, or for other GPUs."""
    pool = scenario(seed, ordering=BY_SERVICE, preemption=BY_ORDER)
    plan = plan_cycle(pool.snapshot, pool.policy, NOW)
    reasons = {each.workload_id: each.reason for each in plan.explanations}
    assert {reasons[c.for_workload_id] for c in preempts(plan)} <= {Reason.WAITING_FOR_VICTIMS}
