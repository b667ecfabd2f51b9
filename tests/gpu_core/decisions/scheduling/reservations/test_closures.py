"""A closure of the calendar is capacity that is missing for its time, and moves nothing."""

import os
import random
from dataclasses import replace
from datetime import timedelta

from hypothesis import event, given, settings
from hypothesis import strategies as st

from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.units import epoch_s
from gpu_core.decisions.model.workload import planned_s
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.scheduling.cycle.planner import plan_cycle
from gpu_core.decisions.scheduling.plan.plan import Admit, Preempt
from gpu_core.testing.builders.workloads import NOW
from tests.gpu_core.decisions.scheduling.scenarios import TEAMS, applied, scenario
from tests.support.examples import examples

SEEDS = st.integers(0, 2**32 - 1)
many = settings(max_examples=examples(int(os.environ.get("PREFECT_GPU_EXAMPLES", "1000"))))
NOW_S = epoch_s(NOW)
# A run of unknown length is planned with a day where the calendar closes nodes.
UNKNOWN_S = 86_400.0


def closed_pool(seed, **sections):
    """A pool of which nodes are closed for a time, some of them for all teams but one."""
    rng = random.Random(seed)
    names = [node.name for node in scenario(seed).snapshot.nodes]
    closures = []
    for number in range(rng.randint(1, 3)):
        begins = NOW + timedelta(seconds=rng.choice([-600, 0, 300, 900, 3_600, 40_000]))
        rule = {
            "name": f"c{number}",
            "nodes": [rng.choice(names)],
            "starts_at": begins.isoformat(),
            "ends_at": (begins + timedelta(seconds=rng.choice([601, 1_800, 9_000]))).isoformat(),
        }
        closures.append(rule | rng.choice([{}, {"for_team": rng.choice(TEAMS)}]))
    return scenario(seed, calendar={"closures": closures}, **sections)


def is_open(pool, node, team, from_s, duration_s):
    """Is the node open to the team for all of this time?"""
    return not any(
        node in rule.nodes
        and (rule.for_team is None or rule.for_team != team)
        and epoch_s(rule.starts_at) < from_s + duration_s
        and from_s < epoch_s(rule.ends_at)
        for rule in pool.policy.calendar.closures
    )


def needed_s(workload):
    known_s = planned_s(workload)
    return UNKNOWN_S if known_s is None else known_s


@many
@given(SEEDS)
def test_nothing_starts_where_a_closure_begins_before_its_end(seed):
    """Nor is a start expected there. Victims of a run are on nodes that are open to it."""
    pool = closed_pool(seed)
    pending = {w.workload_id: w for w in pool.snapshot.pending}
    plan = plan_cycle(pool.snapshot, pool.policy, NOW)
    for command in plan.commands:
        if isinstance(command, Admit):
            workload = pending[command.workload_id]
            for share in command.placement.shares:
                assert is_open(pool, share.node, workload.team, NOW_S, needed_s(workload))
    for explanation in plan.explanations:
        workload, start = pending[explanation.workload_id], explanation.expected_start_at
        if explanation.reason is Reason.WAITING_FOR_GPUS and start is not None:
            event("a start is expected")
            open_nodes = [
                node.name
                for node in pool.snapshot.nodes
                if is_open(pool, node.name, workload.team, epoch_s(start), needed_s(workload))
            ]
            assert len(open_nodes) >= workload.shape.nodes


@many
@given(SEEDS)
def test_a_run_that_ends_before_a_closure_begins_is_not_kept_from_the_node(seed):
    """Under greedy backfill: what fits on free GPUs of nodes that are open for its time starts."""
    pool = closed_pool(
        seed,
        backfill={"mode": "greedy"},
        limits={},
        quotas=None,
        preemption={"enabled": False},
    )
    snapshot = replace(
        pool.snapshot,
        allocations=tuple(a for a in pool.snapshot.allocations if not a.is_draining),
        pending=tuple(replace(w, hold=None) for w in pool.snapshot.pending),
    )
    pool = replace(pool, snapshot=snapshot)
    plan = plan_cycle(snapshot, pool.policy, NOW)
    started, after = {c.workload_id for c in plan.commands}, applied(pool, plan, NOW)
    cluster = ClusterInfo(snapshot.nodes)
    for allocation in after.snapshot.allocations:
        cluster.allocate(allocation.workload.shape, allocation.placement)
    for workload in snapshot.pending:
        if workload.workload_id not in started:

            def allows(node, workload=workload):
                return is_open(pool, node, workload.team, NOW_S, needed_s(workload))

            assert cluster.find(workload.shape, allows=allows) is None


@many
@given(SEEDS)
def test_no_running_workload_moves_for_a_closure(seed):
    """Where no run waits nothing is preempted, whatever is closed."""
    pool = closed_pool(seed, placement={"consolidation": {"enabled": True}})
    idle = replace(pool.snapshot, pending=())
    assert not plan_cycle(idle, pool.policy, NOW).commands
    plan = plan_cycle(pool.snapshot, pool.policy, NOW)
    pending = {w.workload_id for w in pool.snapshot.pending}
    assert all(c.for_workload_id in pending for c in plan.commands if isinstance(c, Preempt))
