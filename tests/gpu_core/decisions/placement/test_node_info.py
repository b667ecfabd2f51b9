"""What one node has left: whole GPUs, parts of GPUs, CPU and memory."""

import pytest

from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.placement.node_info import NodeInfo
from gpu_core.testing.builders.workloads import make_node

REPLICAS = {"is_shareable": True, "has_whole_gpus": False}


def part(milli, gpus=1):
    return Shape(gpu_count=gpus, gpu_share_milli=milli)


def shared_room(gpus=2, **changes):
    return NodeInfo(make_node("n", gpus, is_shareable=True, **changes))


def take(node_info, shape):
    assert node_info.fits(shape)
    share = node_info.share(shape)
    node_info.allocate(shape, share)
    return share


@pytest.mark.parametrize(
    ("shapes", "want_gpus"),
    [
        pytest.param([part(300), part(700)], ["0", "0"], id="parts fill one GPU"),
        pytest.param([part(300), part(800)], ["0", "1"], id="what does not fit begins another"),
        pytest.param(
            [part(300), part(800), part(200)], ["0", "1", "1"], id="on the fullest that fits"
        ),
        pytest.param([part(300), Shape()], ["0", "1"], id="a whole GPU is an untouched one"),
        pytest.param([part(300), part(300, 2)], ["0", "0 1"], id="two parts on different GPUs"),
    ],
)
def test_parts_of_gpus(shapes, want_gpus):
    """Best fit inside the node."""
    node_info = shared_room()
    assert [" ".join(take(node_info, shape).gpu_ids) for shape in shapes] == want_gpus


@pytest.mark.parametrize(
    ("node", "shape", "fits"),
    [
        pytest.param({}, part(500), False, id="a node that does not share"),
        pytest.param({"is_shareable": True}, part(500), True, id="one that does"),
        pytest.param({"is_shareable": True}, Shape(), True, id="one that shares if asked to"),
        pytest.param(REPLICAS, Shape(), False, id="a whole GPU where there are replicas only"),
        pytest.param(REPLICAS, part(500), True, id="a part where there are replicas only"),
        pytest.param(
            REPLICAS, Shape(gpu_count=0, cpu_milli=9), True, id="no GPU, on a node with replicas"
        ),
        pytest.param({}, Shape(cpu_milli=10**9), True, id="CPU that is not counted"),
        pytest.param({"cpu_milli": 999}, Shape(cpu_milli=1000), False, id="too little CPU"),
        pytest.param({"memory_mib": 10}, Shape(memory_mib=10), True, id="just enough memory"),
        pytest.param({"memory_mib": 9}, Shape(memory_mib=10), False, id="too little memory"),
        pytest.param({"taints": frozenset({"a"})}, Shape(), False, id="a taint"),
        pytest.param(
            {"taints": frozenset({"a"})},
            Shape(tolerations=frozenset({"a", "b"})),
            True,
            id="a taint that is tolerated",
        ),
        pytest.param(
            {"labels": {"rack": "a"}},
            Shape(node_labels=(("rack", "b"),)),
            False,
            id="another value of the label",
        ),
    ],
)
def test_which_nodes_hold_what(node, shape, fits):
    """Both now, and for ever."""
    node_info = ClusterInfo([make_node("n", 1, **node)])
    assert node_info["n"].fits(shape) == fits
    assert (node_info.find(shape) is not None) == fits
    never = node_info.never_fits(shape)
    assert (never is None) == fits
    if never is not None:
        assert never.summary.endswith(".")
        assert never.resolution.endswith(".")


def test_what_needs_no_gpu_goes_where_no_gpu_is_free():
    """CPU of free GPUs is kept for runs that want both."""
    shape = Shape(gpu_count=0, cpu_milli=3000)
    node_info = ClusterInfo([make_node("a", 1, cpu_milli=4000), make_node("b", 0, cpu_milli=4000)])
    first = node_info.find(shape)
    assert [(s.node, s.gpu_ids) for s in first.shares] == [("b", ())]
    assert first.flavor is None
    node_info.allocate(shape, first)
    second = node_info.find(shape)
    assert second.shares[0].node == "a"
    node_info.allocate(shape, second)
    assert node_info.find(shape) is None


def test_a_gang_stays_in_one_rack():
    """The rack with two free nodes, though a node of the other fits better."""
    nodes = [
        make_node("a", 1, labels={"rack": "x"}),
        make_node("b", 2, labels={"rack": "y"}),
        make_node("c", 2, labels={"rack": "y"}),
        make_node("d", 1),
    ]
    placement = ClusterInfo(nodes).find(Shape(nodes=2, same_label="rack"))
    assert [share.node for share in placement.shares] == ["b", "c"]
    never = ClusterInfo(nodes).never_fits(Shape(nodes=3, same_label="rack"))
    assert "of one rack" in never.summary


@pytest.mark.parametrize(
    ("shape", "share"),
    [
        pytest.param(Shape(), NodeShare(node="n", gpu_ids=("0",)), id="whole, and it is shared"),
        pytest.param(
            part(800), NodeShare(node="n", gpu_ids=("0",), share_milli=800), id="more than is left"
        ),
        pytest.param(
            part(100, 2), NodeShare(node="n", gpu_ids=("1", "1"), share_milli=100), id="one twice"
        ),
        pytest.param(
            Shape(gpu_count=2), NodeShare(node="n", gpu_ids=("1", "1")), id="a whole one twice"
        ),
        pytest.param(
            Shape(cpu_milli=2000), NodeShare(node="n", gpu_ids=("1",)), id="more CPU than is left"
        ),
        pytest.param(
            Shape(memory_mib=20), NodeShare(node="n", gpu_ids=("1",)), id="more memory than is left"
        ),
    ],
)
def test_what_is_not_free_is_refused(shape, share):
    """And nothing is taken."""
    node_info = shared_room(cpu_milli=1000, memory_mib=10)
    take(node_info, part(300))
    before = (
        node_info.free_ids,
        node_info.parts_left_milli,
        node_info.cpu_milli_left,
        node_info.memory_mib_left,
    )
    with pytest.raises(InvalidInput):
        node_info.allocate(shape, share)
    assert before == (
        node_info.free_ids,
        node_info.parts_left_milli,
        node_info.cpu_milli_left,
        node_info.memory_mib_left,
    )


@pytest.mark.parametrize(
    ("shape", "share"),
    [
        pytest.param(Shape(), NodeShare(node="n", gpu_ids=("1",)), id="a free GPU"),
        pytest.param(Shape(), NodeShare(node="n", gpu_ids=("0",)), id="a shared one as a whole"),
        pytest.param(
            part(400), NodeShare(node="n", gpu_ids=("0",), share_milli=400), id="too large a part"
        ),
    ],
)
def test_what_is_not_allocated_cannot_be_released(shape, share):
    """It would free resources that do not exist."""
    node_info = shared_room()
    take(node_info, part(300))
    with pytest.raises(InvalidInput):
        node_info.release(shape, share)
    assert (node_info.free_ids, node_info.parts_left_milli) == (("1",), {700})


def test_unknown_and_unhealthy_gpus_count_for_nothing():
    """Their allocation counts only the other GPUs, also when it is released."""
    node_info = NodeInfo(make_node("n", 2, unhealthy_gpu_ids=frozenset("0")))
    share = NodeShare(node="n", gpu_ids=("0", "1", "gone"))
    node_info.allocate(Shape(gpu_count=3), share)
    assert node_info.free_gpus == 0
    node_info.release(Shape(gpu_count=3), share)
    assert node_info.free_ids == ("1",)


def test_a_copy_is_another_room():
    """A what-if changes nothing."""
    node_info = shared_room()
    take(node_info.copy(), part(300))
    assert node_info.free_gpus == 2
