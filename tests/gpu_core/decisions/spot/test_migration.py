"""When a run that works leaves its capacity for the other kind."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.workload import Changeover, RunTime, RunTimeSource
from gpu_core.decisions.spot.availability_tracker import SpotAvailabilityTracker
from gpu_core.decisions.spot.capacity_view import CapacityView
from gpu_core.decisions.spot.migration import capacity_change
from gpu_core.decisions.spot.state import Capacity, Rule
from gpu_core.testing.builders.attempts import make_attempt
from gpu_core.testing.builders.workloads import (
    CRITICAL,
    NOW,
    ago,
    make_allocation,
    make_node,
    make_policy,
    make_workload,
    with_shape,
)

H = 3600
NODES = (make_node("s1", capacity_type="spot"), make_node("o1"))
DEARER_SPOT = {"prices": {"a100-80gb": {"spot": 4.0, "on-demand": 3.6}}}


def running(capacity_type="on-demand", due_h=30, saved_s=600, allocation=None, **fields):
    """A run of 20 h on all of a node since an hour, saved ten minutes ago."""
    workload = make_workload(
        gpus=8,
        deadline_at=None if due_h is None else NOW + timedelta(hours=due_h),
        run_time=RunTime(median_s=20 * H, upper_s=20 * H, source=RunTimeSource.STATED),
        # As the scheduler itself had chosen it.
        capacity_type=capacity_type,
        **fields,
    )
    return make_allocation(
        workload,
        {"o1" if capacity_type == "on-demand" else "s1": "0 1 2 3 4 5 6 7"},
        capacity_type=capacity_type,
        **({"checkpointed_at": None if saved_s is None else ago(saved_s)} | (allocation or {})),
    )


def decide(allocation, *, earlier=(), others=(), spot_for_h=0.75, left_usd=None, **policy):
    """What is decided once spot could have been had for so long."""
    availability = SpotAvailabilityTracker()
    since = NOW - timedelta(hours=spot_for_h)
    availability.age_s(allocation.workload.workload_id, is_up=True, now=since)
    view = CapacityView(
        NODES,
        make_policy(**policy),
        NOW,
        allocations=[allocation, *others],
        availability=availability,
    )
    left = None if left_usd is None else round(left_usd * 1_000_000)
    return capacity_change(allocation, earlier, view, left)


def test_on_demand_is_left_for_spot_that_has_proved_itself():
    found = decide(running())
    assert (found.capacity, found.rule) == (Capacity.SPOT, Rule.SPOT_PROVEN)
    # 20 h of work less the 50 minutes that are saved; 30 h are left.
    assert found.slack_s == 30 * H - (20 * H - 50 * 60)
    assert "on-demand costs 2.40 times spot" in found.reason


def test_a_start_up_that_is_repeated_brings_the_end_no_nearer():
    """Of the 50 minutes until the save, 20 went before the first new step."""
    found = decide(running(allocation={"works_since": ago(40 * 60)}))
    assert found.slack_s == 30 * H - (20 * H - 30 * 60)


def test_the_measured_changeover_decides_and_is_named():
    """With 10 h 50 min of slack, 12 min leave time for a change to spot, and 6 h do not."""
    assert decide(running()).reason.endswith(
        "the deadline holds if a start loses at most 12m 00s (0 of 3 measured)"
    )
    assert decide(running(changeover=Changeover(900, 3))).reason.endswith(
        "a start loses at most 15m 00s by 3 measured starts"
    )
    assert decide(running(changeover=Changeover(6 * H, 3))) is None


def test_spot_is_left_when_it_costs_more_than_on_demand():
    found = decide(running("spot"), **DEARER_SPOT)
    assert (found.capacity, found.rule) == (Capacity.ON_DEMAND, Rule.SPOT_NOT_CHEAPER)


def test_without_a_deadline_too_on_demand_is_left_for_spot_that_has_proved_itself():
    found = decide(running(due_h=None))
    assert (found.capacity, found.rule, found.slack_s) == (Capacity.SPOT, Rule.SPOT_PROVEN, None)
    assert decide(running(due_h=None), spot_for_h=0) is None


def test_a_run_of_unknown_length_is_taken_to_go_on_for_as_long_as_it_has():
    """An hour saves more than a changeover costs; of a minute nothing is known."""
    allocation = running(due_h=None)
    unknown = replace(allocation, workload=replace(allocation.workload, run_time=None))
    assert decide(unknown).rule is Rule.SPOT_PROVEN
    assert decide(replace(unknown, admitted_at=ago(60), checkpointed_at=ago(0))) is None


def test_so_is_one_that_has_outlasted_its_run_time():
    """In this attempt, or already in an earlier one."""
    assert decide(running(due_h=None, remaining_s=20 * 60)).rule is Rule.SPOT_PROVEN
    outlasted = running(due_h=None, remaining_s=0)
    assert decide(outlasted).rule is Rule.SPOT_PROVEN
    assert decide(replace(outlasted, admitted_at=ago(60), checkpointed_at=ago(0))) is None


def cut(times):
    """So often on spot for five minutes, the last time just before it was admitted here."""
    return [
        make_attempt(
            number=number,
            node="gone",
            gpu_type="t4",
            capacity_type="spot",
            admitted_at=ago((times - number + 1) * H + 300),
            released_at=ago((times - number + 1) * H),
            end_reason=EndReason.INTERRUPTED,
        )
        for number in range(1, times + 1)
    ]


# 19 h are left, and 12 min of a changeover to spot: on 8 GPUs $230.40 and $547.20.
PAYS_FOR_SPOT = {"left_usd": 240}


@pytest.mark.parametrize(
    "world",
    [
        pytest.param({"spot_for_h": 0}, id="spot need not prove itself"),
        pytest.param({"capacity": {"target_spot_share": 0.0}}, id="whatever the mix"),
        pytest.param({"earlier": "cut"}, id="and whatever spot did to it"),
    ],
)
@pytest.mark.parametrize("due_h", [None, 19.5, 30])
def test_on_demand_that_would_overspend_is_left_for_spot(due_h, world):
    world = world | ({"earlier": cut(4)} if "earlier" in world else {})
    found = decide(running(due_h=due_h), **PAYS_FOR_SPOT, **world)
    assert (found.capacity, found.rule) == (Capacity.SPOT, Rule.BUDGET_NEEDS_SPOT)
    assert "$240.00 of the budget remains" in found.reason
    assert "with $230.40 required on spot and $547.20 on on-demand" in found.reason


@pytest.mark.parametrize(
    ("left_usd", "world"),
    [
        pytest.param(548, {}, id="on-demand is paid for"),
        pytest.param(230, {}, id="not even spot is"),
        pytest.param(240, {"others": "spot is taken"}, id="no run is moved only to wait"),
        pytest.param(240, {"capacity": {"at_budget": "continue"}}, id="it may overspend"),
    ],
)
def test_a_budget_leaves_it_where_it_is(left_usd, world):
    """Spot has just come, which is no reason of its own."""
    world = world | ({"others": [OTHER]} if "others" in world else {})
    assert decide(running(), left_usd=left_usd, spot_for_h=0, **world) is None


def test_the_budget_of_a_run_of_unknown_length_leaves_it_where_it_is():
    allocation = running(due_h=None)
    unknown = replace(allocation, workload=replace(allocation.workload, run_time=None))
    assert decide(unknown, left_usd=1, spot_for_h=0) is None


def test_what_is_not_saved_yet_counts_as_done_where_it_runs_on():
    """It saved once, five minutes after it started: its budget for 19 h more is enough."""
    assert decide(running(saved_s=55 * 60), left_usd=548, spot_for_h=0) is None


def test_spot_that_failed_it_is_tried_again_after_the_back_off():
    """Forty minutes after three failures, an hour and twenty after four."""
    assert decide(running(), earlier=cut(3)).rule is Rule.SPOT_PROVEN
    assert decide(running(), earlier=cut(4)) is None


OTHER = make_allocation(make_workload("other", gpus=1), {"s1": "0"}, capacity_type="spot")


@pytest.mark.parametrize(
    ("allocation", "world"),
    [
        pytest.param(running(), {"spot_for_h": 0}, id="spot has just come back"),
        pytest.param(running(), {"others": [OTHER]}, id="spot is not free"),
        pytest.param(running(), {"earlier": cut(4)}, id="spot has failed it too often"),
        pytest.param(running(due_h=19.5), {}, id="no time for two changeovers"),
        pytest.param(running(due_h=19.5), {"spot_for_h": 9}, id="nor later"),
        pytest.param(
            running(due_h=None),
            {"capacity": {"target_spot_share": 0.5}},
            id="it is where the mix is",
        ),
        pytest.param(running(saved_s=None), {}, id="it has saved nothing"),
        pytest.param(running(is_preemptible=False), {}, id="its owner forbids it"),
        pytest.param(running(min_runtime_s=2 * H), {}, id="its minimum run time"),
        pytest.param(
            running(min_runtime_s=H, allocation={"began_at": NOW - timedelta(minutes=5)}),
            {},
            id="its minimum run time, of which its start is no part",
        ),
        pytest.param(running(remaining_s=20 * 60), {}, id="its work is done"),
        pytest.param(running(allocation={"is_draining": True}), {}, id="it gives way already"),
        pytest.param(running(priority=CRITICAL), {}, id="critical work stays on on-demand"),
        pytest.param(running("spot"), {}, id="spot is used until it is taken away"),
        pytest.param(running("reserved"), {}, id="reserved capacity is paid for"),
    ],
)
def test_it_stays(allocation, world):
    assert decide(allocation, **world) is None


def test_for_who_is_on_spot_it_is_away_only_once_it_is_lost():
    """No other run could have had any for hours: that is no time that it has waited."""
    availability = SpotAvailabilityTracker()
    allocation = replace(running("spot"), admitted_at=ago(6 * H))
    for hours in (5, 0):
        moment = NOW - timedelta(hours=hours)
        view = CapacityView(
            NODES, make_policy(), moment, allocations=[allocation], availability=availability
        )
        capacity_change(allocation, (), view)
    lost = CapacityView(NODES[1:], make_policy(), NOW, availability=availability)
    state = lost.state(with_shape(allocation.workload, capacity_type=None))
    assert (state.spot.is_up, state.spot.age_s) == (False, 0)


def test_who_leaves_takes_what_it_goes_to():
    """Of two that would go to the same spot one goes, the other as soon as more of it comes."""
    more = (*NODES, make_node("o2"))
    first = running()
    share = replace(first.placement.shares[0], node="o2")
    second = replace(
        first,
        workload=replace(first.workload, workload_id="second"),
        placement=replace(first.placement, shares=(share,)),
    )
    gone = replace(first, placement=running("spot").placement)
    availability = SpotAvailabilityTracker()

    def look(moment, nodes, *allocations):
        view = CapacityView(
            nodes, make_policy(), moment, allocations=allocations, availability=availability
        )
        return [capacity_change(allocation, (), view) is not None for allocation in allocations]

    assert look(ago(45 * 60), more, first, second) == [False, False]
    assert look(NOW, more, first, second) == [True, False]
    later = NOW + timedelta(minutes=1)
    assert look(later, (*more, make_node("s2", capacity_type="spot")), gone, second) == [
        False,
        True,
    ]
