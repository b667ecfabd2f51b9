"""The fewest moves that free a node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.model.cluster import NodeShare, Placement
from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.placement.workloads_to_move import Movable, propose_moves
from gpu_core.testing.builders.workloads import make_node


def holder(node, ids, lost_gpu_s=0.0):
    """A workload, named for its place, on these GPUs of the node."""
    gpu_ids = tuple(ids.split())
    return Movable(
        workload_id=f"{node}{gpu_ids[0]}",
        shape=Shape(gpu_count=len(gpu_ids)),
        placement=Placement(
            gpu_type="a100-80gb",
            capacity_type="on-demand",
            shares=(NodeShare(node=node, gpu_ids=gpu_ids),),
        ),
        lost_gpu_s=lost_gpu_s,
    )


def room_with(holders, gpus=4, names="abc"):
    cluster = ClusterInfo([make_node(name, gpus) for name in names])
    for one in holders:
        cluster.allocate(one.shape, one.placement)
    return cluster


FOUR = Shape(gpu_count=4)
TWO_NODES = Shape(gpu_count=4, nodes=2)


@pytest.mark.parametrize(
    ("holders", "shape", "max_moves", "want"),
    [
        pytest.param([], FOUR, 0, {}, id="it fits as it is"),
        pytest.param(
            [holder("a", "0"), holder("b", "0", 9.0), holder("c", "0 1")],
            FOUR,
            1,
            {"a0": "c"},
            id="the least work is lost, to where it fits best",
        ),
        pytest.param(
            [holder("a", "0"), holder("a", "1"), holder("b", "0", 9.0), holder("c", "0", 10.0)],
            FOUR,
            2,
            {"b0": "a"},
            id="fewer moves go before less work",
        ),
        pytest.param(
            [holder("a", "0"), holder("b", "0"), holder("c", "0 1")],
            TWO_NODES,
            2,
            {"a0": "c", "b0": "c"},
            id="a gang",
        ),
        pytest.param(
            [holder("a", "0"), holder("b", "0"), holder("c", "0 1")],
            TWO_NODES,
            1,
            None,
            id="more moves than allowed",
        ),
        pytest.param(
            [holder("a", "0 1"), holder("b", "0 1 2"), holder("c", "0 1 2")],
            FOUR,
            3,
            None,
            id="nowhere to go",
        ),
    ],
)
def test_who_moves_where(holders, shape, max_moves, want):
    """Workload by workload, with the node that each goes to."""
    moves = propose_moves(room_with(holders), shape, holders, max_moves)
    got = None if moves is None else {m.workload_id: m.to.shares[0].node for m in moves}
    assert got == want


def test_the_run_that_loses_most_is_spared_first():
    """Moving either of two is enough."""
    movable = [holder("a", "0", 1.0), holder("a", "1", 9.0)]
    fixed = [holder("a", "2"), holder("b", "0 1 2"), holder("c", "0 1 2 3")]
    moves = propose_moves(room_with(movable + fixed), Shape(gpu_count=2), movable, 2)
    assert [(move.workload_id, move.to.shares[0].node) for move in moves] == [("a0", "b")]


def test_a_run_that_may_not_move_stays():
    """Only those that are offered."""
    holders = [holder("a", "0"), holder("b", "0"), holder("c", "0", 5.0)]
    moves = propose_moves(room_with(holders), FOUR, holders[2:], 3)
    assert [move.workload_id for move in moves] == ["c0"]
    assert propose_moves(room_with(holders), FOUR, [], 3) is None


@given(
    st.lists(st.tuples(st.integers(1, 3), st.floats(0, 9)), max_size=8),
    st.integers(1, 4),
    st.integers(1, 2),
    st.integers(0, 4),
)
def test_moves_that_are_proposed_make_room(workloads, gpus, nodes, max_moves):
    """Carried out one after the other they succeed; the room is as before until then."""
    cluster, holders = ClusterInfo([make_node(name, 4) for name in "abc"]), []
    for gpu_count, lost_gpu_s in workloads:
        placement = cluster.find(Shape(gpu_count=gpu_count))
        if placement is not None:
            ids = " ".join(placement.gpu_ids)
            holders.append(holder(placement.shares[0].node, ids, lost_gpu_s))
            cluster.allocate(holders[-1].shape, placement)
    by_id = {one.workload_id: one for one in holders}
    shape = Shape(gpu_count=gpus, nodes=nodes)
    before = [cluster[name].free_ids for name in "abc"]
    moves = propose_moves(cluster, shape, holders, max_moves)
    assert [cluster[name].free_ids for name in "abc"] == before
    if moves is None:
        assert cluster.find(shape) is None
        return
    assert len(moves) <= max_moves
    for move in moves:
        mover = by_id[move.workload_id]
        cluster.allocate(mover.shape, move.to)
        cluster.release(mover.shape, mover.placement)
    assert cluster.find(shape) is not None
