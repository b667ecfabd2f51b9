"""Where a run that was interrupted is not tried again, and when it is."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.decisions.policy.capacity import CapacityPolicy
from gpu_core.decisions.spot.node_avoidance import (
    avoided_nodes,
    avoided_until,
    spot_failures,
    spot_left_alone_until,
)
from gpu_core.testing.builders.attempts import make_attempt
from gpu_core.testing.builders.workloads import make_node

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
POLICY = CapacityPolicy()
CHANGEOVER_S = POLICY.changeover_s
ZONE = "topology.kubernetes.io/zone"


def node(name, capacity_type="on-demand", zone="z1", gpu_type="a10g"):
    labels = {ZONE: zone} if zone else {}
    return make_node(name, gpu_type=gpu_type, capacity_type=capacity_type, labels=labels)


NODES = (
    node("od-1"),
    node("od-2"),
    node("spot-1", "spot"),
    node("spot-2", "spot"),
    node("spot-3", "spot", zone="z2"),
    node("spot-t4", "spot", gpu_type="t4"),
    node("new/big/0"),
    node("new/big/1"),
    node("new/small/0"),
)


def ended(number, ended_min_ago, lasted_min=5, reason=EndReason.INTERRUPTED, **fields):
    released_at = NOW - timedelta(minutes=ended_min_ago)
    return make_attempt(
        number=number,
        admitted_at=released_at - timedelta(minutes=lasted_min),
        released_at=released_at,
        end_reason=reason,
        **{"node": "od-1", "zone": "z1", **fields},
    )


def hung_gang(faulty_nodes):
    shares = tuple(NodeShare(node=name, gpu_ids=("0",)) for name in ("od-1", "od-2"))
    settlement = {"faulty_nodes": faulty_nodes}
    return ended(1, 9, reason=EndReason.HUNG, shares=shares, settlement=settlement)


def spot(number, ended_min_ago, **fields):
    return ended(number, ended_min_ago, capacity_type="spot", **{"node": "gone", **fields})


@pytest.mark.parametrize(
    ("attempts", "want_avoided"),
    [
        pytest.param([], set(), id="nothing has happened yet"),
        pytest.param([ended(1, 9)], {"od-1"}, id="the node that was lost"),
        pytest.param([ended(1, 11)], set(), id="ten minutes are over"),
        pytest.param([ended(1, 60), ended(2, 19)], {"od-1"}, id="twice as long the second time"),
        pytest.param([ended(1, 60), ended(2, 21)], set(), id="and then no longer"),
        pytest.param(
            [ended(1, 600, lasted_min=500), ended(2, 11)],
            set(),
            id="an interruption after hours of work does not double it",
        ),
        pytest.param([ended(1, 9, reason=EndReason.HUNG)], {"od-1"}, id="the node that it hung on"),
        pytest.param([hung_gang(["od-2"])], {"od-2"}, id="the node of the rank that hung"),
        pytest.param([hung_gang([])], {"od-1", "od-2"}, id="each node of a gang that hung"),
        pytest.param([hung_gang(None)], {"od-1", "od-2"}, id="of an older version"),
        pytest.param([hung_gang("od-2")], {"od-1", "od-2"}, id="what cannot be understood"),
        pytest.param([hung_gang(["od-9"])], {"od-1", "od-2"}, id="a node that it never had"),
        pytest.param([ended(1, 1, reason=EndReason.PREEMPTED)], set(), id="preempted by our own"),
        pytest.param([ended(1, 1, reason=EndReason.FAILED)], set(), id="failed by itself"),
        pytest.param(
            [spot(1, 1)], {"spot-1", "spot-2"}, id="all spot of that type in that zone, node gone"
        ),
        pytest.param([spot(1, 1, zone="z2")], {"spot-3"}, id="only in the zone that failed"),
        pytest.param([spot(1, 1, gpu_type="t4")], {"spot-t4"}, id="only the type that failed"),
        pytest.param([spot(1, 1, zone=None)], set(), id="an unknown zone is none of these"),
        pytest.param(
            [ended(1, 1, node="new/big/0")],
            {"new/big/0", "new/big/1"},
            id="no node of that kind came",
        ),
        pytest.param(
            [ended(n, 30 * (20 - n)) for n in range(1, 20)], {"od-1"}, id="failed all night"
        ),
    ],
)
def test_what_failed_lately_is_left_alone(attempts, want_avoided):
    assert avoided_nodes(attempts, NODES, POLICY, NOW, CHANGEOVER_S) == want_avoided


def test_each_node_has_its_own_time():
    attempts = [ended(1, 60), ended(2, 19), ended(3, 2, node="od-2")]
    assert avoided_until(attempts, NODES, POLICY, NOW, CHANGEOVER_S) == {
        "od-1": NOW + timedelta(minutes=1),
        "od-2": NOW + timedelta(minutes=8),
    }


def test_each_node_of_a_gang_may_be_what_failed_it():
    shares = tuple(NodeShare(node=name, gpu_ids=("0",)) for name in ("od-1", "od-2"))
    attempt = ended(1, 1, gpu_ids=("0", "0"), shares=shares)
    assert avoided_nodes([attempt], NODES, POLICY, NOW, CHANGEOVER_S) == {"od-1", "od-2"}


def test_where_no_node_has_a_zone_spot_of_that_type_is_one_place():
    nodes = (node("a", "spot", zone=None), node("b", "spot", zone=None), node("c", zone=None))
    assert avoided_nodes([spot(1, 1, zone=None)], nodes, POLICY, NOW, CHANGEOVER_S) == {"a", "b"}


@given(failures=st.integers(1, 40), ended_min_ago=st.floats(0, 1_000))
def test_nothing_is_avoided_for_longer_than_the_longest_back_off(failures, ended_min_ago):
    attempts = [ended(n, ended_min_ago + 10 * (failures - n)) for n in range(1, failures + 1)]
    avoided = avoided_nodes(attempts, NODES, POLICY, NOW, CHANGEOVER_S)
    backoff_min = min(360, 10 * 2 ** (failures - 1))
    assert avoided == ({"od-1"} if ended_min_ago < backoff_min else set())


def in_a_row(ends):
    """s is spot and interrupted at once, l after a day, p preempted; o is on-demand. An hour each
    lies between them, and the last ended now."""
    reasons = {"p": EndReason.PREEMPTED}
    return [
        ended(
            number,
            60 * (len(ends) - number),
            lasted_min=24 * 60 if end == "l" else 5,
            reason=reasons.get(end, EndReason.INTERRUPTED),
            capacity_type="on-demand" if end == "o" else "spot",
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
        pytest.param("sslss", 2, id="and from a stay that paid"),
        pytest.param("llll", 0, id="spot that lasts pays, however often it ends"),
        pytest.param("soso", 2, id="what happened on on-demand does not count"),
    ],
)
def test_failures_on_spot_are_counted_in_a_row(ends, want):
    assert len(spot_failures(in_a_row(ends), changeover_s=600)) == want


@pytest.mark.parametrize(
    ("ends", "section", "want_min"),
    [
        pytest.param("ss", {}, None, id="two are allowed"),
        pytest.param("sss", {}, 40, id="the third doubles ten minutes twice"),
        pytest.param("ssss", {}, 80, id="one more, twice as long"),
        pytest.param("s" * 9, {}, 360, id="six hours at most"),
        pytest.param("s" * 80, {}, 360, id="however often"),
        pytest.param("sso", {"max_spot_interruptions": 2}, None, id="from the failure on"),
        pytest.param("sss", {"max_spot_interruptions": None}, None, id="the policy: never"),
    ],
)
def test_all_spot_is_left_alone_for_a_while(ends, section, want_min):
    policy = CapacityPolicy.model_validate(section)
    want = None if want_min is None else NOW + timedelta(minutes=want_min)
    attempts = in_a_row(ends)
    assert spot_left_alone_until(attempts, policy, NOW, CHANGEOVER_S) == want
    if want is not None:
        assert spot_left_alone_until(attempts, policy, want, CHANGEOVER_S) is None
