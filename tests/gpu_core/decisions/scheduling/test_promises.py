"""Explanations that come true: when a run is asked to start, and for what it waits."""

import os
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.workload import RunTime, RunTimeSource
from gpu_core.decisions.scheduling.cycle.planner import plan_cycle
from gpu_core.decisions.scheduling.plan.plan import Admit, Preempt
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
from tests.gpu_core.decisions.scheduling.scenarios import Scenario, applied, scenario
from tests.support.examples import examples

SEEDS = st.integers(0, 2**32 - 1)
many = settings(max_examples=examples(int(os.environ.get("PREFECT_GPU_EXAMPLES", "1000"))))


@many
@given(SEEDS)
def test_a_preemptor_starts_when_its_victims_have_ended(seed):
    """Where no other run waits, the start that is shown comes true."""
    pool = scenario(seed)
    plan = plan_cycle(pool.snapshot, pool.policy, NOW)
    preemptors = [c.for_workload_id for c in plan.commands if isinstance(c, Preempt)]
    for preemptor in preemptors[:1]:
        pending = tuple(w for w in pool.snapshot.pending if w.workload_id == preemptor)
        alone = replace(pool, snapshot=replace(pool.snapshot, pending=pending))
        plan = plan_cycle(alone.snapshot, pool.policy, NOW)
        [reported] = plan.explanations
        if reported.reason is not Reason.WAITING_FOR_VICTIMS or reported.expected_start_at is None:
            continue
        after = applied(alone, plan, NOW).snapshot
        staying = tuple(
            a for a in after.allocations if not has_ended(a, reported.expected_start_at)
        )
        then = replace(after, allocations=staying)
        later = plan_cycle(then, pool.policy, reported.expected_start_at)
        assert [c.workload_id for c in later.commands if isinstance(c, Admit)] == [preemptor]


def has_ended(allocation, now):
    deadline = allocation.drain_deadline_at
    return deadline is not None and deadline <= now


def the_explanation(node, held, pending):
    [explanation] = plan_cycle(
        make_snapshot((node,), held, (pending,)), make_policy(), NOW
    ).explanations
    return explanation


def test_a_passed_deadline_promises_no_start_in_the_past():
    """The process should have ended a minute ago, and has not."""
    leaving = make_allocation(
        make_workload("r", 4), {"n1": "0 1 2 3"}, is_draining=True, drain_deadline_at=ago(60)
    )
    reported = the_explanation(make_node(gpus=4), (leaving,), make_workload("w", 4))
    assert reported.reason is Reason.WAITING_FOR_VICTIMS
    assert reported.expected_start_at is None
    assert "overdue since 11:59:00 UTC" in reported.summary


def test_a_run_that_only_a_repair_can_start_is_not_shown_as_next():
    """Two of four GPUs are unhealthy, and it needs three."""
    node = make_node(gpus=4, unhealthy_gpu_ids=frozenset("01"))
    reported = the_explanation(node, (), make_workload("w", 3))
    assert reported.reason is Reason.WAITING_FOR_GPUS
    assert "repaired" in reported.resolution
    assert "first" not in reported.resolution


def test_a_shared_gpu_is_expected_back_when_its_last_run_ends():
    """Two halves of it end after 10 and 20 minutes: a start after 10 would be one too early."""
    node = make_node(gpus=1, is_shareable=True)
    held = tuple(
        replace(
            make_allocation(
                make_workload(f"r{s}", gpu_share_milli=500, expected_duration_s=s), {"n1": "0"}
            ),
            admitted_at=NOW,
        )
        for s in (600, 1_200)
    )
    held = tuple(
        replace(a, placement=replace(a.placement, shares=(half(a.placement),))) for a in held
    )
    reported = the_explanation(node, held, make_workload("w", 1))
    assert reported.expected_start_at == NOW + timedelta(seconds=1_200)


@pytest.mark.parametrize("mode", ["easy", "conservative"])
def test_a_shared_gpu_that_a_run_joins_is_expected_back_when_that_run_ends(mode):
    """The run on its other half ends after 10 minutes; the one that starts now takes two hours."""
    node = make_node(gpus=1, is_shareable=True)
    held = make_allocation(
        make_workload("r", gpu_share_milli=500, expected_duration_s=600), {"n1": "0"}
    )
    held = replace(
        held,
        admitted_at=NOW,
        placement=replace(held.placement, shares=(half(held.placement),)),
    )
    joins = make_workload(
        "joins", gpu_share_milli=500, expected_duration_s=7_200, submitted_at=ago(900)
    )
    waits = make_workload("waits", 1, submitted_at=ago(60))
    policy = make_policy(backfill={"mode": mode}, preemption={"enabled": False})
    plan = plan_cycle(make_snapshot((node,), (held,), (joins, waits)), policy, NOW)
    assert [c.workload_id for c in plan.commands if isinstance(c, Admit)] == ["joins"]
    [reported] = [e for e in plan.explanations if e.workload_id == "waits"]
    assert reported.expected_start_at == NOW + timedelta(seconds=7_200)


@pytest.mark.parametrize(
    ("ahead_gpus", "want_s"),
    [
        pytest.param(4, None, id="a run ahead may take them"),
        pytest.param(None, 20, id="no other run waits"),
    ],
)
def test_no_start_is_shown_where_a_run_ahead_has_nothing_assigned(ahead_gpus, want_s):
    """Two of four GPUs are about to be released; the run ahead waits for all four."""
    leaving = make_allocation(
        make_workload("r", 2), {"n1": "0 1"}, is_draining=True, drain_deadline_at=ago(-20)
    )
    staying = make_allocation(make_workload("s", 2, is_preemptible=False), {"n1": "2 3"})
    pending = [make_workload("w", 2)]
    if ahead_gpus is not None:
        pending.append(make_workload("ahead", ahead_gpus, submitted_at=ago(900)))
    snapshot = make_snapshot((make_node(gpus=4),), (leaving, staying), tuple(pending))
    plan = plan_cycle(snapshot, make_policy(backfill={"mode": "greedy"}), NOW)
    [reported] = [e for e in plan.explanations if e.workload_id == "w"]
    assert reported.reason is Reason.WAITING_FOR_VICTIMS
    want = None if want_s is None else NOW + timedelta(seconds=want_s)
    assert reported.expected_start_at == want


def half(placement):
    [share] = placement.shares
    return replace(share, share_milli=500)


def test_a_victim_that_frees_quota_alone_is_named_too():
    """`w` gets two GPUs of one node, of which one is free; its team may hold two, and both go."""
    quotas = {
        "reserved_ratio": 0,
        "teams": {
            "a": {"nominal_quota": {"*": 2}, "borrowing_limit": {"*": 0}},
            "b": {"nominal_quota": {"*": 2}},
        },
    }
    held = tuple(
        make_allocation(make_workload(name, 1, team="a"), {node: "0"})
        for name, node in (("one", "n1"), ("other", "n2"))
    )
    wanted = make_workload("w", 2, priority=HIGH, team="a")
    snapshot = make_snapshot((make_node("n1", 2), make_node("n2", 2)), held, (wanted,))
    [explanation] = plan_cycle(snapshot, make_policy(quotas=quotas), NOW).explanations
    assert explanation.reason is Reason.WAITING_FOR_VICTIMS
    assert "'one' and 'other' are releasing 2 GPUs" in explanation.summary
    assert explanation.numbers["coming_gpus"] == 2


def on(node, first_gpu, workload, since_s):
    """It has one GPU of the node since then."""
    return make_allocation(workload, {node: str(first_gpu)}, admitted_at=ago(since_s))


BIG = make_workload("big", 2, submitted_at=ago(60))
SMALL = make_workload("small", 1, submitted_at=ago(10))
YOUNG = on("n1", 0, make_workload("young", priority=LOW, min_runtime_s=3_600), since_s=3_000)
STAYS = make_workload("stays", priority=HIGH)


@pytest.mark.parametrize(
    ("mode", "stays_s", "want_small_on", "want_start_s"),
    [
        pytest.param("auto", None, ["n2"], 630, id="the node where it preempts is kept"),
        pytest.param("auto", 6_000, ["n2"], 630, id="also where the end on another one is known"),
        pytest.param("auto", 300, ["n1"], 290, id="that end is earlier"),
        pytest.param("easy", None, [], 630, id="every node is kept"),
        pytest.param("none", None, [], 630, id="a strict queue"),
        pytest.param("easy", 6_000, ["n1"], 5_990, id="easy keeps what a known end releases"),
        pytest.param("greedy", None, ["n1"], None, id="nothing is kept: no start is shown"),
    ],
)
def test_a_start_that_waits_for_a_protection_is_shown_where_nodes_are_kept_for_it(
    mode, stays_s, want_small_on, want_start_s
):
    """`young` on n1 is protected for ten minutes more. On n2 a run that stays has just begun."""
    run_time = (
        None
        if stays_s is None
        else RunTime(median_s=stays_s, upper_s=stays_s, source=RunTimeSource.STATED)
    )
    held = (YOUNG, on("n2", 0, replace(STAYS, run_time=run_time), since_s=10))
    policy = make_policy(backfill={"mode": mode})
    snapshot = make_snapshot((make_node("n1", 2), make_node("n2", 2)), held, (BIG, SMALL))
    plan = plan_cycle(snapshot, policy, NOW)
    starts = [c for c in plan.commands if isinstance(c, Admit)]
    assert [share.node for c in starts for share in c.placement.shares] == want_small_on
    [reported] = [e for e in plan.explanations if e.workload_id == "big"]
    assert reported.reason is Reason.MIN_RUNTIME_PROTECTS
    want = None if want_start_s is None else NOW + timedelta(seconds=want_start_s)
    assert reported.expected_start_at == want


@st.composite
def protected_pools(draw):
    """Runs that may be preempted after their minimum run time and runs that may not; in the queue
    one that needs several GPUs, also on two nodes, and small ones behind it, which preempt none."""
    nodes = tuple(
        make_node(f"n{i}", draw(st.integers(2, 4))) for i in range(draw(st.integers(1, 4)))
    )
    held = tuple(
        on(
            node.name,
            gpu,
            make_workload(
                f"{node.name}-{gpu}",
                priority=draw(st.sampled_from([LOW, HIGH])),
                min_runtime_s=draw(st.sampled_from([600, 3_600])),
            ),
            since_s=draw(st.integers(0, 4_000)),
        )
        for node in nodes
        for gpu in range(draw(st.integers(0, len(node.gpu_ids))))
    )
    first = make_workload("big", draw(st.integers(2, 4)), nodes=draw(st.integers(1, 2)))
    behind = [
        make_workload(f"s{i}", submitted_at=ago(9 - i), takes_free_only=True)
        for i in range(draw(st.integers(0, 9)))
    ]
    return make_snapshot(nodes, held, (replace(first, submitted_at=ago(60)), *behind))


@many
@given(protected_pools(), st.sampled_from(["auto", "none", "easy", "conservative"]))
def test_what_waits_for_a_protection_preempts_at_its_end(snapshot, mode):
    """No run that starts behind it takes what it needs then, if none ends meanwhile."""
    pool = Scenario(snapshot, make_policy(backfill={"mode": mode}))
    plan = plan_cycle(snapshot, pool.policy, NOW)
    [reported] = [e for e in plan.explanations if e.workload_id == "big"]
    if reported.reason is not Reason.MIN_RUNTIME_PROTECTS:
        return
    preempts_at = datetime.fromisoformat(str(reported.numbers["possible_from"]))
    grace = timedelta(seconds=pool.policy.preemption.grace_period_s)
    assert reported.expected_start_at == preempts_at + grace
    then = plan_cycle(applied(pool, plan, NOW).snapshot, pool.policy, preempts_at)
    assert "big" in {c.for_workload_id for c in then.commands if isinstance(c, Preempt)}
