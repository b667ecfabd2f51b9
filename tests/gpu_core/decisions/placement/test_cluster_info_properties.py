"""What holds for every sequence of taking and giving back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.policy.placement import Strategy
from gpu_core.testing.builders.workloads import make_node
from tests.gpu_core.decisions.placement.naive import NaiveRoom
from tests.support.examples import examples

RACKS = st.sampled_from([{}, {"rack": "a"}, {"rack": "b"}])
TAINTS = st.sampled_from([frozenset(), frozenset(), frozenset({"gpu"})])


@st.composite
def clusters(draw):
    """A few nodes that differ in all that counts."""
    return [
        make_node(
            name,
            draw(st.integers(0, 4)),
            gpu_type=draw(st.sampled_from(["a100-80gb", "t4"])),
            unhealthy_gpu_ids=draw(st.sampled_from([frozenset(), frozenset("0")])),
            cpu_milli=draw(st.sampled_from([None, 4000, 8000])),
            labels=draw(RACKS),
            taints=draw(TAINTS),
            is_shareable=(is_shareable := draw(st.booleans())),
            has_whole_gpus=not is_shareable or draw(st.booleans()),
        )
        for name in draw(st.permutations(["a", "b", "c", "d"]))
    ]


SHAPES = st.builds(
    Shape,
    gpu_count=st.integers(0, 3),
    nodes=st.sampled_from([1, 1, 1, 2]),
    gpu_types=st.sampled_from([(), (), ("t4",), ("t4", "a100-80gb")]),
    gpu_share_milli=st.sampled_from([1000, 1000, 300, 500, 700]),
    cpu_milli=st.sampled_from([0, 1000, 3000]),
    node_labels=st.sampled_from([(), (), (("rack", "a"),)]),
    tolerations=TAINTS,
    same_label=st.sampled_from([None, None, "rack"]),
    # Hypothesis would make up whatever is not said.
    gpu_memory_gib=st.none(),
    capacity_type=st.none(),
    mig_profile=st.none(),
    memory_mib=st.just(0),
    avoided_nodes=st.just(frozenset()),
    preferred_nodes=st.just(frozenset()),
)


def nodes_of(placement):
    return None if placement is None else [share.node for share in placement.shares]


@settings(max_examples=examples(150))
@given(
    clusters(),
    st.sampled_from(Strategy),
    st.lists(st.tuples(SHAPES, st.integers(0, 9)), max_size=20),
    st.data(),
)
def test_the_index_finds_what_a_search_of_everything_finds(nodes, strategy, steps, data):
    """The same nodes after any takes and gives, and nothing is ever taken twice."""
    cluster, naive, held = ClusterInfo(nodes, strategy), NaiveRoom(nodes), []
    for shape, dice in steps:
        placement = cluster.find(shape)
        if shape.gpu_count or shape.cpu_milli:
            assert nodes_of(placement) == naive.find(shape, strategy)
        if placement is not None:
            cluster.allocate(shape, placement)
            assert naive.change(shape, placement, -1)
            held.append((shape, placement))
        if held and dice < 5:
            shape, placement = held.pop(data.draw(st.integers(0, len(held) - 1)))
            cluster.release(shape, placement)
            assert naive.change(shape, placement, 1)


@given(clusters(), st.sampled_from(Strategy), st.lists(SHAPES), st.randoms(use_true_random=False))
def test_the_order_of_the_nodes_does_not_matter(nodes, strategy, shapes, rng):
    """The same places in the same order of arrival."""

    def places(cluster):
        cluster = ClusterInfo(cluster, strategy)
        for shape in shapes:
            placement = cluster.find(shape)
            if placement is not None:
                cluster.allocate(shape, placement)
            yield placement

    assert list(places(nodes)) == list(places(rng.sample(nodes, len(nodes))))


@given(clusters(), st.lists(SHAPES, min_size=1), SHAPES)
def test_what_is_not_free_cannot_be_taken_and_nothing_changes(nodes, shapes, probe):
    """A second take of the same GPUs is refused, also where only a part of it clashes."""
    cluster = ClusterInfo(nodes)
    for shape in shapes:
        placement = cluster.find(shape)
        if placement is None or not shape.is_whole or not shape.gpu_count:
            continue
        cluster.allocate(shape, placement)
        before = [cluster.find(probe), cluster.diagnose(probe)]
        with pytest.raises(InvalidInput):
            cluster.allocate(shape, placement)
        assert [cluster.find(probe), cluster.diagnose(probe)] == before


@given(clusters(), st.lists(SHAPES), SHAPES)
def test_what_is_given_back_is_there_again(nodes, shapes, probe):
    """After all releases the free resources are as before."""
    cluster, held = ClusterInfo(nodes), []
    fresh = [cluster.find(probe), cluster.diagnose(probe)]
    for shape in shapes:
        placement = cluster.find(shape)
        if placement is not None:
            cluster.allocate(shape, placement)
            held.append((shape, placement))
    for shape, placement in held:
        cluster.release(shape, placement)
    assert [cluster.find(probe), cluster.diagnose(probe)] == fresh


@given(clusters(), SHAPES)
def test_an_empty_cluster_holds_what_could_ever_fit(nodes, shape):
    """With all GPUs healthy, it fits now or never."""
    healthy = [make_node(n.name, 0, **_but_healthy(n)) for n in nodes]
    cluster = ClusterInfo(healthy)
    assert (cluster.find(shape) is None) == (cluster.never_fits(shape) is not None)


def _but_healthy(node):
    names = ("gpu_ids", "gpu_type", "cpu_milli", "labels", "taints")
    names += ("is_shareable", "has_whole_gpus")
    return {name: getattr(node, name) for name in names}
