"""A run with a deadline, free spot, and on-demand that it does not get."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from gpu_core.decisions.model.attempts import Attempt, EndReason
from gpu_core.decisions.model.cluster import Allocation, Node
from gpu_core.decisions.model.workload import RunTime, RunTimeSource, Workload
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.scheduling.cycle.planner import plan_cycle
from gpu_core.decisions.scheduling.plan.plan import Admit, Plan, Preempt
from gpu_core.decisions.spot.availability_tracker import OnDemandRequests, SpotAvailabilityTracker
from gpu_core.decisions.spot.capacity_view import CapacityView
from gpu_core.decisions.spot.next_attempt import NextAttempts
from gpu_core.decisions.spot.observed_lifetimes import SpotPast
from gpu_core.decisions.spot.survival import Lifetimes
from gpu_core.testing.builders.attempts import make_attempt
from gpu_core.testing.builders.workloads import (
    CRITICAL,
    LOW,
    NOW,
    make_allocation,
    make_node,
    make_policy,
    make_snapshot,
    make_workload,
)

POLICY = make_policy()
SPOT = make_node("s1", capacity_type="spot")
STEADY = make_node("o1")
IN_VAIN_MIN, SHORT_MIN = 10, 15
"""Lifetimes of spot: a start takes 12 minutes."""


def due_in(hours: float, **fields: Any) -> Workload:
    """10 h of work on 8 GPUs."""
    ten_h = RunTime(median_s=36_000, upper_s=36_000, source=RunTimeSource.STATED)
    due = NOW + timedelta(hours=hours)
    return make_workload("due", 8, deadline_at=due, run_time=ten_h, **fields)


def holding_on_demand(**changes: Any) -> Allocation:
    return make_allocation(make_workload("other", 8), {"o1": "0 1 2 3 4 5 6 7"}, **changes)


def lives(each_min: float, number: int = 6) -> dict[str, SpotPast]:
    up = Lifetimes()
    for _ in range(number):
        up = up.ended(each_min * 60)
    return {"a100-80gb": SpotPast(up=up, observed_s=36_000)}


class Pool:
    """Cycles of a worker: what a run asks for, and what a plan makes of it."""

    def __init__(
        self,
        past: dict[str, SpotPast] | None = None,
        policy: Policy = POLICY,
        nodes: tuple[Node, ...] = (SPOT, STEADY),
        attempts: Sequence[Attempt] = (),
    ) -> None:
        self._past = past
        self._policy = policy
        self._nodes = nodes
        self._attempts = attempts
        self._availability = SpotAvailabilityTracker()

    def cycle(self, workload: Workload, after_s: float, *held: Allocation) -> tuple[Workload, Plan]:
        now = NOW + timedelta(seconds=after_s)
        view = CapacityView(
            self._nodes,
            self._policy,
            now,
            allocations=held,
            pasts=self._past,
            availability=self._availability,
        )
        asked = NextAttempts(view).of(workload, self._attempts)
        snapshot = make_snapshot(self._nodes, held, (asked,))
        return asked, plan_cycle(snapshot, self._policy, now)

    def admitted_to(self, workload: Workload, after_s: float, *held: Allocation) -> str | None:
        """On which node is it, after this cycle?"""
        _, plan = self.cycle(workload, after_s, *held)
        found = [one.placement for one in plan.commands if isinstance(one, Admit)]
        return found[0].shares[0].node if found else None


def interrupted_on_spot(number: int, minutes_ago: float) -> Attempt:
    ended_at = NOW - timedelta(minutes=minutes_ago)
    return make_attempt(
        "due",
        number,
        node=f"gone-{number}",
        zone=f"zone-{number}",
        capacity_type="spot",
        admitted_at=ended_at - timedelta(minutes=5),
        released_at=ended_at,
        end_reason=EndReason.INTERRUPTED,
    )


THREE_IN_A_ROW = [interrupted_on_spot(n, 20 - 5 * n) for n in (1, 2, 3)]


@pytest.mark.parametrize(
    ("due_h", "past", "attempts", "fields"),
    [
        pytest.param(30, lives(SHORT_MIN), (), {}, id="short spot, time enough"),
        pytest.param(10.3, lives(SHORT_MIN), (), {}, id="short spot, little slack"),
        pytest.param(10.3, None, (), {}, id="little slack: a change would risk the deadline"),
        pytest.param(5, None, (), {}, id="too late: any progress makes it less late"),
        pytest.param(-5, None, (), {}, id="the deadline has passed"),
        pytest.param(10.3, None, THREE_IN_A_ROW, {}, id="spot failed it three times in a row"),
        pytest.param(10.3, lives(IN_VAIN_MIN, 4), (), {}, id="four lives are too few"),
    ],
)
def test_spot_that_makes_progress_beats_waiting_for_on_demand(
    due_h: float, past: dict[str, SpotPast] | None, attempts: Sequence[Attempt], fields: Any
) -> None:
    """On-demand is full. The first cycle asks for it; one a minute later does not wait longer."""
    pool, run = Pool(past, attempts=attempts), due_in(due_h, **fields)
    assert pool.admitted_to(run, 0, holding_on_demand()) is None
    assert pool.admitted_to(run, 59, holding_on_demand()) is None
    assert pool.admitted_to(run, 60, holding_on_demand()) == "s1"


@pytest.mark.parametrize(
    ("due_h", "past", "policy", "fields"),
    [
        pytest.param(10.3, lives(IN_VAIN_MIN), POLICY, {}, id="no life does any work"),
        pytest.param(10.3, None, POLICY, {"priority": CRITICAL}, id="critical work"),
        pytest.param(
            30,
            None,
            make_policy(prices={"a100-80gb": {"on-demand": 1.5, "spot": 1.5}}),
            {},
            id="spot is not cheaper and there is time",
        ),
        pytest.param(10.3, None, POLICY, {"capacity_type": "on-demand"}, id="its owner's wish"),
    ],
)
def test_it_waits_for_on_demand(
    due_h: float, past: dict[str, SpotPast] | None, policy: Policy, fields: Any
) -> None:
    """Spot would do no work, is not allowed, or saves nothing yet."""
    pool, run = Pool(past, policy), due_in(due_h, **fields)
    asked = [pool.admitted_to(run, after_s, holding_on_demand()) for after_s in (0, 60, 500)]
    assert asked == [None, None, None]


def test_dear_spot_is_taken_only_when_more_waiting_could_miss_the_deadline() -> None:
    """Equal prices."""
    pool = Pool(policy=make_policy(prices={"a100-80gb": {"on-demand": 1.5, "spot": 1.5}}))
    run = due_in(10.5)
    found = [pool.admitted_to(run, 60 * at, holding_on_demand()) for at in (0, 5, 7)]
    assert found == [None, None, "s1"]


def test_the_reason_has_the_numbers() -> None:
    """As the run's log and page show it."""
    pool, run = Pool(lives(SHORT_MIN)), due_in(10.3)
    pool.cycle(run, 0, holding_on_demand())
    asked, _ = pool.cycle(run, 60, holding_on_demand())
    assert asked.capacity_reason is not None
    assert asked.capacity_reason.startswith(
        "spot: no on-demand GPUs available, using spot; an instance is expected to complete "
        "2m 00s of work; slack 17m 00s; on-demand costs 2.40 times spot"
    )


def test_on_demand_that_becomes_free_comes_first() -> None:
    """However long it has waited."""
    pool, run = Pool(lives(IN_VAIN_MIN)), due_in(30)
    for after_s in (0, 60, 120):
        assert pool.admitted_to(run, after_s, holding_on_demand()) is None
    assert pool.admitted_to(run, 121) == "o1"


def test_it_waits_for_gpus_that_are_being_freed_for_it() -> None:
    """Others were preempted for it."""
    pool, run = Pool(), due_in(10.3)
    low = make_allocation(make_workload("low", 8, priority=LOW), {"o1": "0 1 2 3 4 5 6 7"})
    _, plan = pool.cycle(run, 0, low)
    assert any(isinstance(command, Preempt) for command in plan.commands)
    draining = replace(
        low,
        is_draining=True,
        draining_for="due",
        drain_deadline_at=NOW + timedelta(seconds=300),
    )
    asked, _ = pool.cycle(run, 120, draining)
    assert asked.shape.capacity_type == "on-demand"


@pytest.mark.parametrize(
    ("fields", "protected_min", "section", "want"),
    [
        pytest.param({"priority": LOW}, 4, {}, None, id="it can be preempted in time"),
        pytest.param({"priority": LOW}, 6, {}, "s1", id="it can be preempted too late"),
        pytest.param({}, 4, {}, "s1", id="it is as urgent"),
        pytest.param(
            {"priority": LOW, "is_preemptible": False}, 4, {}, "s1", id="it is not preemptible"
        ),
        pytest.param(
            {"priority": LOW}, 4, {"preemption": {"enabled": False}}, "s1", id="the policy"
        ),
        pytest.param({"priority": LOW, "gpus": 7}, 4, {}, "s1", id="another holds one of the GPUs"),
    ],
)
def test_it_waits_for_whom_it_can_preempt_in_time(
    fields: Any, protected_min: int, section: Any, want: str | None
) -> None:
    """18 min of slack, 12 min for a start: 5 min can be waited, and a look."""
    pool, run = Pool(policy=make_policy(**section)), due_in(10.3)
    gpus = fields.get("gpus", 8)
    other = make_workload(
        "other", **({"gpus": 8, "min_runtime_s": 3600 + protected_min * 60} | fields)
    )
    held = [make_allocation(other, {"o1": " ".join("01234567"[:gpus])})]
    if gpus < 8:
        held.append(make_allocation(make_workload("one"), {"o1": "7"}))
    assert pool.admitted_to(run, 0, *held) is None
    assert pool.admitted_to(run, 60, *held) == want


def test_free_on_demand_that_no_plan_gives_it_is_none() -> None:
    """A quota or a reservation may keep it from GPUs that are free."""
    limits = {"a100-80gb/spot": 8, "a100-80gb/on-demand": 0}
    quota = {"nominal_quota": limits, "borrowing_limit": dict.fromkeys(limits, 0)}
    policy = make_policy(quotas={"teams": {"vision": quota}})
    pool, run = Pool(policy=policy), due_in(10.3, team="vision")
    assert [pool.admitted_to(run, after_s) for after_s in (0, 59, 60)] == [None, None, "s1"]


def test_a_new_attempt_asks_for_on_demand_anew() -> None:
    """Of its earlier wait nothing counts."""
    pool, run = Pool(lives(SHORT_MIN)), due_in(10.3)
    pool.cycle(run, 0, holding_on_demand())
    assert pool.admitted_to(run, 60, holding_on_demand()) == "s1"
    ended_at = NOW + timedelta(hours=1)
    pool._attempts = [replace(interrupted_on_spot(1, 0), released_at=ended_at)]
    assert pool.admitted_to(run, 3601, holding_on_demand()) is None


@pytest.mark.parametrize(
    ("looks", "want_s"),
    [
        pytest.param([(0, False)], 0, id="asked just now"),
        pytest.param([(0, False), (50, False)], 50, id="full ever since"),
        pytest.param([(0, False), (50, True)], 0, id="free just now"),
        pytest.param([(0, True), (50, True)], 50, id="free, and given to none"),
        pytest.param([(0, True), (20, False), (50, True)], 0, id="free again"),
        pytest.param([(0, False), (20, True), (50, False)], 50, id="free in between"),
    ],
)
def test_how_long_on_demand_was_not_given(looks: list[tuple[int, bool]], want_s: float) -> None:
    """The last of these looks."""
    requests = OnDemandRequests()

    def waited_s(at_s: int, is_free: bool, ended_at: datetime | None = None) -> float:
        now = NOW + timedelta(seconds=at_s)
        return requests.waited_s("a", is_free=is_free, ended_at=ended_at, now=now)

    assert [waited_s(*look) for look in looks][-1] == want_s
    assert waited_s(60, False, NOW + timedelta(seconds=55)) == 0, "it has run since"
    requests.forget("a")
    assert waited_s(90, False) == 0
    requests.keep({"b"})
    assert waited_s(95, False) == 0
