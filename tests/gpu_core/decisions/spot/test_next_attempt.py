"""What the next attempt asks for: spot, on-demand, or neither for now."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.workload import Hold, RunTime, RunTimeSource
from gpu_core.decisions.spot.availability_tracker import SpotAvailabilityTracker
from gpu_core.decisions.spot.capacity_view import CapacityView
from gpu_core.decisions.spot.next_attempt import NextAttempts
from gpu_core.decisions.spot.observed_lifetimes import SpotPast
from gpu_core.testing.builders.attempts import make_attempt
from gpu_core.testing.builders.workloads import (
    CRITICAL,
    NOW,
    ago,
    make_allocation,
    make_node,
    make_policy,
    make_workload,
)

POLICY = make_policy()
SPOT = make_node("s1", capacity_type="spot")
STEADY = make_node("o1")
BOTH = (SPOT, STEADY)
H = 3600


def attempts(ends):
    """One a day, the last until now: s is spot and interrupted at once, l after a day, p preempted;
    o is on-demand."""
    reasons = {"p": EndReason.PREEMPTED}
    return [
        make_attempt(
            number=number,
            node="x",
            capacity_type="on-demand" if end == "o" else "spot",
            admitted_at=ago(24 * H * (len(ends) - number) + (24 * H if end == "l" else 60)),
            released_at=ago(24 * H * (len(ends) - number)),
            end_reason=reasons.get(end, EndReason.INTERRUPTED),
        )
        for number, end in enumerate(ends, start=1)
    ]


@pytest.mark.parametrize(
    ("ends", "nodes", "asked", "section", "want_capacity"),
    [
        pytest.param("ss", BOTH, None, {}, "spot", id="twice: spot is tried again"),
        pytest.param("sss", BOTH, None, {}, "on-demand", id="the third is the last"),
        pytest.param("sss", BOTH, "spot", {}, "spot", id="the owner insists on spot"),
        pytest.param("sss", (SPOT,), None, {}, None, id="there is nothing but spot"),
        pytest.param(
            "sss", (SPOT, make_node("o1", gpus=0)), None, {}, None, id="on-demand without a GPU"
        ),
        pytest.param("s", BOTH, None, {"max_spot_interruptions": 1}, "on-demand", id="the policy"),
        pytest.param("s" * 9, BOTH, None, {"max_spot_interruptions": None}, "spot", id="for ever"),
    ],
)
def test_on_demand_when_spot_keeps_failing(ends, nodes, asked, section, want_capacity):
    workload = make_workload(capacity_type=asked)
    policy = make_policy(capacity=section)
    found = NextAttempts(CapacityView(nodes, policy, NOW)).of(workload, attempts(ends))
    assert found.shape.capacity_type == want_capacity
    assert found.shape.avoided_nodes == frozenset()


def test_spot_is_tried_again_after_a_while():
    """Three are allowed, and each failure doubles the ten minutes."""

    def asked(minutes):
        view = CapacityView(BOTH, POLICY, NOW + timedelta(minutes=minutes))
        return NextAttempts(view).of(make_workload(), attempts("sss"))

    too_soon = asked(39)
    assert too_soon.shape.capacity_type == "on-demand"
    assert too_soon.capacity_reason == (
        f"on-demand: spot is excluded until {NOW + timedelta(minutes=40):%H:%M:%S} after 3 "
        "consecutive early interruptions"
    )
    assert asked(40).shape.capacity_type == "spot"


def taking(hours, source=RunTimeSource.STATED):
    return RunTime(median_s=hours * H, upper_s=hours * H, source=source)


@pytest.mark.parametrize(
    ("due_h", "fields", "want_capacity"),
    [
        pytest.param(None, {"run_time": taking(10)}, "spot", id="no deadline: spot is free"),
        pytest.param(20, {"run_time": taking(10)}, "spot", id="time enough for spot"),
        pytest.param(10.3, {"run_time": taking(10)}, "on-demand", id="no time for two changeovers"),
        pytest.param(
            10.3, {"run_time": taking(10), "remaining_s": 2 * H}, "spot", id="most of it is saved"
        ),
        pytest.param(5, {"run_time": taking(10)}, "on-demand", id="too late: nearest to it"),
        pytest.param(
            5, {"run_time": taking(10, RunTimeSource.LIMIT)}, None, id="a limit is no estimate"
        ),
        pytest.param(5, {}, None, id="it is unknown how long it takes"),
        pytest.param(
            20, {"run_time": taking(10), "priority": CRITICAL}, "on-demand", id="critical work"
        ),
        pytest.param(None, {"priority": CRITICAL}, "on-demand", id="critical without a deadline"),
        pytest.param(20, {"run_time": taking(10), "remaining_s": 0}, None, id="nothing is left"),
    ],
)
def test_the_deadline_decides_between_spot_and_on_demand(due_h, fields, want_capacity):
    due = None if due_h is None else NOW + timedelta(hours=due_h)
    workload = make_workload(deadline_at=due, **fields)
    found = NextAttempts(CapacityView(BOTH, POLICY, NOW)).of(workload, [])
    assert found.shape.capacity_type == want_capacity


def test_what_failed_is_avoided_as_well():
    (attempt,) = attempts("o")
    asking = NextAttempts(CapacityView((*BOTH, make_node("x")), POLICY, attempt.released_at))
    found = asking.of(make_workload(), [attempt])
    assert found.shape.avoided_nodes == {"x"}
    assert found.avoided_until == attempt.released_at + timedelta(minutes=10)
    assert asking.of(make_workload(), []).avoided_until is None
    assert asking.of(make_workload(), []).shape.avoided_nodes == frozenset()


def test_spot_that_is_left_alone_is_no_spot():
    """The cheap one has just failed; what is left of spot costs more than on-demand."""
    policy = make_policy(
        prices={"t4": {"spot": 0.1, "on-demand": 0.4}, "a10g": {"spot": 1.1, "on-demand": 1.0}}
    )
    (attempt,) = attempts("s")
    cheap = make_node("x", capacity_type="spot", gpu_type="t4")
    dear = make_node("s2", capacity_type="spot", gpu_type="a10g")
    failed = replace(attempt, gpu_type="t4")
    soon = attempt.released_at + timedelta(minutes=1)
    workload = make_workload(deadline_at=soon + timedelta(hours=20), run_time=taking(10))
    asking = NextAttempts(CapacityView((cheap, dear, STEADY), policy, soon))
    assert asking.of(workload, []).shape.capacity_type == "spot"
    found = asking.of(workload, [failed])
    assert (found.shape.capacity_type, found.shape.avoided_nodes) == ("on-demand", {"x"})


def due_in(hours, **fields):
    return make_workload(
        deadline_at=NOW + timedelta(hours=hours), run_time=taking(10), **({"gpus": 8} | fields)
    )


def holding(node, gpus=8, **fields):
    """A workload without a deadline that has all GPUs of a node."""
    capacity = "spot" if node.startswith("s") else "on-demand"
    ids = " ".join(str(i) for i in range(gpus))
    workload = make_workload(f"on-{node}", gpus=gpus, **fields)
    return make_allocation(workload, {node: ids}, capacity_type=capacity)


def test_a_run_waits_for_spot_while_that_costs_less_than_on_demand():
    """The design note's example: 10 h of work in 20 h, spot away. Later its patience is over."""
    availability = SpotAvailabilityTracker()

    def asked(now, allocations):
        view = CapacityView(BOTH, POLICY, now, allocations=allocations, availability=availability)
        return NextAttempts(view).of(due_in(20), [])

    first = asked(NOW, [holding("s1")])
    assert first.hold is not None
    assert first.hold.reason == Reason.WAITING_FOR_SPOT
    assert first.hold.summary.startswith("Waiting for spot: unavailable for 0s of at most")
    assert "slack 10h 00m; on-demand costs 2.40 times spot" in first.hold.summary
    assert first.shape.capacity_type is None

    back = asked(NOW + timedelta(minutes=5), [])
    assert (back.hold, back.shape.capacity_type) == (None, "spot")
    assert back.capacity_reason is not None
    assert back.capacity_reason.startswith("spot: spot is up; slack 9h 55m")

    away = [
        asked(NOW + timedelta(hours=h), [holding("s1")]).shape.capacity_type for h in (1, 2, 9.7)
    ]
    assert away == [None, None, "on-demand"]


def test_a_person_s_hold_stays():
    held = due_in(20, hold=Hold(reason=Reason.HELD, summary="Held.", resolution="Release it."))
    view = CapacityView(BOTH, POLICY, NOW, allocations=[holding("s1")])
    assert NextAttempts(view).of(held, []).hold == held.hold


def test_no_run_waits_for_spot_that_does_not_exist():
    for nodes in ((STEADY,), (SPOT,), (make_node("s1", gpus=4, capacity_type="spot"), STEADY)):
        found = NextAttempts(CapacityView(nodes, POLICY, NOW)).of(due_in(20), [])
        assert (found.hold, found.shape.capacity_type) == (None, None)


def test_who_comes_first_has_the_free_spot():
    """The second finds it taken and, as it cannot wait, is on on-demand."""
    asking = NextAttempts(CapacityView(BOTH, POLICY, NOW))
    assert asking.of(due_in(20), []).shape.capacity_type == "spot"
    assert asking.of(due_in(10.7), []).shape.capacity_type == "on-demand"


def test_waiting_is_as_long_as_the_pool_s_own_record_says():
    """Where spot has stayed away for long, it is waited for less."""
    came_back_late = SpotPast()
    for _ in range(50):
        came_back_late = came_back_late.with_away(24 * H)

    def reason(pasts):
        view = CapacityView(BOTH, POLICY, NOW, allocations=[holding("s1")], pasts=pasts)
        found = NextAttempts(view).of(due_in(12), [])
        return (found.hold and found.hold.summary) or found.capacity_reason

    unknown, known = reason({}), reason({"a100-80gb": came_back_late})
    assert unknown != known
    assert reason({"t4": came_back_late}) == unknown


@pytest.mark.parametrize(
    ("target", "holders", "want"),
    [
        pytest.param(None, "ss", ["spot", "spot", None], id="all that can: two are left"),
        pytest.param(0.7, "", ["spot", "on-demand", "spot"], id="from nothing: 1, 1/2, 2/3"),
        pytest.param(0.7, "ooss", ["spot", "spot", None], id="behind: two of four"),
        pytest.param(0.6, "sss", ["on-demand", "on-demand", "spot"], id="ahead: three of three"),
        pytest.param(0.0, "", ["on-demand"] * 3, id="none on spot"),
        pytest.param(1.0, "sss", ["spot", None, None], id="all, but no more is free"),
    ],
)
def test_the_mix_of_runs_without_a_deadline(target, holders, want):
    """Four nodes of each kind with a GPU each."""
    nodes = [make_node(f"s{i}", gpus=1, capacity_type="spot") for i in range(4)]
    nodes += [make_node(f"o{i}", gpus=1) for i in range(4)]
    allocations = [holding(f"{kind}{i}", gpus=1) for i, kind in enumerate(holders)]
    policy = make_policy(capacity={"target_spot_share": target})
    asking = NextAttempts(CapacityView(nodes, policy, NOW, allocations=allocations))
    found = [asking.of(make_workload(f"w{i}"), []) for i in range(len(want))]
    assert [workload.shape.capacity_type for workload in found] == want


def test_the_mix_says_why():
    policy = make_policy(capacity={"target_spot_share": 0.7})
    allocations = [holding("s1", gpus=7), holding("o1", gpus=2)]
    view = CapacityView(BOTH, policy, NOW, allocations=allocations)
    found = NextAttempts(view).of(make_workload(), [])
    want = "on-demand: 70% of the GPUs will be on spot, with a target of 70%"
    assert (found.shape.capacity_type, found.capacity_reason) == ("on-demand", want)


def test_without_prices_or_a_saving_nothing_is_chosen():
    """Equal prices are how a provider says that it has no spot."""
    for prices in ({}, {"a100-80gb": {"spot": 2, "on-demand": 2}}):
        view = CapacityView(BOTH, make_policy(prices=prices), NOW)
        assert NextAttempts(view).of(make_workload(), []).shape.capacity_type is None
