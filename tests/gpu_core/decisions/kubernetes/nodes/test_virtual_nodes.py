"""Nodes that may still come: how many, how they are asked for, and what lands on them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.kubernetes.manifests.launch import Wanted
from gpu_core.decisions.kubernetes.nodes.nodes import NodeFacts
from gpu_core.decisions.kubernetes.nodes.virtual_nodes import landed, planned_nodes, wanted_for
from gpu_core.decisions.model.cluster import NodeShare, Placement
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.virtual_nodes import planned_kind
from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.policy.placement import Strategy
from gpu_core.decisions.policy.policy import parse_policy
from gpu_core.decisions.policy.provisioned_nodes import ProvisionedNodes
from gpu_core.testing.builders.workloads import make_node

ZONE, MACHINE = "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type"


def kind(name="big", **fields):
    ordinary = {"gpu_type": "a100-80gb", "gpus_per_node": 8, "max_nodes": 3}
    return ProvisionedNodes(name=name, **(ordinary | fields))


def real(name="r", gpus=8, foreign=0, zone=None, instance_type=None, **fields):
    labels = {ZONE: zone, MACHINE: instance_type}
    known = {label: value for label, value in labels.items() if value is not None}
    return NodeFacts(
        node=make_node(name, gpus - foreign, labels=known, **fields), foreign_gpus=foreign
    )


def names(kinds, there=(), awaited=()):
    return [node.name for node in planned_nodes(kinds, there, awaited)]


@pytest.mark.parametrize(
    ("kinds", "there", "awaited", "want_names"),
    [
        pytest.param([], [real()], [], [], id="nothing can be added"),
        pytest.param([kind(max_nodes=2)], [], [], ["new/big/0", "new/big/1"], id="all can"),
        pytest.param([kind(max_nodes=2)], [real()], [], ["new/big/0"], id="one is there"),
        pytest.param([kind(max_nodes=1)], [real()], [], [], id="as many as there may be"),
        pytest.param(
            [kind(max_nodes=1)], [real(foreign=5)], [], [], id="GPUs that others hold count"
        ),
        pytest.param(
            [kind(max_nodes=1)], [real(gpus=0)], [], [], id="it has joined, its GPUs have not"
        ),
        pytest.param([kind(max_nodes=1)], [real(gpus=4)], [], ["new/big/0"], id="another machine"),
        pytest.param(
            [kind(max_nodes=1)],
            [real(gpu_type="t4"), real("s", capacity_type="spot")],
            [],
            ["new/big/0"],
            id="another type, another capacity",
        ),
        pytest.param(
            [kind(max_nodes=1, zone="a")], [real(zone="b")], [], ["new/big/0"], id="another zone"
        ),
        pytest.param(
            [kind(max_nodes=1, instance_type="p4de.24xlarge")],
            [real(instance_type="p4de.24xlarge")],
            [],
            [],
            id="this machine type",
        ),
        pytest.param(
            [kind(max_nodes=2)],
            [],
            ["new/big/1"],
            ["new/big/1", "new/big/0"],
            id="one is waited for: one more may come",
        ),
        pytest.param(
            [kind(max_nodes=1)],
            [real()],
            ["new/big/0"],
            ["new/big/0"],
            id="waited for all the same",
        ),
        pytest.param(
            [kind("a", max_nodes=1), kind("b", max_nodes=2)],
            [real("x"), real("y")],
            [],
            ["new/b/0"],
            id="a node counts for one kind only",
        ),
        pytest.param([kind("a")], [], ["new/b/0"], ["new/a/0", "new/a/1", "new/a/2"], id="other's"),
    ],
)
def test_as_many_nodes_may_come_as_are_missing(kinds, there, awaited, want_names):
    assert names(kinds, there, awaited) == want_names


@given(max_nodes=st.integers(1, 9), there=st.integers(0, 9), awaited=st.sets(st.integers(0, 12)))
def test_never_more_than_allowed_and_none_that_is_awaited_is_lost(max_nodes, there, awaited):
    held = {f"new/big/{number}" for number in awaited}
    found = names([kind(max_nodes=max_nodes)], [real(str(n)) for n in range(there)], held)
    assert held <= set(found)
    assert len(found) == len(set(found))
    assert len(found) == max(len(held), max_nodes - there)
    assert {planned_kind(name) for name in found} <= {"big"}


def test_a_planned_node_is_like_the_one_that_will_come():
    (node,) = planned_nodes(
        [kind(max_nodes=1, zone="z", instance_type="m", cpu=90.5, memory_gib=1000)], (), ()
    )
    assert (node.gpu_type, len(node.gpu_ids), node.gpu_memory_gib) == ("a100-80gb", 8, 80)
    assert (node.cpu_milli, node.memory_mib) == (90_500, 1_024_000)
    assert node.labels == {ZONE: "z", MACHINE: "m"}
    assert node.is_planned


def placement(*nodes, ids=("0",), milli=1000, capacity_type="spot"):
    return Placement(
        gpu_type="a100-80gb",
        capacity_type=capacity_type,
        shares=tuple(NodeShare(node=node, gpu_ids=tuple(ids), share_milli=milli) for node in nodes),
    )


@pytest.mark.parametrize(
    ("nodes", "want_labels"),
    [
        pytest.param(["new/big/0"], ((ZONE, "z"),), id="one node"),
        pytest.param(["new/big/0", "new/big/4"], ((ZONE, "z"),), id="a gang of one kind"),
        pytest.param(["new/big/0", "new/far/0"], (), id="a gang of two kinds"),
        pytest.param(["new/big/0", "n1"], (), id="a gang that is partly there"),
        pytest.param(["new/gone/0"], (), id="a kind that was taken from the policy"),
    ],
)
def test_what_is_to_come_is_asked_for_by_its_labels(nodes, want_labels):
    kinds = (kind(zone="z"), kind("far", zone="y"))
    want = Wanted(gpu_types=("a100-80gb",), capacity_types=("spot",), node_labels=want_labels)
    assert wanted_for(placement(*nodes), kinds) == want


def test_what_is_there_is_not_asked_for():
    assert wanted_for(placement("n1", "n2"), (kind(),)) is None
    assert wanted_for(placement(), (kind(),)) is None


@pytest.mark.parametrize(
    ("taken", "milli", "wanted", "want_ids"),
    [
        pytest.param({}, 1000, 2, ("0", "1"), id="the first that are free"),
        pytest.param({"0": 1000, "2": 1000}, 1000, 2, ("1", "3"), id="past what others hold"),
        pytest.param({"0": 1000, "1": 1000, "2": 1000}, 1000, 2, None, id="not enough are free"),
        pytest.param({"0": 800, "1": 500}, 500, 1, ("1",), id="a shared GPU with room comes first"),
        pytest.param({"0": 500}, 1000, 4, None, id="a shared GPU is not whole"),
    ],
)
def test_a_pod_on_a_real_node_holds_gpus_that_none_of_ours_has(taken, milli, wanted, want_ids):
    planned = placement("new/big/0", ids="x" * wanted, milli=milli)
    milli_of = {("n1", gpu_id): amount for gpu_id, amount in taken.items()}
    node = make_node("n1", 4, capacity_type="on-demand")
    found = landed(planned, [node], milli_of)
    if want_ids is None:
        assert found is None
        return
    assert found == placement("n1", ids=want_ids, milli=milli, capacity_type="on-demand")


def test_healthy_gpus_come_first_and_gangs_share_by_share():
    nodes = [make_node("n1", 3, unhealthy_gpu_ids=frozenset("0")), make_node("n2", 3)]
    found = landed(placement("new/big/0", "n2", ids="01"), nodes, {})
    assert found is not None
    assert [(s.node, s.gpu_ids) for s in found.shares] == [("n1", ("1", "2")), ("n2", ("0", "1"))]


NEW_A100 = make_node("a-new", 8, is_planned=True)
NEW_T4 = make_node("t-new", 8, gpu_type="t4", is_planned=True)
T4 = make_node("t-old", 8, gpu_type="t4")
SMALL = make_node("z-small", 2)


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize(
    ("shape", "want_nodes"),
    [
        pytest.param(Shape(), {"z-small", "t-old"}, id="whatever is there"),
        pytest.param(
            Shape(gpu_types=("a100-80gb", "t4")), {"z-small"}, id="there, and of the first type"
        ),
        pytest.param(
            Shape(gpu_count=4, gpu_types=("a100-80gb", "t4")),
            {"t-old"},
            id="what is there wins over what is wanted more",
        ),
        pytest.param(Shape(gpu_count=4, gpu_types=("a100-80gb",)), {"a-new"}, id="only new ones"),
        pytest.param(
            Shape(nodes=2, gpu_types=("a100-80gb",)), {"a-new", "z-small"}, id="a gang over both"
        ),
    ],
)
def test_what_is_there_comes_before_what_has_to_come(strategy, shape, want_nodes):
    found = ClusterInfo((NEW_A100, NEW_T4, T4, SMALL), strategy).find(shape)
    assert found is not None
    nodes = {share.node for share in found.shares}
    assert nodes == want_nodes if shape.nodes > 1 else nodes <= want_nodes


@pytest.mark.parametrize(
    ("kinds", "want_message"),
    [
        pytest.param([{"name": "Big/1"}], "provisioned.0.name", id="a name with a slash"),
        pytest.param([{"name": "a"}, {"name": "a"}], "name of another kind", id="a name twice"),
        pytest.param([{"name": "a", "max_nodes": 0}], "max_nodes", id="no node"),
        pytest.param([{"name": "a", "capacity_type": "spto"}], "spot", id="a capacity misspelled"),
    ],
)
def test_what_is_wrong_in_the_policy_is_named(kinds, want_message):
    ordinary = {"gpu_type": "t4", "gpus_per_node": 4, "max_nodes": 2}
    data = {"version": 1, "kubernetes": {"provisioned": [ordinary | given for given in kinds]}}
    with pytest.raises(InvalidInput, match=want_message):
        parse_policy(data)
