"""Which node comes first, by the policy's strategy."""

import pytest

from gpu_core.decisions.model.cluster import NodeShare, Placement
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.measurements import NodeLoad
from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.policy.placement import Strategy
from gpu_core.testing.builders.workloads import make_node, make_policy

NODES = [make_node("a", 4), make_node("b", 8), make_node("c", 2)]


def held(node, ids):
    gpu_ids = tuple(ids.split())
    share = NodeShare(node=node, gpu_ids=gpu_ids)
    placement = Placement(gpu_type="a100-80gb", capacity_type="on-demand", shares=(share,))
    return Shape(gpu_count=len(gpu_ids)), placement


@pytest.mark.parametrize(
    ("strategy", "holders", "want"),
    [
        pytest.param("best-fit", [], ["c", "c", "a", "a"], id="the smallest rest first"),
        pytest.param("spread", [], ["b", "b", "b", "b"], id="the most free GPUs"),
        pytest.param(
            "least-loaded", [("b", "0 1 2 3 4 5")], ["a", "c", "a", "a"], id="the least part in use"
        ),
        pytest.param("round-robin", [], ["a", "b", "c", "a"], id="one after the other"),
        pytest.param(
            "round-robin",
            [("a", "0"), ("a", "1"), ("c", "0 1")],
            ["b", "b", "a", "b"],
            id="one after the other, from what is so",
        ),
    ],
)
def test_where_four_workloads_go(strategy, holders, want):
    """One GPU each, in turn."""
    cluster = ClusterInfo(NODES, Strategy(strategy))
    for holder in holders:
        cluster.allocate(*held(*holder))
    got = []
    for _ in range(4):
        placement = cluster.find(Shape())
        cluster.allocate(Shape(), placement)
        got.append(placement.shares[0].node)
    assert got == want


def test_round_robin_forgets_who_has_left():
    """It is a function of who is there, not of who was."""
    cluster = ClusterInfo(NODES, Strategy.ROUND_ROBIN)
    first = cluster.find(Shape())
    cluster.allocate(Shape(), first)
    cluster.release(Shape(), first)
    assert cluster.find(Shape()) == first


def test_the_policy_names_the_strategy():
    """Best fit unless it says otherwise; other names are refused."""
    assert make_policy().placement.strategy is Strategy.BEST_FIT
    assert make_policy(placement={"strategy": "spread"}).placement.strategy is Strategy.SPREAD
    with pytest.raises(InvalidInput, match=r"placement\.strategy"):
        make_policy(placement={"strategy": "worst-fit"})


QUARTER = Shape(gpu_share_milli=250)


def load(ratio, held_milli=0):
    return NodeLoad(load_ratio=ratio, held_milli=held_milli)


@pytest.mark.parametrize(
    ("strategy", "loads", "want"),
    [
        pytest.param("least-loaded", {}, ["a", "b", "a", "a"], id="unmeasured: by what is held"),
        pytest.param(
            *("least-loaded", {"a": load(0.9), "b": load(0.1)}, ["b", "b", "b", "b"]),
            id="the node whose GPUs do the least",
        ),
        pytest.param(
            *("least-loaded", {"a": load(0.3), "b": load(0.1)}, ["b", "b", "a", "b"]),
            id="what came after the measurement counts in full",
        ),
        pytest.param(
            *("least-loaded", {"a": load(0.3)}, ["b", "a", "a", "b"]),
            id="a node without a measurement counts by what is held",
        ),
        pytest.param(
            *("best-fit", {"a": load(0.9), "b": load(0.1)}, ["a", "a", "a", "a"]),
            id="other strategies read no measurement",
        ),
    ],
)
def test_where_four_quarters_of_a_gpu_go(strategy, loads, want):
    cluster = ClusterInfo([make_node(n, 2, is_shareable=True) for n in "ab"], Strategy(strategy))
    cluster.set_loads(loads)
    got = []
    for _ in range(4):
        placement = cluster.find(QUARTER)
        cluster.allocate(QUARTER, placement)
        got.append(placement.shares[0].node)
    assert got == want


def test_a_measurement_says_nothing_of_nodes_with_whole_gpus_and_is_forgotten():
    cluster = ClusterInfo([make_node(name, 2) for name in "ab"], Strategy.LEAST_LOADED)
    cluster.set_loads({"a": load(0.9)})
    assert cluster.find(Shape()).shares[0].node == "a"

    shared = ClusterInfo(
        [make_node(name, 2, is_shareable=True) for name in "ab"], Strategy.LEAST_LOADED
    )
    shared.set_loads({"a": load(0.9)})
    assert shared.find(QUARTER).shares[0].node == "b"
    shared.set_loads({})
    assert shared.find(QUARTER).shares[0].node == "a"


def test_what_held_the_node_while_it_was_measured_counts_once():
    cluster = ClusterInfo(
        [make_node(name, 2, is_shareable=True) for name in "ab"], Strategy.LEAST_LOADED
    )
    cluster.observe(QUARTER, on("a"))
    cluster.observe(QUARTER, on("b"))
    cluster.set_loads({"a": load(0.2, 250), "b": load(0.2)})
    assert cluster.find(QUARTER).shares[0].node == "a", "b's quarter came after its measurement"


def on(node):
    share = NodeShare(node=node, gpu_ids=("0",), share_milli=250)
    return Placement(gpu_type="a100-80gb", capacity_type="on-demand", shares=(share,))
