"""What users of other schedulers have reported, as cases that must not happen here.

The numbers are of Kueue's (K), Volcano's (V) and KAI's issues and pull requests; the situations are
retold from what their reporters describe.
"""

from dataclasses import replace
from datetime import timedelta

from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.scheduling.cycle.planner import plan_cycle
from gpu_core.decisions.scheduling.plan.plan import Admit, Preempt
from gpu_core.testing.builders.workloads import (
    HIGH,
    LOW,
    MEDIUM,
    NOW,
    ago,
    make_allocation,
    make_node,
    make_policy,
    make_snapshot,
    make_workload,
)
from tests.gpu_core.decisions.scheduling.scenarios import Scenario, applied, drained
from tests.strategies import shuffled

SHARED = {
    "reserved_ratio": 0,
    "teams": {
        "a": {"nominal_quota": {"*": 4}, "cohort": "all"},
        "b": {"nominal_quota": {"*": 4}, "cohort": "all"},
    },
    "cohorts": {"all": {}},
}


def running(workload_id, gpus, node="n1", **changes):
    return make_allocation(make_workload(workload_id, len(gpus.split()), **changes), {node: gpus})


def preempted(plan):
    return {c.workload_id for c in plan.commands if isinstance(c, Preempt)}


def preemptions_until_rest(pool):
    """How many there are when plans are applied until they say nothing more."""
    count, now = 0, NOW
    for _ in range(50):
        plan = plan_cycle(pool.snapshot, pool.policy, now)
        if not plan.commands:
            return count
        count += len(preempted(plan))
        pool = drained(applied(pool, plan, now))
        now += timedelta(hours=1)
    raise AssertionError("it never comes to rest")


def test_two_teams_that_borrow_do_not_preempt_each_other_for_ever():
    """K#3779, K#7101 (33 and more preemptions), K#14543: each reclaims from the other in turn."""
    pool = Scenario(
        make_snapshot(
            (make_node(),),
            (running("a0", "0 1 2", team="a"), running("a1", "3 4 5", team="a")),
            (
                make_workload("b0", 3, team="b"),
                make_workload("b1", 3, team="b", submitted_at=ago(50)),
            ),
        ),
        make_policy(quotas=SHARED),
    )
    assert preemptions_until_rest(pool) <= 1


def test_the_victims_are_the_same_in_every_cycle():
    """K#6763: which of several equal workloads goes depended on the order of a map."""
    snapshot = make_snapshot(
        (make_node(),),
        tuple(running(f"r{i}", str(i), priority=LOW) for i in range(8)),
        (make_workload("w", 3, priority=HIGH),),
    )
    want = preempted(plan_cycle(snapshot, make_policy(), NOW))
    assert len(want) == 3
    for seed in range(20):
        assert preempted(plan_cycle(shuffled(snapshot, seed), make_policy(), NOW)) == want


def test_a_run_that_needs_one_gpu_evicts_one():
    """V#5984, V#5994: one was needed, and ten were evicted."""
    snapshot = make_snapshot(
        (make_node("n1"), make_node("n2")),
        tuple(running(f"r{i}", str(i % 8), f"n{1 + i // 8}", priority=LOW) for i in range(16)),
        (make_workload("w", 1, priority=HIGH),),
    )
    assert len(preempted(plan_cycle(snapshot, make_policy(), NOW))) == 1


def test_what_was_freed_is_not_taken_while_the_second_victim_ends():
    """K PR 13797: quota freed by the first victim went to a newcomer meanwhile."""
    leaving = replace(
        running("slow", "4 5 6 7", priority=LOW), is_draining=True, drain_deadline_at=ago(-20)
    )
    snapshot = replace(
        make_snapshot(
            (make_node(),),
            (leaving,),  # the first victim, which held the other four, is gone
            (
                make_workload("preemptor", 8, priority=MEDIUM),
                make_workload("newcomer", 4, priority=HIGH),
            ),
        ),
        preemptors=frozenset({"preemptor"}),
    )
    plan = plan_cycle(snapshot, make_policy(), NOW)
    assert not [c for c in plan.commands if isinstance(c, Admit)]
    reasons = {e.workload_id: e.reason for e in plan.explanations}
    assert reasons["preemptor"] is Reason.WAITING_FOR_VICTIMS


def test_quota_without_a_place_admits_no_run():
    """K#12422: admitted by the sum of free GPUs, the pods stayed Pending until a time-out."""
    nodes = (make_node("n1", 4), make_node("n2", 4))
    held = (
        running("r", "0 1", "n1", team="b", priority=HIGH),
        running("q", "0 1", "n2", team="b", priority=HIGH),
    )
    snapshot = make_snapshot(nodes, held, (make_workload("w", 4, team="a"),))
    plan = plan_cycle(snapshot, make_policy(quotas=SHARED, preemption={"enabled": False}), NOW)
    assert plan.commands == ()
    [reported] = plan.explanations
    assert reported.reason is Reason.WAITING_FOR_GPUS
    assert "4 of 8 are free (2 on one node)" in reported.summary


def test_a_small_team_is_not_starved_by_thousands_of_another():
    """K#2297, K#14477: one head per queue and cycle, or one user who floods the queue."""
    flood = tuple(
        make_workload(f"f{i:03d}", team="a", submitted_at=ago(9_000 - i)) for i in range(300)
    )
    policy = make_policy(
        ordering={"keys": ["fair-share", "submitted"]}, preemption={"enabled": False}
    )
    pending = (*flood, *(make_workload(f"s{i}", team="b") for i in range(4)))
    plan = plan_cycle(make_snapshot((make_node(),), (), pending), policy, NOW)
    admitted = {c.workload_id for c in plan.commands if isinstance(c, Admit)}
    assert {"s0", "s1", "s2", "s3"} <= admitted
    assert len(admitted) == 8
