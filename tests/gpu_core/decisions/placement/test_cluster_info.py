"""Where workloads go, and what is said about those that fit nowhere."""

import pytest
from hypothesis import given

from gpu_core.decisions.model.cluster import NodeShare, Placement
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.placement.diagnostics import NotPlaced, never_fits
from gpu_core.testing.builders.workloads import make_node, make_workload
from tests import strategies


def room_with(nodes, free=None):
    """All GPUs are free, or only these."""
    cluster = ClusterInfo(nodes)
    for node in nodes:
        taken = tuple(g for g in node.gpu_ids if free is not None and g not in free[node.name])
        cluster.allocate(Shape(), placed(node, taken))
    return cluster


def placed(node, gpu_ids):
    share = NodeShare(node=node.name, gpu_ids=gpu_ids)
    return Placement(gpu_type=node.gpu_type, capacity_type=node.capacity_type, shares=(share,))


def shares(result):
    assert isinstance(result, Placement)
    return [(share.node, " ".join(share.gpu_ids)) for share in result.shares]


TWO_TYPES = (make_node("a", 2), make_node("t", 4, gpu_type="t4", gpu_memory_gib=16))


@pytest.mark.parametrize(
    ("workload", "nodes", "free", "want_shares"),
    [
        pytest.param(
            make_workload(gpus=2),
            (make_node("big", 8), make_node("small", 4)),
            {"big": ("0", "1", "2"), "small": ("1", "3")},
            [("small", "1 3")],
            id="on the node that is left with the fewest GPUs",
        ),
        pytest.param(
            make_workload(gpus=1),
            (make_node("b"), make_node("a")),
            None,
            [("a", "0")],
            id="among equals the first by name, lowest GPU first",
        ),
        pytest.param(
            make_workload(gpus=2, gpu_types=("t4", "a100-80gb")),
            TWO_TYPES,
            None,
            [("t", "0 1")],
            id="preference goes before a better fit",
        ),
        pytest.param(
            make_workload(gpus=2, gpu_types=("t4", "a100-80gb")),
            TWO_TYPES,
            {"a": ("0", "1"), "t": ("0",)},
            [("a", "0 1")],
            id="the second choice when the first is taken",
        ),
        pytest.param(
            make_workload(gpus=2), TWO_TYPES, None, [("a", "0 1")], id="any type: the best fit"
        ),
        pytest.param(
            make_workload(gpu_memory_gib=24),
            (make_node("a", gpu_memory_gib=None), make_node("b", gpu_memory_gib=24)),
            None,
            [("b", "0")],
            id="unknown memory does not satisfy a need",
        ),
        pytest.param(
            make_workload(gpus=2),
            (make_node("a", 3, unhealthy_gpu_ids=frozenset("0")),),
            None,
            [("a", "1 2")],
            id="unhealthy GPUs are left out",
        ),
        pytest.param(
            make_workload(capacity_type="spot"),
            (make_node("a"), make_node("b", capacity_type="spot")),
            None,
            [("b", "0")],
            id="only the capacity that was asked for",
        ),
        pytest.param(
            make_workload(gpus=2, nodes=2),
            (make_node("a", 8), make_node("b", 4), make_node("c", 2)),
            None,
            [("c", "0 1"), ("b", "0 1")],
            id="a gang on different nodes, those with the fewest left over",
        ),
        pytest.param(
            make_workload(gpus=2, nodes=2),
            (make_node("a", 2), make_node("b", 2, gpu_type="t4"), make_node("c", 8), TWO_TYPES[1]),
            {"a": ("0", "1"), "b": ("0", "1"), "c": ("0",), "t": ("0", "1", "2", "3")},
            [("b", "0 1"), ("t", "0 1")],
            id="a gang stays within one GPU type",
        ),
    ],
)
def test_place(workload, nodes, free, want_shares):
    """Best fit, within what was asked for."""
    assert shares(room_with(nodes, free).find(workload.shape)) == want_shares


def test_no_gpu_needs_no_node():
    """A run without GPUs has a place in an empty cluster."""
    want = Placement(gpu_type=None, capacity_type="on-demand", shares=())
    assert ClusterInfo(()).find(Shape(gpu_count=0)) == want


@pytest.mark.parametrize("planned", ["a", "b"])
def test_a_node_that_exists_comes_before_a_planned_one(planned):
    """By name or fit the other one would be as good."""
    nodes = [make_node(name, 4, is_planned=name == planned) for name in "ab"]
    placement = ClusterInfo(nodes).find(Shape(gpu_count=1))
    assert [share.node for share in placement.shares] == ["b" if planned == "a" else "a"]


def test_a_gang_gets_all_or_nothing():
    """Three nodes fit, four are needed: the numbers say how many are missing."""
    nodes = (*(make_node(f"n{i}", 2) for i in range(4)), make_node("sick", 2))
    cluster = room_with(nodes, {n.name: n.gpu_ids for n in nodes} | {"n3": ("0",), "sick": ()})
    shape = Shape(gpu_count=2, nodes=4)
    want = NotPlaced(usable_gpus=10, free_gpus=7, most_free_on_one_node=2, unhealthy_gpus=0)
    assert cluster.find(shape) is None
    assert cluster.diagnose(shape) == want


@pytest.mark.parametrize(
    ("workload", "nodes", "want_summary", "want_resolution"),
    [
        pytest.param(
            make_workload(),
            (),
            "No GPUs are available in this pool.",
            "You can add a node",
            id="no node",
        ),
        pytest.param(
            make_workload(),
            (make_node(gpus=0),),
            "No GPUs are available in this pool",
            "You can add a node",
            id="no GPU",
        ),
        pytest.param(
            make_workload(gpu_types=("a100-40gb",)),
            TWO_TYPES,
            "No a100-40gb GPU is available in this pool. Available GPU types: a100-80gb, t4.",
            "You can set `gpu_type` to 'a100-80gb' or 'auto', or add a matching node.",
            id="no such type, but a near one",
        ),
        pytest.param(
            make_workload(gpu_types=("b200", "x")),
            TWO_TYPES,
            "No b200 or x GPU is available in this pool. Available GPU types: a100-80gb, t4.",
            "You can set `gpu_type` to 'auto', or",
            id="no such type",
        ),
        pytest.param(
            make_workload(capacity_type="spot"),
            TWO_TYPES,
            "No matching spot GPU is available. Available capacity types: on-demand.",
            "You can set `capacity_type` to 'auto'",
            id="no such capacity",
        ),
        pytest.param(
            make_workload(gpu_memory_gib=141),
            TWO_TYPES,
            "Requires GPUs with 141 GiB, but the memory of matching GPUs is at most 80 GiB.",
            "You can reduce `gpu_memory_gib`",
            id="memory",
        ),
        pytest.param(
            make_workload(gpu_memory_gib=1),
            (make_node(gpu_memory_gib=None),),
            "Requires GPUs with 1 GiB, but the memory of matching GPUs is not known.",
            "You can reduce `gpu_memory_gib`",
            id="unknown memory",
        ),
        pytest.param(
            make_workload(),
            (make_node(is_shareable=True, has_whole_gpus=False),),
            "Requires whole GPUs, but all matching GPUs are shared.",
            "You can request a gpu_fraction, or add a node with whole GPUs.",
            id="replicas only",
        ),
        pytest.param(
            make_workload(),
            (
                make_node("a", is_shareable=True, has_whole_gpus=False),
                make_node("b", is_mig=True),
            ),
            "Requires whole GPUs, but all matching GPUs are partitioned with MIG or shared.",
            "You can request a gpu_fraction or a mig_profile, or add a node with whole GPUs.",
            id="replicas and MIG instances",
        ),
        pytest.param(
            make_workload(gpus=5),
            TWO_TYPES,
            "Requires 5 GPUs on a single node, but the largest matching node has 4.",
            "The value of `gpu_count` must be less than or equal to 4",
            id="more than the largest node has",
        ),
        pytest.param(
            make_workload(gpus=2, nodes=2),
            TWO_TYPES,
            "Requires 2 nodes of one GPU type and capacity type with 2 GPUs each, but at "
            "most 1 are available.",
            "The value of `nodes` must be less than or equal to 1",
            id="two nodes, but of two types",
        ),
    ],
)
def test_what_can_never_fit(workload, nodes, want_summary, want_resolution):
    """The first filter that leaves nothing is named, with what there is and a remedy."""
    never = never_fits(workload.shape, nodes)
    assert never is not None
    assert never.summary.startswith(want_summary)
    assert never.resolution.startswith(want_resolution)
    assert never.numbers


def test_an_unhealthy_gpu_may_be_mended():
    """It may fit again some day, so it is not reported as never fitting."""
    node = make_node(gpus=2, unhealthy_gpu_ids=frozenset("1"))
    assert never_fits(Shape(gpu_count=2), (node,)) is None


@given(strategies.snapshots(), strategies.workloads("w"))
def test_a_place_satisfies_every_wish(snapshot, workload):
    """Different nodes of one kind, healthy free GPUs, the right number of each."""
    nodes = {node.name: node for node in snapshot.nodes}
    result = ClusterInfo(snapshot.nodes).find(workload.shape)
    if result is None:
        return
    assert never_fits(workload.shape, snapshot.nodes) is None
    assert len({share.node for share in result.shares}) == len(result.shares)
    assert len(result.shares) == (workload.shape.nodes if workload.shape.gpu_count else 0)
    for share in result.shares:
        assert_share_is_right(workload, nodes[share.node], share, result)


def assert_share_is_right(workload, node, share: NodeShare, placement: Placement):
    assert len(set(share.gpu_ids)) == len(share.gpu_ids) == workload.shape.gpu_count
    assert set(share.gpu_ids) <= set(node.gpu_ids) - node.unhealthy_gpu_ids
    assert (node.gpu_type, node.capacity_type) == (placement.gpu_type, placement.capacity_type)
    assert not workload.shape.gpu_types or node.gpu_type in workload.shape.gpu_types
    assert workload.shape.capacity_type in (None, node.capacity_type)
    if workload.shape.gpu_memory_gib is not None:
        assert node.gpu_memory_gib is not None
        assert node.gpu_memory_gib >= workload.shape.gpu_memory_gib


@given(strategies.snapshots(), strategies.workloads("w"))
def test_more_free_gpus_never_take_a_place_away(snapshot, workload):
    """What fits on some GPUs fits on more of them."""
    some = {node.name: node.gpu_ids[::2] for node in snapshot.nodes}
    if room_with(snapshot.nodes, some).find(workload.shape) is not None:
        assert ClusterInfo(snapshot.nodes).find(workload.shape) is not None


def test_a_gang_is_taken_whole_or_not_at_all():
    """The second node is in use: the first stays free."""
    nodes = (make_node("a", 1), make_node("b", 1))
    cluster = ClusterInfo(nodes)
    gang = cluster.find(Shape(nodes=2))
    cluster.allocate(Shape(), placed(nodes[1], ("0",)))
    with pytest.raises(InvalidInput):
        cluster.allocate(Shape(nodes=2), gang)
    assert cluster["a"].free_gpus == 1
    assert shares(cluster.find(Shape())) == [("a", "0")]


def test_a_gang_on_parts_of_gpus_gets_different_nodes():
    """Though one node has two GPUs with enough left."""
    cluster = ClusterInfo([make_node(name, 2, is_shareable=True) for name in "ab"])
    for milli in (500, 700):
        shape = Shape(gpu_share_milli=milli)
        cluster.allocate(shape, cluster.find(shape))
    assert shares(cluster.find(Shape(nodes=2, gpu_share_milli=300))) == [("a", "1"), ("b", "0")]
