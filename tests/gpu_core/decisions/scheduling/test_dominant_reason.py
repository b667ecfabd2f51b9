"""The reported reason is what blocks a workload: without it, the decision differs."""

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_core.decisions.model.cluster import Snapshot
from gpu_core.decisions.model.reasons import Explanation, Reason
from gpu_core.decisions.model.workload import Hold, RunTime, RunTimeSource, Workload
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.scheduling.cycle.planner import plan_cycle
from gpu_core.decisions.scheduling.plan.plan import Plan, Preempt
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
from tests.gpu_core.decisions.scheduling.scenarios import Scenario, scenario
from tests.support.examples import examples

PLENTY = 1_000

Remedy = Callable[[Scenario, Plan, Workload], Scenario]
"""The pool without what keeps this workload from starting."""


def _with_policy(pool: Scenario, **changes: Any) -> Scenario:
    return replace(pool, policy=pool.policy.model_copy(update=changes))


def _with_snapshot(pool: Scenario, **changes: Any) -> Scenario:
    return replace(pool, snapshot=replace(pool.snapshot, **changes))


def _released(pool: Scenario, _: Plan, workload: Workload) -> Scenario:
    pending = (w for w in pool.snapshot.pending if w is not workload)
    return _with_snapshot(pool, pending=(*pending, replace(workload, hold=None)))


def _with_more_gpus(pool: Scenario, _: Plan, __: Workload) -> Scenario:
    """Enough nodes of each type for all who wait."""
    new = [
        make_node(f"new-{gpu_type}-{i}", 8, gpu_type=gpu_type)
        for gpu_type in ("a100-80gb", "t4")
        for i in range(2 * len(pool.snapshot.pending))
    ]
    return _with_snapshot(pool, nodes=(*pool.snapshot.nodes, *new))


def _with_more_quota(pool: Scenario, _: Plan, workload: Workload) -> Scenario:
    """For its team; without a quota of its own team, without quotas."""
    quotas, name = pool.policy.quotas, workload.team
    if quotas is None or name is None or name not in quotas.teams:
        return _with_policy(pool, quotas=None)
    milli = PLENTY * 1000
    raised = quotas.teams[name].model_copy(
        update={"nominal_quota_milli": {"*": milli}, "borrowing_limit_milli": {}}
    )
    more = quotas.model_copy(update={"teams": {**quotas.teams, name: raised}})
    return _with_policy(pool, quotas=more)


def _without_budgets(pool: Scenario, _: Plan, __: Workload) -> Scenario:
    return _with_policy(pool, budgets=())


def _without_its_previous_attempt(pool: Scenario, _: Plan, workload: Workload) -> Scenario:
    left = (a for a in pool.snapshot.allocations if a.workload.workload_id != workload.workload_id)
    return _with_snapshot(pool, allocations=tuple(left))


def _with_the_victims_gone(pool: Scenario, plan: Plan, _: Workload) -> Scenario:
    preempts = [command for command in plan.commands if isinstance(command, Preempt)]
    victims = {command.workload_id for command in preempts}
    left = (
        a
        for a in pool.snapshot.allocations
        if not a.is_draining and a.workload.workload_id not in victims
    )
    preemptors = pool.snapshot.preemptors.union(command.for_workload_id for command in preempts)
    return _with_snapshot(pool, allocations=tuple(left), preemptors=preemptors)


def _without_protection(pool: Scenario, _: Plan, __: Workload) -> Scenario:
    allocations = tuple(
        replace(
            a, workload=replace(a.workload, min_runtime_s=0, max_protection_s=0), begins_by=None
        )
        for a in pool.snapshot.allocations
    )
    return _with_snapshot(pool, allocations=allocations)


def _without_user_limits(pool: Scenario, _: Plan, __: Workload) -> Scenario:
    limits = pool.policy.limits.model_copy(update={"max_gpus_per_user": None})
    return _with_policy(pool, limits=limits)


def _without_closures(pool: Scenario, _: Plan, __: Workload) -> Scenario:
    calendar = pool.policy.calendar.model_copy(update={"closures": ()})
    return _with_policy(pool, calendar=calendar)


def _without_those_ahead(pool: Scenario, plan: Plan, workload: Workload) -> Scenario:
    """Nor those that get ahead once no other workload adds to their team's share."""
    reported = [explanation.workload_id for explanation in plan.explanations]
    ahead = set(reported[: reported.index(workload.workload_id)])
    if not ahead:
        return pool
    pending = tuple(w for w in pool.snapshot.pending if w.workload_id not in ahead)
    fewer = _with_snapshot(pool, pending=pending)
    return _without_those_ahead(fewer, planned(fewer), workload)


REMEDIES: Mapping[Reason, Remedy] = {
    Reason.UNKNOWN_QUEUE: _released,
    Reason.AMBIGUOUS_COMMAND: _released,
    Reason.NOT_PERMITTED: _released,
    Reason.INTERNAL_ERROR: _released,
    Reason.QUEUE_FULL: _released,
    Reason.EXPIRED: _released,
    Reason.DEPLOYMENT_LIMIT: _released,
    Reason.POOL_PAUSED: _released,
    Reason.QUEUE_PAUSED: _released,
    Reason.POOL_LIMIT: _released,
    Reason.QUEUE_LIMIT: _released,
    Reason.HELD: _released,
    Reason.WAITING_FOR_SPOT: _released,
    Reason.WAITING_FOR_CLUSTER_QUOTA: _released,
    Reason.WAITING_FOR_PLATFORM: _released,
    Reason.EXCEEDS_CLUSTER: _with_more_gpus,
    Reason.EXCEEDS_QUOTA: _with_more_quota,
    Reason.BUDGET_EXCEEDED: _without_budgets,
    Reason.PREVIOUS_ATTEMPT_ENDING: _without_its_previous_attempt,
    Reason.WAITING_FOR_VICTIMS: _with_the_victims_gone,
    Reason.MIN_RUNTIME_PROTECTS: _without_protection,
    Reason.USER_LIMIT: _without_user_limits,
    Reason.WAITING_FOR_QUOTA: _with_more_quota,
    Reason.CAPACITY_CLOSED: _without_closures,
    Reason.RESERVED_AHEAD: _without_those_ahead,
    Reason.WAITING_FOR_GPUS: _with_more_gpus,
    Reason.BEHIND_OTHERS: _without_those_ahead,
}


def reported_by(plan: Plan, workload_id: str) -> Explanation:
    return next(e for e in plan.explanations if e.workload_id == workload_id)


def reason_of(plan: Plan, workload_id: str) -> Reason:
    return reported_by(plan, workload_id).reason


def planned(pool: Scenario) -> Plan:
    return plan_cycle(pool.snapshot, pool.policy, NOW)


def remedied(pool: Scenario, plan: Plan, workload_id: str) -> Explanation:
    """Which reason does it get once its reason is removed?"""
    workload = next(w for w in pool.snapshot.pending if w.workload_id == workload_id)
    remedy = REMEDIES[reason_of(plan, workload_id)]
    return reported_by(planned(remedy(pool, plan, workload)), workload_id)


def test_every_reason_has_a_remedy() -> None:
    """A new reason must say what would remove it."""
    assert REMEDIES.keys() == set(Reason) - {Reason.STARTING}


CLOSURE = {
    "name": "drivers",
    "starts_at": "2026-09-01T12:10:00Z",
    "ends_at": "2026-09-01T14:00:00Z",
    "nodes": ["n0", "n1"],
}
BUDGET = {"name": "pool", "scope": "pool", "period": "month", "usd": 3}


def any_pool(seed: int) -> Scenario:
    """A random pool, now and then with a budget, a closure, holds or a previous attempt."""
    rng = random.Random(seed)
    sections: dict[str, object] = {}
    if rng.random() < 0.2:
        sections["budgets"] = [BUDGET]
    if rng.random() < 0.3:
        sections["calendar"] = {"closures": [CLOSURE]}
    pool = scenario(seed, **sections)
    first, *others = pool.snapshot.pending
    if rng.random() < 0.1 and pool.snapshot.allocations:
        first = replace(first, workload_id=pool.snapshot.allocations[0].workload.workload_id)
    if rng.random() < 0.1:
        reason = rng.choice([Reason.UNKNOWN_QUEUE, Reason.DEPLOYMENT_LIMIT])
        first = replace(first, hold=Hold(reason=reason, summary="No.", resolution="Mend it."))
    return _with_snapshot(pool, pending=(first, *others))


@settings(max_examples=examples(150))
@given(st.integers(0, 2**32 - 1))
def test_without_its_reason_a_workload_fares_otherwise(seed: int) -> None:
    """It starts, or hears another reason; for each that waits in a random pool.

    Others may take what its victims gave back. It may then wait for other victims.
    """
    pool = any_pool(seed)
    plan = planned(pool)
    for reported in plan.explanations:
        if reported.reason is not Reason.STARTING:
            after = remedied(pool, plan, reported.workload_id)
            waits_for_others = (
                reported.reason is Reason.WAITING_FOR_VICTIMS and after.summary != reported.summary
            )
            assert after.reason is not reported.reason or waits_for_others


def test_a_budget_is_not_shown_as_a_closure() -> None:
    """The T4 is reserved for `first`; the free A100 is closed to `w` by its budget alone."""
    nodes = (make_node("n1", 1, gpu_type="t4"), make_node("n2", 1))
    held = make_workload("r", run_time=lasting(4_600), priority=HIGH)
    first = make_workload("first", gpu_types=("t4",), submitted_at=ago(90), run_time=lasting(3_600))
    pool = Scenario(
        make_snapshot(
            nodes,
            (make_allocation(held, {"n1": "0"}, gpu_type="t4"),),
            (first, make_workload("w", run_time=lasting(3_600))),
        ),
        make_policy(budgets=[BUDGET]),
    )
    assert reason_of(planned(pool), "first") is Reason.WAITING_FOR_GPUS
    assert reason_of(planned(pool), "w") is not Reason.CAPACITY_CLOSED


def lasting(seconds: float) -> RunTime:
    return RunTime(median_s=seconds, upper_s=seconds, source=RunTimeSource.STATED)


def held_by(reason: Reason) -> Workload:
    return make_workload("w", hold=Hold(reason=reason, summary="No.", resolution="Mend it."))


def team_quota(gpus: int, borrowed: int) -> Policy:
    team = {"nominal_quota": {"*": gpus}, "borrowing_limit": {"*": borrowed}}
    return make_policy(quotas={"reserved_ratio": 0, "teams": {"a": team}})


ONE_NODE = make_node("n1", 2)
FULL = make_allocation(make_workload("r", 2, team="a", run_time=lasting(4_600)), {"n1": "0 1"})
AHEAD = make_workload("big", 2, submitted_at=ago(90))
HALF = make_allocation(make_workload("r", priority=HIGH, run_time=lasting(4_600)), {"n1": "0"})
PROTECTED = replace(FULL, workload=replace(FULL.workload, min_runtime_s=9_999))


@pytest.mark.parametrize(
    ("snapshot", "policy", "want_reason", "want_after"),
    [
        *(
            pytest.param(
                make_snapshot((ONE_NODE,), (), (held_by(reason),)),
                make_policy(),
                reason,
                Reason.STARTING,
                id=f"{reason}: the hold is lifted",
            )
            for reason in (
                Reason.UNKNOWN_QUEUE,
                Reason.AMBIGUOUS_COMMAND,
                Reason.NOT_PERMITTED,
                Reason.DEPLOYMENT_LIMIT,
                Reason.POOL_PAUSED,
                Reason.QUEUE_PAUSED,
                Reason.POOL_LIMIT,
                Reason.QUEUE_LIMIT,
                Reason.HELD,
                Reason.WAITING_FOR_SPOT,
                Reason.WAITING_FOR_CLUSTER_QUOTA,
                Reason.WAITING_FOR_PLATFORM,
            )
        ),
        pytest.param(
            make_snapshot((ONE_NODE,), (), (make_workload("w", 3),)),
            make_policy(),
            Reason.EXCEEDS_CLUSTER,
            Reason.STARTING,
            id="larger nodes come",
        ),
        pytest.param(
            make_snapshot((ONE_NODE,), (), (make_workload("w", 2, team="a"),)),
            team_quota(1, 0),
            Reason.EXCEEDS_QUOTA,
            Reason.STARTING,
            id="its team gets more quota than it ever could have",
        ),
        pytest.param(
            make_snapshot((make_node("n1", 4),), (FULL,), (make_workload("w", 1, team="a"),)),
            team_quota(2, 0),
            Reason.WAITING_FOR_QUOTA,
            Reason.STARTING,
            id="its team gets more quota",
        ),
        pytest.param(
            make_snapshot((ONE_NODE,), (), (make_workload("w", run_time=lasting(3_600)),)),
            make_policy(budgets=[BUDGET]),
            Reason.BUDGET_EXCEEDED,
            Reason.STARTING,
            id="the budget goes",
        ),
        pytest.param(
            make_snapshot((ONE_NODE,), (FULL,), (make_workload("r"),)),
            make_policy(),
            Reason.PREVIOUS_ATTEMPT_ENDING,
            Reason.STARTING,
            id="the previous attempt ends",
        ),
        pytest.param(
            make_snapshot((ONE_NODE,), (FULL,), (make_workload("w", priority=HIGH),)),
            make_policy(),
            Reason.WAITING_FOR_VICTIMS,
            Reason.STARTING,
            id="the victims leave",
        ),
        pytest.param(
            make_snapshot((ONE_NODE,), (PROTECTED,), (make_workload("w", priority=HIGH),)),
            make_policy(),
            Reason.MIN_RUNTIME_PROTECTS,
            Reason.WAITING_FOR_VICTIMS,
            id="the victims' protection ends",
        ),
        pytest.param(
            make_snapshot((ONE_NODE,), (), (make_workload("w", 2, user="u"),)),
            make_policy(limits={"max_gpus_per_user": 1}),
            Reason.USER_LIMIT,
            Reason.STARTING,
            id="users have no limit",
        ),
        pytest.param(
            make_snapshot((ONE_NODE,), (), (make_workload("w", run_time=lasting(3_600)),)),
            make_policy(calendar={"closures": [CLOSURE]}),
            Reason.CAPACITY_CLOSED,
            Reason.STARTING,
            id="the node stays open",
        ),
        pytest.param(
            make_snapshot((ONE_NODE,), (HALF,), (AHEAD, make_workload("w"))),
            make_policy(),
            Reason.RESERVED_AHEAD,
            Reason.STARTING,
            id="no run is ahead of the one that would run too long",
        ),
        pytest.param(
            make_snapshot((ONE_NODE,), (FULL,), (make_workload("w"),)),
            make_policy(),
            Reason.WAITING_FOR_GPUS,
            Reason.STARTING,
            id="GPUs come",
        ),
        pytest.param(
            make_snapshot((ONE_NODE,), (FULL,), (AHEAD, make_workload("w"))),
            make_policy(),
            Reason.BEHIND_OTHERS,
            Reason.WAITING_FOR_GPUS,
            id="no run is ahead of the one that wants what is in use",
        ),
    ],
)
def test_what_happens_without_the_reason(
    snapshot: Snapshot, policy: Policy, want_reason: Reason, want_after: Reason
) -> None:
    """The last one that waits."""
    pool = Scenario(snapshot, policy)
    plan = planned(pool)
    workload_id = snapshot.pending[-1].workload_id
    assert reason_of(plan, workload_id) is want_reason
    assert remedied(pool, plan, workload_id).reason is want_after
