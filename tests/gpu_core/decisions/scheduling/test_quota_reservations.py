"""Quota that is kept for a workload ahead."""

from datetime import timedelta

import pytest

from gpu_core.decisions.model.cluster import Allocation
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.scheduling.cycle.planner import plan_cycle
from gpu_core.decisions.scheduling.plan.plan import Admit
from gpu_core.testing.builders.workloads import (
    CRITICAL,
    LOW,
    NOW,
    ago,
    make_allocation,
    make_node,
    make_policy,
    make_snapshot,
    make_workload,
)

QUOTAS = {
    "reserved_ratio": 0,
    "teams": {
        "owner": {"nominal_quota": {"*": 4}, "cohort": "all"},
        "large": {"nominal_quota": {"*": 0}, "cohort": "all"},
        "small": {"nominal_quota": {"*": 0}, "cohort": "all"},
    },
    "cohorts": {"all": {}},
}


def small(number, submitted_at):
    return make_workload(f"s{number:03}", priority=LOW, team="small", submitted_at=submitted_at)


def cycles_until_it_starts(policy, priority):
    """Small runs of 4 minutes, one started a minute, for ever; how long does a large run wait?"""
    node, now, started = make_node(gpus=4), NOW, 4
    large = make_workload("large", 3, priority=priority, team="large")
    running = tuple(
        make_allocation(small(i, ago(900)), {"n1": str(i)}, admitted_at=ago(240 - 60 * (i + 1)))
        for i in range(4)
    )
    for minute in range(200):
        running = tuple(a for a in running if now - a.admitted_at < timedelta(minutes=4))
        flood = tuple(small(started + i, now - timedelta(hours=1)) for i in range(3))
        plan = plan_cycle(make_snapshot((node,), running, (large, *flood)), policy, now)
        workloads = {w.workload_id: w for w in flood}
        for command in plan.commands:
            if not isinstance(command, Admit):
                continue
            if command.workload_id == "large":
                return minute
            started += 1
            running += (
                Allocation(
                    workload=workloads[command.workload_id],
                    attempt=1,
                    placement=command.placement,
                    admitted_at=now,
                ),
            )
        now += timedelta(minutes=1)
    return None


@pytest.mark.parametrize(
    ("sections", "priority", "want_minutes"),
    [
        pytest.param({}, CRITICAL, 3, id="first in the queue"),
        pytest.param(
            {"ordering": {"starvation_after": "1h"}, "backfill": {"mode": "greedy"}},
            CRITICAL,
            61,
            id="greedy: once it starves",
        ),
    ],
)
def test_a_large_borrower_starts_when_the_runs_of_now_have_ended(sections, priority, want_minutes):
    """No other team borrows meanwhile what it waits for: three ends, one a minute.

    It was submitted a minute ago, so it starves from minute 59 on.
    """
    policy = make_policy(quotas=QUOTAS, **sections)
    assert cycles_until_it_starts(policy, priority) == want_minutes


def explained(pending, held, **sections):
    snapshot = make_snapshot((make_node(gpus=4),), held, pending)
    plan = plan_cycle(snapshot, make_policy(quotas=QUOTAS, **sections), NOW)
    return {e.workload_id: e for e in plan.explanations}, plan.commands


def test_who_is_behind_hears_for_what_quota_is_kept():
    """One GPU is free, and enough for it; the run ahead needs two more."""
    large = make_workload("large", 3, priority=CRITICAL, team="large")
    held = tuple(make_allocation(small(i, ago(900)), {"n1": str(i)}) for i in range(3))
    reported, commands = explained((large, small(9, ago(1))), held)
    assert not commands
    assert reported["large"].reason is Reason.WAITING_FOR_QUOTA
    assert "reserved for a run ahead" in reported["s009"].resolution


@pytest.mark.parametrize(
    ("priority", "want"),
    [
        pytest.param(CRITICAL, "own", id="of its priority: before it"),
        pytest.param(LOW, "large", id="of a lower one: behind it"),
    ],
)
def test_who_owns_the_quota_that_a_run_would_borrow_is(priority, want):
    """All four GPUs are free, and the one that has to borrow all of them is first in the queue."""
    large = make_workload("large", 4, priority=CRITICAL, team="large", submitted_at=ago(900))
    own = make_workload("own", 1, priority=priority, team="owner")
    _, commands = explained((large, own), ())
    assert [c.workload_id for c in commands] == [want]


def test_quota_that_is_kept_is_open_to_who_owns_it():
    """It is kept from those who would borrow it, too."""
    large = make_workload("large", 3, priority=CRITICAL, team="large")
    held = tuple(make_allocation(small(i, ago(900)), {"n1": str(i)}) for i in range(3))
    _, commands = explained((large, make_workload("own", 1, priority=LOW, team="owner")), held)
    assert [c.workload_id for c in commands] == ["own"]


def test_where_others_use_their_own_quota_nothing_is_kept_and_it_is_said():
    """What the owner uses is not lent and does not come back, so others may borrow the rest."""
    large = make_workload("large", 3, priority=CRITICAL, team="large")
    own = make_workload("own", 2, team="owner")
    held = (make_allocation(own, {"n1": "0 1"}),)
    reported, commands = explained((large, small(9, ago(1))), held)
    assert [c.workload_id for c in commands] == ["s009"]
    assert "Reclaiming borrowed GPUs would not be sufficient" in reported["large"].resolution


@pytest.mark.parametrize(
    ("mode", "team", "want"),
    [
        pytest.param("none", "owner", 2, id="within nominal quota, a strict queue"),
        pytest.param("none", "small", 0, id="it has to borrow, too, a strict queue"),
        pytest.param("easy", "owner", 2, id="within nominal quota, easy"),
        pytest.param("easy", "small", 0, id="it has to borrow, too, easy"),
        pytest.param("auto", "owner", 2, id="within nominal quota, by default"),
        pytest.param("auto", "small", 1, id="it has to borrow, too, and one node is kept"),
        pytest.param("greedy", "small", 2, id="it has to borrow, too, and nothing is kept"),
    ],
)
def test_nodes_that_are_kept_for_a_borrower_are_open_to_who_is_within_nominal_quota(
    mode, team, want
):
    """A GPU is free on each of two nodes, and a run that borrows waits for two on one."""
    large = make_workload("large", 2, priority=CRITICAL, team="large")
    held = tuple(
        make_allocation(make_workload(f"r{n}", priority=CRITICAL, team="large"), {f"n{n}": "0"})
        for n in (1, 2)
    )
    behind = [make_workload(f"behind-{n}", 1, priority=LOW, team=team) for n in (1, 2)]
    quotas = {**QUOTAS, "teams": {**QUOTAS["teams"], "owner": {"nominal_quota": {"*": 2}}}}
    nodes = (make_node("n1", 2), make_node("n2", 2))
    snapshot = make_snapshot(nodes, held, (large, *behind))
    policy = make_policy(quotas=quotas, backfill={"mode": mode}, preemption={"enabled": False})
    plan = plan_cycle(snapshot, policy, NOW)
    assert len(plan.commands) == want


@pytest.mark.parametrize(("own", "other"), [("t4", "a100-80gb"), ("a100-80gb", "t4")])
def test_nominal_quota_is_used_before_borrowed_quota(own, other):
    """Both types are free and would do."""
    teams = {
        "mine": {"nominal_quota": {own: 1, other: 0}},
        "lender": {"nominal_quota": {own: 0, other: 1}},
    }
    nodes = (make_node("n1", 1, gpu_type="t4"), make_node("n2", 1, gpu_type="a100-80gb"))
    policy = make_policy(quotas={"reserved_ratio": 0, "teams": teams})
    snapshot = make_snapshot(nodes, (), (make_workload("w", 1, team="mine"),))
    [command] = plan_cycle(snapshot, policy, NOW).commands
    assert command.placement.gpu_type == own
