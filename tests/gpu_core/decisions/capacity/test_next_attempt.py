"""What the next attempt asks for: on-demand when spot keeps failing, or a deadline is near."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gpu_core.decisions.accounting import EndReason
from gpu_core.decisions.capacity.next_attempt import NextAttempts, spot_interruptions
from gpu_core.decisions.workload import RunTime, RunTimeSource
from tests.gpu_core.accounting_builders import make_attempt
from tests.strategies import NOW, ago, make_node, make_policy, make_workload

POLICY = make_policy()
SPOT = make_node("s1", capacity_type="spot")
STEADY = make_node("o1")
BOTH = (SPOT, STEADY)
H = 3600


def attempts(ends):
    """One a day: s is spot and interrupted, p spot and preempted, o on-demand and interrupted."""
    reasons = {"p": EndReason.PREEMPTED}
    return [
        make_attempt(
            number=number,
            node="x",
            capacity_type="on-demand" if end == "o" else "spot",
            admitted_at=ago(24 * H * (len(ends) - number + 2)),
            released_at=ago(24 * H * (len(ends) - number + 1)),
            end_reason=reasons.get(end, EndReason.INTERRUPTED),
        )
        for number, end in enumerate(ends, start=1)
    ]


@pytest.mark.parametrize(
    ("ends", "want"),
    [
        pytest.param("", 0, id="a first attempt"),
        pytest.param("ss", 2, id="twice in a row"),
        pytest.param("ssp", 0, id="a stay that spot did not end"),
        pytest.param("sspss", 2, id="counted from there"),
        pytest.param("soso", 2, id="what happened on on-demand does not count"),
    ],
)
def test_interruptions_on_spot_are_counted_in_a_row(ends, want):
    assert spot_interruptions(attempts(ends)) == want


@pytest.mark.parametrize(
    ("ends", "nodes", "asked", "section", "want_capacity"),
    [
        pytest.param("ss", BOTH, None, {}, None, id="twice: spot is tried again"),
        pytest.param("sss", BOTH, None, {}, "on-demand", id="the third is the last"),
        pytest.param("sss", BOTH, "spot", {}, "spot", id="the owner insists on spot"),
        pytest.param("sss", (SPOT,), None, {}, None, id="there is nothing but spot"),
        pytest.param(
            "sss", (SPOT, make_node("o1", gpus=0)), None, {}, None, id="on-demand without a GPU"
        ),
        pytest.param("s", BOTH, None, {"max_spot_interruptions": 1}, "on-demand", id="the policy"),
        pytest.param("s" * 9, BOTH, None, {"max_spot_interruptions": None}, None, id="for ever"),
    ],
)
def test_on_demand_when_spot_keeps_failing(ends, nodes, asked, section, want_capacity):
    workload = make_workload(capacity_type=asked)
    policy = make_policy(capacity=section)
    found = NextAttempts(nodes, policy, NOW).of(workload, attempts(ends))
    assert found.capacity_type == want_capacity
    assert found.avoided_nodes == frozenset()


def taking(hours, source=RunTimeSource.STATED):
    return RunTime(median_s=hours * H, upper_s=hours * H, source=source)


@pytest.mark.parametrize(
    ("due_h", "fields", "want_capacity"),
    [
        pytest.param(None, {"run_time": taking(10)}, None, id="no deadline"),
        pytest.param(20, {"run_time": taking(10)}, None, id="time enough for spot"),
        pytest.param(10.3, {"run_time": taking(10)}, "on-demand", id="no time for two changeovers"),
        pytest.param(
            10.3, {"run_time": taking(10), "remaining_s": 2 * H}, None, id="most of it is saved"
        ),
        pytest.param(5, {"run_time": taking(10)}, "on-demand", id="too late: nearest to it"),
        pytest.param(
            5, {"run_time": taking(10, RunTimeSource.LIMIT)}, None, id="a limit is no estimate"
        ),
        pytest.param(5, {}, None, id="nobody knows how long it takes"),
        pytest.param(
            20, {"run_time": taking(10), "queue": "critical"}, "on-demand", id="critical work"
        ),
    ],
)
def test_a_near_deadline_keeps_a_run_off_spot(due_h, fields, want_capacity):
    due = None if due_h is None else NOW + timedelta(hours=due_h)
    workload = make_workload(deadline_at=due, **fields)
    assert NextAttempts(BOTH, POLICY, NOW).of(workload, []).capacity_type == want_capacity


def test_what_failed_is_avoided_as_well():
    (attempt,) = attempts("o")
    asking = NextAttempts((*BOTH, make_node("x")), POLICY, attempt.released_at)
    assert asking.of(make_workload(), [attempt]).avoided_nodes == {"x"}
    assert asking.of(make_workload(), []).avoided_nodes == frozenset()


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
    asking = NextAttempts((cheap, dear, STEADY), policy, soon)
    assert asking.of(workload, []).capacity_type is None
    found = asking.of(workload, [failed])
    assert (found.capacity_type, found.avoided_nodes) == ("on-demand", {"x"})
