"""No GPU is held twice in the plan, also with pods of other systems."""

from gpu_core.decisions.kubernetes.nodes.overlap import without_overlap
from gpu_core.decisions.model.cluster import Allocation, NodeShare, Placement
from gpu_core.decisions.model.workload import Workload
from gpu_core.testing.builders.attempts import NOON


def an_allocation(name, *places, share_milli=1000):
    """One that holds there: `n1: 0 1`."""
    shares = []
    for place in places:
        node, _, ids = place.partition(": ")
        shares.append(NodeShare(node=node, gpu_ids=tuple(ids.split()), share_milli=share_milli))
    return Allocation(
        workload=Workload(workload_id=name, name=name, priority=1, submitted_at=NOON),
        attempt=1,
        placement=Placement(gpu_type="a10g", capacity_type="spot", shares=tuple(shares)),
        admitted_at=NOON,
    )


def held(*allocations):
    return [
        [f"{share.node}: {' '.join(share.gpu_ids)}" for share in allocation.placement.shares]
        for allocation in without_overlap(allocations)
    ]


def test_what_no_other_holds_stays():
    one, other = an_allocation("a", "n1: 0", "n2: 0"), an_allocation("b", "n1: 1", "n2: 1")
    assert without_overlap([one, other]) == (one, other)


def test_the_first_one_keeps_what_both_have():
    assert held(an_allocation("a", "n1: 0"), an_allocation("b", "n1: 0 1", "n2: 0")) == [
        ["n1: 0"],
        ["n1: 1", "n2: 0"],
    ]


def test_parts_of_a_gpu_are_held_together_until_it_is_full():
    parts = [an_allocation(name, "n1: 0", share_milli=400) for name in "abc"]
    assert held(*parts) == [["n1: 0"], ["n1: 0"], ["n1: "]]
