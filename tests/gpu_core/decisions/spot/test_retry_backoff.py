"""When a run is tried again that the cluster would not take."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.workload import Hold
from gpu_core.decisions.spot.capacity_view import CapacityView
from gpu_core.decisions.spot.next_attempt import NextAttempts
from gpu_core.decisions.spot.retry_backoff import postponed_hold
from gpu_core.testing.builders.attempts import make_attempt
from gpu_core.testing.builders.workloads import NOW, make_node, make_policy, make_workload

WHY = "Postponed: a ResourceQuota of the namespace refuses it: exceeded quota: q."
ENDS = {
    "q": EndReason.POSTPONED,
    "p": EndReason.PREEMPTED,
    "i": EndReason.INTERRUPTED,
    # An outage of the platform ended these: before the flow started, and after.
    "a": EndReason.POSTPONED,
    "A": EndReason.INTERRUPTED,
}


def attempts(ends):
    """One after the other, the last until now: q was postponed, p preempted, i interrupted, a and A
    excused."""
    return [
        make_attempt(
            number=number,
            node="o1",
            gpu_type="a100-80gb",
            admitted_at=NOW - timedelta(minutes=1),
            released_at=NOW,
            end_reason=ENDS[end],
            end_message=WHY,
            settlement={"excused_at": NOW.isoformat()} if end in "aA" else None,
        )
        for number, end in enumerate(ends, start=1)
    ]


@pytest.mark.parametrize(
    ("ends", "want_s"),
    [
        pytest.param("", 0, id="a first attempt"),
        pytest.param("p", 0, id="it was taken"),
        pytest.param("qp", 0, id="it was taken in the end"),
        pytest.param("q", 30, id="once"),
        pytest.param("qq", 60, id="twice"),
        pytest.param("qqpq", 30, id="counted anew once it was taken"),
        pytest.param("qqqqq", 300, id="at the latest after five minutes"),
        pytest.param("q" * 2000, 300, id="whatever happens"),
        pytest.param("a", 5, id="an outage"),
        pytest.param("aAa", 20, id="one that goes on"),
        pytest.param("Ai", 0, id="an interruption after it"),
        pytest.param("qqqa", 5, id="an outage after the cluster's refusals"),
        pytest.param("a" * 10, 300, id="an outage for twenty minutes"),
        pytest.param("a" * 11, 900, id="what a person has to correct"),
        pytest.param("a" * 2000, 900, id="an outage without end"),
        pytest.param("A" * 11, 300, id="a flow that began each time"),
    ],
)
def test_it_waits_for_longer_each_time(ends, want_s):
    def is_held(after_s):
        return postponed_hold(attempts(ends), NOW + timedelta(seconds=after_s)) is not None

    assert is_held(want_s - 1) is (want_s > 0)
    assert not is_held(want_s)


def test_it_says_why_and_when_it_is_tried_again():
    hold = postponed_hold(attempts("q"), NOW)
    assert hold is not None
    assert (hold.reason, hold.summary) == (Reason.WAITING_FOR_CLUSTER_QUOTA, WHY)
    assert f"{NOW + timedelta(seconds=30):%H:%M:%S} UTC" in hold.resolution


def test_it_reaches_the_plan_and_says_nothing_of_the_place():
    """A node that was never reached is not left alone; a person's hold comes first."""

    def asked(ends, **workload):
        view = CapacityView([make_node("o1")], make_policy(), NOW)
        return NextAttempts(view).of(make_workload(**workload), attempts(ends))

    found = asked("q")
    assert found.hold is not None
    assert found.hold.reason is Reason.WAITING_FOR_CLUSTER_QUOTA
    assert not found.shape.avoided_nodes
    assert found.takes_free_only
    assert not asked("qi").takes_free_only
    assert asked("iq").shape.avoided_nodes == {"o1"}
    held = Hold(reason=Reason.HELD, summary="Held.", resolution="Release it.")
    assert asked("q", hold=held).hold == held


def test_an_outage_says_nothing_of_the_place_and_leaves_the_run_its_rank():
    """It was no interruption of its node, and the run may take GPUs from others as before."""
    view = CapacityView([make_node("o1")], make_policy(), NOW)
    for ends in ("a", "A"):
        found = NextAttempts(view).of(make_workload(), attempts(ends))
        assert found.hold is not None
        assert found.hold.reason is Reason.WAITING_FOR_PLATFORM
        assert not found.shape.avoided_nodes
        assert not found.takes_free_only


def test_no_run_gives_way_for_a_start_that_a_person_has_to_make_possible():
    view = CapacityView([make_node("o1")], make_policy(), NOW)
    for ends, want in (("a" * 10, False), ("a" * 11, True), ("a" * 11 + "i", False)):
        found = NextAttempts(view).of(make_workload(), attempts(ends))
        assert found.takes_free_only is want


def test_the_pause_after_an_outage_begins_when_its_end_is_judged():
    """The attempt may have ended long before the API was back."""
    (first,) = attempts("a")
    later = replace(first, settlement={"excused_at": (NOW + timedelta(minutes=10)).isoformat()})
    assert postponed_hold([later], NOW + timedelta(minutes=10, seconds=4)) is not None
    assert postponed_hold([later], NOW + timedelta(minutes=10, seconds=5)) is None
