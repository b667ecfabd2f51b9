"""Where MIG instances go."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.catalog.mig import MIG_PROFILES, best_start, slices_of
from gpu_core.decisions.model.cluster import NodeShare, Placement
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.placement.node_info import NodeInfo
from gpu_core.testing.builders.workloads import make_node

# The numbers of instances that NVIDIA's tables state, in the order of `MIG_PROFILES`.
MOST_OF_A30 = (4, 2, 1)
MOST_IN_EIGHTHS = (7, 4, 3, 2, 1, 1)


def instance(profile):
    return Shape(mig_profile=profile)


def mig_room(gpus=1, gpu_type="a100-40gb", name="n"):
    return NodeInfo(make_node(name, gpus, gpu_type=gpu_type, is_mig=True))


def choose(node_info, shape):
    return node_info.share(shape) if node_info.fits(shape) else None


def fill(room, profile):
    """How many instances of the profile fit, taking each."""
    count = 0
    while (share := choose(room, instance(profile))) is not None:
        room.allocate(instance(profile), share)
        count += 1
    return count


@pytest.mark.parametrize("gpu_type", MIG_PROFILES)
def test_as_many_instances_as_nvidia_states(gpu_type):
    """An empty GPU holds the stated number of each profile."""
    want = MOST_OF_A30 if gpu_type == "a30" else MOST_IN_EIGHTHS
    got = tuple(fill(mig_room(gpu_type=gpu_type), name) for name in MIG_PROFILES[gpu_type])
    assert got == want


@pytest.mark.parametrize(
    ("profiles", "want_starts"),
    [
        pytest.param(["7g.40gb"], [0], id="the whole GPU"),
        pytest.param(["4g.20gb", "3g.20gb"], [0, 4], id="both halves"),
        pytest.param(
            ["3g.20gb", "4g.20gb"], [4, 0], id="the smaller leaves the start of the larger"
        ),
        pytest.param(
            ["1g.5gb", "4g.20gb", "2g.10gb"], [6, 0, 4], id="out of the way of the others"
        ),
        pytest.param(["2g.10gb", "2g.10gb", "3g.20gb"], [4, 2, None], id="no half is left"),
        pytest.param(["4g.20gb", "4g.20gb"], [0, None], id="only one may be so large"),
    ],
)
def test_where_an_instance_begins(profiles, want_starts):
    """Where it leaves most starts to others."""
    room, starts = mig_room(), []
    for profile in profiles:
        share = choose(room, instance(profile))
        starts.append(None if share is None else share.mig_starts[0])
        if share is not None:
            room.allocate(instance(profile), share)
    assert starts == want_starts


def test_the_gpu_with_the_least_left_comes_first():
    """Whole GPUs stay whole, and where nothing fits the next one is used."""
    room = mig_room(gpus=2)
    got = []
    for profile in ("3g.20gb", "1g.5gb", "3g.20gb", "2g.10gb"):
        share = choose(room, instance(profile))
        room.allocate(instance(profile), share)
        got.append(share.gpu_ids)
    assert got == [("0",), ("0",), ("1",), ("0",)]


def test_a_room_prefers_the_node_with_the_least_left():
    """An instance goes to the node whose GPU is partitioned already."""
    nodes = [make_node(name, 1, gpu_type="h200", is_mig=True) for name in "ab"]
    room = ClusterInfo(nodes)
    shape = instance("3g.71gb")
    on_b = Placement(
        gpu_type="h200",
        capacity_type="on-demand",
        shares=(NodeShare(node="b", gpu_ids=("0",), mig_starts=(4,)),),
    )
    room.allocate(shape, on_b)
    assert room.find(shape).shares[0].node == "b"
    assert room.find(instance("7g.141gb")).shares[0].node == "a"
    room.release(shape, on_b)
    assert room.find(shape).shares[0].node == "a"


def test_a_room_divides_no_other_gpu_while_an_instance_fits_on_one_that_is_divided():
    """Though the first node's divided GPU, which has no start left for it, is the fuller one."""
    nodes = [make_node(name, 2, gpu_type="h200", is_mig=True) for name in "ab"]
    room = ClusterInfo(nodes)
    for node, profile in (("a", "4g.71gb"), ("a", "1g.18gb"), ("b", "1g.18gb")):
        room.allocate(
            instance(profile), room.find(instance(profile), allows=lambda n, a=node: n == a)
        )
    placement = room.find(instance("3g.71gb"))
    assert [(share.node, share.gpu_ids) for share in placement.shares] == [("b", ("0",))]


@pytest.mark.parametrize(
    ("shape", "want"),
    [
        pytest.param(
            instance("1g.6gb"),
            "the MIG profile 1g.6gb. Available MIG profiles: 1g.18gb, 1g.35gb",
            id="mig",
        ),
        pytest.param(Shape(), "Requires whole GPUs", id="whole"),
        pytest.param(Shape(gpu_share_milli=500), "Requires 0.5 of a GPU", id="shared"),
    ],
)
def test_what_a_partitioned_node_never_holds(shape, want):
    """Other products' profiles, and whatever wants no instance."""
    never = ClusterInfo([make_node(gpu_type="h200", is_mig=True)]).never_fits(shape)
    assert want in never.summary


def partitioned(**instances):
    """A node with such instances for us, whatever else its GPUs could be divided into."""
    return make_node("n", 2, gpu_type="a100-80gb", is_mig=True, mig_instances=instances)


@pytest.mark.parametrize(
    ("shape", "instances", "want"),
    [
        pytest.param(instance("1g.10gb"), {"1g.10gb": 1}, True, id="one that is there"),
        pytest.param(instance("3g.40gb"), {"1g.10gb": 14}, False, id="a larger one"),
        pytest.param(instance("1g.10gb"), {"1g.10gb": 0}, False, id="others have all of them"),
        pytest.param(instance("1g.10gb+me"), {"1g.10gb": 1}, False, id="media extensions"),
        pytest.param(instance("1g.10gb+me"), {"1g.10gb+me": 1}, True, id="such as are there"),
        pytest.param(
            Shape(gpu_count=2, mig_profile="1g.10gb"), {"1g.10gb": 1}, False, id="two of one"
        ),
        pytest.param(
            Shape(gpu_count=2, mig_profile="1g.10gb"), {"1g.10gb": 2}, True, id="two of two"
        ),
    ],
)
def test_instances_that_are_there_once_and_for_all(shape, instances, want):
    room = ClusterInfo([partitioned(**instances)])
    assert (room.find(shape) is not None) == want
    assert (room.never_fits(shape) is None) == want


def test_what_instances_there_are_is_listed():
    never = ClusterInfo([partitioned(**{"1g.10gb": 3, "2g.20gb": 0})]).never_fits(
        instance("3g.40gb")
    )
    assert never.summary == (
        "No matching GPU provides the MIG profile 3g.40gb. Available MIG profiles: 1g.10gb."
    )


def test_no_more_instances_are_given_than_there_are():
    """The GPUs would have slices for more."""
    room = ClusterInfo([partitioned(**{"1g.10gb": 2, "2g.20gb": 1})])
    small, large = instance("1g.10gb"), instance("2g.20gb")
    first = room.find(small)
    room.allocate(small, first)
    room.allocate(small, room.find(small))
    assert room.find(small) is None
    assert room.find(large) is not None
    with pytest.raises(InvalidInput, match="has too few free MIG instances"):
        room.allocate(small, first)
    copy = room["n"].copy()
    room.release(small, first)
    assert room.find(small) is not None
    assert not copy.fits(small)


def test_nodes_with_different_instances_are_kept_apart():
    other = make_node("m", 2, gpu_type="a100-80gb", is_mig=True, mig_instances={"7g.80gb": 2})
    room = ClusterInfo([other, partitioned(**{"1g.10gb": 14})])
    assert [s.node for s in room.find(instance("1g.10gb")).shares] == ["n"]
    assert [s.node for s in room.find(instance("7g.80gb")).shares] == ["m"]


@pytest.mark.parametrize(
    ("gpu_type", "profile", "want_milli"),
    [
        pytest.param("a100-80gb", "1g.10gb", 125, id="an eighth of the memory"),
        pytest.param("a100-40gb", "1g.10gb", 250, id="the same memory of a smaller GPU"),
        pytest.param("a100-80gb", "3g.40gb", 500, id="half"),
        pytest.param("a30", "1g.6gb", 250, id="an A30 has four slices"),
        pytest.param("a100-80gb", "1g.10gb+me", 125, id="media extensions"),
    ],
)
def test_an_instance_counts_as_its_part_of_the_gpu(gpu_type, profile, want_milli):
    """It is paid so."""
    assert choose(mig_room(gpu_type=gpu_type), instance(profile)).share_milli == want_milli


@pytest.mark.parametrize(
    ("profile", "starts"),
    [
        pytest.param("3g.20gb", (2,), id="a start that the profile does not have"),
        pytest.param("1g.5gb", (), id="no start"),
        pytest.param("1g.6gb", (0,), id="a profile of another product"),
        pytest.param("1g.5gb", (0, 1), id="more starts than GPUs"),
    ],
)
def test_impossible_instances_are_refused(profile, starts):
    """And nothing is taken."""
    room = mig_room()
    share = NodeShare(node="n", gpu_ids=("0",), share_milli=125, mig_starts=starts)
    with pytest.raises(InvalidInput):
        room.allocate(instance(profile), share)
    assert room.free_gpus == 1


@given(st.data(), st.sampled_from(sorted(MIG_PROFILES)))
def test_instances_never_overlap_and_fit_whenever_a_start_is_free(data, gpu_type):
    """Against slices counted one by one, over takes and gives in any order."""
    room, held = mig_room(gpu_type=gpu_type), []
    compute = slices_of(gpu_type) if gpu_type == "a30" else 7
    for name in data.draw(st.lists(st.sampled_from(sorted(MIG_PROFILES[gpu_type])), max_size=12)):
        profile = MIG_PROFILES[gpu_type][name]
        taken = [
            s
            for other, share in held
            for s in range(
                share.mig_starts[0],
                share.mig_starts[0] + MIG_PROFILES[gpu_type][other].memory_slices,
            )
        ]
        assert len(set(taken)) == len(taken)
        assert max(taken, default=0) < slices_of(gpu_type)
        assert sum(int(other[0]) for other, _ in held) <= compute
        possible = [
            s
            for s in profile.starts
            if not set(range(s, s + profile.memory_slices)).intersection(taken)
        ]
        share = choose(room, instance(name))
        assert (share is not None) == bool(possible)
        if share is not None:
            assert share.mig_starts[0] in possible
            room.allocate(instance(name), share)
            held.append((name, share))
        if held and data.draw(st.booleans()):
            given_back = held.pop(data.draw(st.integers(0, len(held) - 1)))
            room.release(instance(given_back[0]), given_back[1])
    assert (room.free_gpus == 1) == (not held)


@given(st.sampled_from(sorted(MIG_PROFILES["h200"])), st.integers(0, 255))
def test_the_best_start_leaves_the_most_starts(name, taken):
    """No other start would leave more, counted by trying all."""
    profiles = MIG_PROFILES["h200"]

    def left(start):
        after = taken | profiles[name].slices_from(start)
        return sum(not after & p.slices_from(s) for p in profiles.values() for s in p.starts)

    free = [s for s in profiles[name].starts if not taken & profiles[name].slices_from(s)]
    best = best_start("h200", name, taken)
    assert (best is None) == (not free)
    if best is not None:
        assert best in free
        assert left(best) == max(map(left, free))
