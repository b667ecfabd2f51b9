"""Reservations count whole GPUs, CPU and memory: exact for whole GPUs, cautious for parts."""

import os
import random
from datetime import timedelta

from hypothesis import event, given, settings
from hypothesis import strategies as st

from gpu_core.decisions.model.cluster import Allocation
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.workload import RunTime, RunTimeSource
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.scheduling.cycle.planner import plan_cycle
from gpu_core.decisions.scheduling.plan.plan import Admit
from gpu_core.testing.builders.workloads import (
    NOW,
    ago,
    make_node,
    make_policy,
    make_snapshot,
    make_workload,
)
from tests.gpu_core.decisions.scheduling.scenarios import Scenario, applied
from tests.support.examples import examples

SEEDS = st.integers(0, 2**32 - 1)
many = settings(max_examples=examples(int(os.environ.get("PREFECT_GPU_EXAMPLES", "1000"))))
POLICY = make_policy(
    backfill={"mode": "easy"}, ordering={"keys": ["submitted"]}, preemption={"enabled": False}
)


def a_run(rng, name, *, has_parts, submitted_at):
    """A run that takes exactly as long as it states."""
    seconds = float(rng.choice([600, 1_200, 1_800, 7_200]))
    is_part = has_parts and rng.random() < 0.6
    return make_workload(
        name,
        1 if is_part else rng.choice([1, 1, 2]),
        nodes=rng.choice([1, 1, 1, 2]),
        gpu_share_milli=rng.choice([250, 500]) if is_part else 1_000,
        cpu_milli=rng.choice([0, 0, 2_000, 4_000]),
        submitted_at=submitted_at,
        run_time=RunTime(median_s=seconds, upper_s=seconds, source=RunTimeSource.STATED),
    )


def a_pool(seed, *, has_parts):
    """Nodes that are nearly full, and a few runs that wait."""
    rng = random.Random(seed)
    nodes = tuple(
        make_node(f"n{i}", rng.randint(1, 3), is_shareable=has_parts, cpu_milli=8_000)
        for i in range(rng.randint(1, 3))
    )
    cluster, held = ClusterInfo(nodes), []
    for i in range(9):
        workload = a_run(rng, f"r{i}", has_parts=has_parts, submitted_at=ago(900))
        placement = cluster.find(workload.shape)
        if placement is not None:
            cluster.allocate(workload.shape, placement)
            held.append(
                Allocation(workload=workload, attempt=1, placement=placement, admitted_at=NOW)
            )
    pending = tuple(
        a_run(rng, f"w{i}", has_parts=has_parts, submitted_at=ago(100 - i))
        for i in range(rng.randint(1, 4))
    )
    return Scenario(make_snapshot(nodes, tuple(held), pending), POLICY)


def start_of(pool, workload_id):
    """When does it start, if each run ends when its run time is over?"""
    now = NOW
    while True:
        plan = plan_cycle(pool.snapshot, pool.policy, now)
        if workload_id in {c.workload_id for c in plan.commands if isinstance(c, Admit)}:
            return now
        pool = applied(pool, plan, now)
        ends = [
            (a.admitted_at + timedelta(seconds=a.workload.run_time.upper_s), a)
            for a in pool.snapshot.allocations
        ]
        now = min(end for end, _ in ends)
        staying = tuple(a for end, a in ends if end > now)
        snapshot = make_snapshot(pool.snapshot.nodes, staying, pool.snapshot.pending)
        pool = Scenario(snapshot, pool.policy)


def reserved(seed, *, has_parts):
    """The pool, and the first that waits in it with the start that is reserved; None: none is."""
    pool = a_pool(seed, has_parts=has_parts)
    for explanation in plan_cycle(pool.snapshot, pool.policy, NOW).explanations:
        if explanation.reason is Reason.WAITING_FOR_GPUS:
            return pool, explanation.workload_id, explanation.expected_start_at
    return pool, "", None


@many
@given(SEEDS)
def test_on_whole_gpus_a_run_starts_when_it_is_reserved(seed):
    """Not earlier and not later, whatever starts behind it meanwhile."""
    pool, workload_id, reserved_at = reserved(seed, has_parts=False)
    if reserved_at is not None:
        event("reserved")
        assert start_of(pool, workload_id) == reserved_at


@many
@given(SEEDS)
def test_where_runs_share_gpus_none_starts_later_than_it_is_reserved(seed):
    """It may start earlier: a reservation waits for a whole GPU, and a part may be enough."""
    pool, workload_id, reserved_at = reserved(seed, has_parts=True)
    if reserved_at is not None:
        started_at = start_of(pool, workload_id)
        event("earlier" if started_at < reserved_at else "as reserved")
        assert started_at <= reserved_at
