"""A new attempt on spot prefers the zone that was best recently, and never waits for it."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.model.cluster import ZONE_LABEL
from gpu_core.decisions.model.virtual_nodes import planned_name
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.spot.capacity_view import CapacityView
from gpu_core.decisions.spot.next_attempt import NextAttempts
from gpu_core.decisions.spot.zones import Stay
from gpu_core.testing.builders.workloads import (
    NOW,
    make_allocation,
    make_node,
    make_policy,
    make_workload,
    with_shape,
)


def spot(name, zone, **fields):
    labels = {} if zone is None else {ZONE_LABEL: zone}
    return make_node(name, gpus=4, capacity_type="spot", labels=labels, **fields)


def coming(zone):
    """A node that a provisioner may add there."""
    return spot(planned_name(f"spot-{zone}", 0), zone, is_planned=True)


def stay(zone, hours, ended_h_ago=1.0, **fields):
    ended_at = NOW - timedelta(hours=ended_h_ago)
    return Stay(zone=zone, began_at=ended_at - timedelta(hours=hours), ended_at=ended_at, **fields)


# By name the nodes of `a` come first.
NODES = (spot("s1", "a"), spot("s2", "b"), spot("s3", "c"), make_node("t1", gpus=4))
B_IS_BEST = [stay("a", 0.5), stay("b", 5), stay("c", 1)]


def holding(*names):
    """Other runs hold all of these nodes."""
    return [
        make_allocation(
            make_workload(f"on-{name}", gpus=4), {name: "0 1 2 3"}, capacity_type="spot"
        )
        for name in names
    ]


def place(workload, stays, nodes=NODES, held=()):
    """Where does it go, and why there?"""
    view = CapacityView(
        nodes, make_policy(), NOW, allocations=held, stays={"a100-80gb": tuple(stays)}
    )
    asking = NextAttempts(view).of(workload, ())
    room = ClusterInfo(nodes)
    for allocation in held:
        room.observe(allocation.workload.shape, allocation.placement)
    placement = room.find(asking.shape)
    names = None if placement is None else " ".join(share.node for share in placement.shares)
    return names, asking.zone_reason


@pytest.mark.parametrize(
    ("stays", "world", "want"),
    [
        pytest.param([], {}, "s1", id="nothing is known: as the strategy orders"),
        pytest.param(B_IS_BEST, {}, "s2", id="the best zone"),
        pytest.param(B_IS_BEST, {"held": holding("s2")}, "s3", id="the best with room for it"),
        pytest.param(
            [stay("a", 0.5), stay("b", 5, 0.01), stay("c", 1)], {}, "s3", id="b has just failed"
        ),
        pytest.param(
            [stay(zone, 5, 0.001 * n) for n, zone in enumerate("abc")],
            {},
            "s1",
            id="all have just failed",
        ),
        pytest.param([stay("b", 5, 30)], {}, "s1", id="that was the day before yesterday"),
        pytest.param(
            [stay("a", 0.5), stay("b", 5, 0, was_interrupted=False)], {}, "s2", id="it still lives"
        ),
        pytest.param(
            B_IS_BEST, {"nodes": (spot("s1", None), spot("s2", None))}, "s1", id="no zones"
        ),
        pytest.param(
            B_IS_BEST, {"nodes": (spot("s1", "a"), coming("b"))}, "s1", id="what is there first"
        ),
        pytest.param(
            B_IS_BEST,
            {"nodes": (spot("s1", "a"), coming("a"), coming("b")), "held": holding("s1")},
            planned_name("spot-b", 0),
            id="of what may come the best zone",
        ),
        pytest.param(
            B_IS_BEST, {"nodes": NODES[:3]}, "s2", id="a pool of spot only has nothing to choose"
        ),
    ],
)
def test_the_zone_that_a_run_prefers(stays, world, want):
    names, reason = place(make_workload(gpus=2), stays, **world)
    assert names == want
    assert (reason is None) is (want in ("s1",))


def test_the_zone_and_its_numbers_are_shown():
    """4.8 h useful in `b`, .8 in `c`, .3 in `a`, 2 h in the mean, and a bonus of 14 min."""
    _, reason = place(make_workload(), B_IS_BEST)
    assert reason == "b: expected to provide 3h 36m of useful time, c 1h 36m, a 1h 21m"


def test_who_comes_first_takes_the_best_zone_and_the_next_the_second_best():
    view = CapacityView(NODES, make_policy(), NOW, stays={"a100-80gb": B_IS_BEST})
    asking = NextAttempts(view)
    found = [asking.of(make_workload(f"w{n}", gpus=4), ()) for n in range(4)]
    preferred = [sorted(workload.shape.preferred_nodes) for workload in found]
    # The third has no choice of zones left, and the fourth no spot.
    assert preferred == [["s2"], ["s3"], [], []]
    assert [workload.shape.capacity_type for workload in found] == ["spot"] * 3 + [None]


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({"capacity_type": "spot"}, "s2", id="its owner wants spot"),
        pytest.param({"capacity_type": "on-demand"}, "t1", id="on-demand has no zones"),
        pytest.param({"gpus": 0}, "", id="no GPU"),
    ],
)
def test_whom_it_concerns(fields, want):
    assert place(make_workload(**fields), B_IS_BEST)[0] == want


def test_a_gang_prefers_a_zone_that_holds_all_of_it():
    """Of the best one there is a node only."""
    nodes = (*NODES, spot("s4", "c"), spot("s5", "a"))
    gang = make_workload(gpus=4, nodes=2, capacity_type="spot")
    assert place(gang, B_IS_BEST, nodes)[0] == "s3 s4"
    assert place(with_shape(gang, nodes=3), B_IS_BEST, nodes)[0] == "s1 s2 s3"


def test_the_gpu_type_that_is_wanted_most_comes_before_the_zone():
    nodes = (spot("s1", "a"), spot("s2", "b", gpu_type="t4"))
    workload = make_workload(gpu_types=("a100-80gb", "t4"), capacity_type="spot")
    preferring = workload.shape._replace(preferred_nodes=frozenset({"s2", "gone"}))
    assert ClusterInfo(nodes).find(preferring).shares[0].node == "s1"
    assert ClusterInfo(nodes[1:]).find(preferring).shares[0].node == "s2"


@given(
    gpus=st.integers(1, 4),
    gang=st.integers(1, 3),
    preferred=st.sets(st.sampled_from(["s1", "s2", "s3", "t1", "gone"])),
    held=st.sets(st.sampled_from(["s1", "s2", "s3"])),
)
def test_a_preference_never_keeps_a_run_waiting(gpus, gang, preferred, held):
    """It is placed if and only if it would be without one, and there if it can."""
    room = ClusterInfo(NODES)
    for allocation in holding(*held):
        room.observe(allocation.workload.shape, allocation.placement)
    plain = make_workload(gpus=gpus, nodes=gang).shape
    found = room.find(plain._replace(preferred_nodes=frozenset(preferred)))
    assert (found is None) is (room.find(plain) is None)
    only = room.find(plain, allows=lambda name: name in preferred)
    if only is not None:
        assert {share.node for share in found.shares} <= preferred
