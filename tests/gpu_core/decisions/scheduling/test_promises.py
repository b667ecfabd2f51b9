"""Explanations that come true: when a run is asked to start, and for what it waits."""

import os
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.scheduling.cycle.planner import plan_cycle
from gpu_core.decisions.scheduling.plan.plan import Admit, Preempt
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
from tests.gpu_core.decisions.scheduling.scenarios import applied, scenario
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
    assert "'one' and 'other' release 2 GPUs" in explanation.summary
    assert explanation.numbers["coming_gpus"] == 2
