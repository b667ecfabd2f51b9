"""GPUs that one pool of nodes offers in another way than the next."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gpu_core.decisions.kubernetes.manifests.resources import gpu_resources, planned_share_milli
from gpu_core.decisions.kubernetes.nodes.nodes import node_facts
from gpu_core.decisions.kubernetes.nodes.virtual_nodes import planned_nodes
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.policy.policy import parse_policy
from gpu_core.decisions.policy.provisioned_nodes import ProvisionedNodes
from gpu_core.testing.builders.manifests import make_kubernetes_policy
from gpu_core.testing.builders.node_objects import GFD_A100, make_node_object

POOL = "example.com/pool"


def pool(name, **sharing):
    return {"match_labels": {POOL: name}, **sharing}


# One policy for a cluster of four pools, of which no node says how its GPUs are shared.
POLICY = make_kubernetes_policy(
    node_pools=[
        pool("by-4", shares_per_gpu=4, shared_gpu_resource="nvidia.com/gpu"),
        pool("by-10", shares_per_gpu=10),
        pool("by-48", shares_per_gpu=48, shared_gpu_resource="example.com/slice"),
        pool("mig", mig_strategy="single"),
    ]
)
A100 = {name: value for name, value in GFD_A100.items() if "replicas" not in name}
INSTANCES = A100 | {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"}
# By name: labels, the resource that is offered, how many, and the share of each.
POOLS = {
    "whole": (A100, "nvidia.com/gpu", 8, 1000),
    "by-4": (A100, "nvidia.com/gpu", 8, 250),
    "by-10": (A100, "nvidia.com/gpu.shared", 20, 100),
    "by-48": (A100, "example.com/slice", 96, 20),
    "mig": (INSTANCES | {"nvidia.com/gpu.count": "14"}, "nvidia.com/gpu", 14, 125),
}


def node_of(name):
    labels, resource, count, _ = POOLS[name]
    item = make_node_object({**labels, POOL: name}, gpus=count, resource=resource)
    item["metadata"]["name"] = name
    found = node_facts(item, (), POLICY, pool="gpus")
    assert found.contradictions == found.unusable == ()
    return found.node


NODES = {name: node_of(name) for name in POOLS}


def wanted(share):
    return Shape(gpu_share_milli=planned_share_milli(Shape(gpu_share_milli=share), POLICY))


@pytest.mark.parametrize(
    ("shape", "want_node", "want_resource", "want_milli"),
    [
        pytest.param(Shape(), "whole", {"nvidia.com/gpu": 1}, 1000, id="a whole GPU"),
        pytest.param(Shape(gpu_count=8), "whole", {"nvidia.com/gpu": 8}, 1000, id="eight"),
        pytest.param(wanted(250), "by-4", {"nvidia.com/gpu": 1}, 250, id="a quarter"),
        pytest.param(wanted(150), "by-4", {"nvidia.com/gpu": 1}, 250, id="less than a quarter"),
        pytest.param(wanted(100), "by-10", {"nvidia.com/gpu.shared": 1}, 100, id="a tenth"),
        pytest.param(wanted(5), "by-48", {"example.com/slice": 1}, 20, id="next to nothing"),
        pytest.param(
            Shape(mig_profile="1g.10gb"), "mig", {"nvidia.com/gpu": 1}, 125, id="an instance"
        ),
    ],
)
def test_a_run_gets_the_smallest_part_that_is_enough_by_its_nodes_name(
    shape, want_node, want_resource, want_milli
):
    placement = ClusterInfo(list(NODES.values())).find(shape)
    (share,) = placement.shares
    assert (share.node, share.share_milli) == (want_node, want_milli)
    assert gpu_resources(shape, POLICY, NODES[share.node].gpu_resource) == want_resource


def test_a_larger_part_will_do_where_the_smaller_ones_are_gone():
    cluster = ClusterInfo([NODES["by-4"], NODES["by-10"]])
    shape, got = wanted(100), []
    while (placement := cluster.find(shape)) and hasattr(placement, "shares"):
        cluster.allocate(shape, placement)
        got.append(placement.shares[0].share_milli)
    assert got == [100] * 20 + [250] * 8


REQUESTS = st.sampled_from(
    [
        Shape(),
        Shape(gpu_count=2),
        Shape(mig_profile="1g.10gb"),
        *map(wanted, (5, 20, 60, 100, 200, 250)),
    ]
)


@given(st.lists(REQUESTS, max_size=120), st.permutations(sorted(NODES)))
def test_no_pod_asks_for_what_its_node_has_not_left(shapes, order):
    cluster = ClusterInfo([NODES[name] for name in order])
    left = {name: {resource: count} for name, (_, resource, count, _) in POOLS.items()}
    for shape in shapes:
        placement = cluster.find(shape)
        if not hasattr(placement, "shares"):
            continue
        cluster.allocate(shape, placement)
        for share in placement.shares:
            asked = gpu_resources(shape, POLICY, NODES[share.node].gpu_resource)
            for resource, count in asked.items():
                left[share.node][resource] -= count
                assert left[share.node][resource] >= 0
            assert share.share_milli == POOLS[share.node][3]


@given(st.integers(2, 64), st.integers(1, 3))
def test_of_any_number_of_shares_all_are_given_and_no_more(shares, gpus):
    policy = make_kubernetes_policy(shares_per_gpu=shares)
    item = make_node_object(A100, gpus=shares * gpus, resource="nvidia.com/gpu.shared")
    cluster = ClusterInfo([node_facts(item, (), policy, pool="gpus").node])
    shape = Shape(gpu_share_milli=planned_share_milli(Shape(gpu_share_milli=1), policy))
    given_out = 0
    while (placement := cluster.find(shape)) and hasattr(placement, "shares"):
        cluster.allocate(shape, placement)
        given_out += 1
    assert given_out == shares * gpus


def test_the_pods_of_a_gang_ask_for_one_resource():
    """They are alike: a node that calls its GPUs otherwise would take none of them."""
    policy = make_kubernetes_policy(node_pools=[pool("other", gpu_resource="example.com/gpu")])
    nodes = []
    for number, name in enumerate(["plain", "other", "plain", "other"]):
        resource = "example.com/gpu" if name == "other" else "nvidia.com/gpu"
        item = make_node_object({**A100, POOL: name}, resource=resource)
        item["metadata"]["name"] = f"n{number}"
        nodes.append(node_facts(item, (), policy, pool="gpus").node)
    resource_of = {node.name: node.gpu_resource for node in nodes}
    placement = ClusterInfo(nodes).find(Shape(gpu_count=8, nodes=2))
    assert len({resource_of[share.node] for share in placement.shares}) == 1
    assert not hasattr(ClusterInfo(nodes).find(Shape(gpu_count=8, nodes=3)), "shares")


def kind(**labels):
    return ProvisionedNodes(
        name="k", gpu_type="a100-80gb", gpus_per_node=2, max_nodes=1, node_labels=labels
    )


@pytest.mark.parametrize(
    ("labels", "want_shares", "want_instances", "want_resource"),
    [
        pytest.param({}, None, None, "nvidia.com/gpu", id="nothing is said: whole GPUs"),
        pytest.param({POOL: "by-4"}, 4, None, "nvidia.com/gpu", id="a pool that shares"),
        pytest.param({POOL: "by-10"}, 10, None, "nvidia.com/gpu.shared", id="by another number"),
        pytest.param({POOL: "mig"}, None, None, "nvidia.com/gpu", id="MIG without a profile"),
        pytest.param(
            {POOL: "mig", "nvidia.com/mig.config": "all-1g.10gb"},
            None, {"1g.10gb": 14}, "nvidia.com/gpu", id="the MIG manager's configuration",
        ),
        pytest.param(
            {"nvidia.com/mig.config": "all-3g.40gb"},
            None, {"3g.40gb": 4}, "nvidia.com/mig-", id="by the names of profiles",
        ),
        pytest.param(
            {"nvidia.com/mig.config": "all-disabled"}, None, None, "nvidia.com/gpu", id="MIG is off"
        ),
        pytest.param(
            {"cloud.google.com/gke-max-shared-clients-per-gpu": "2"},
            2, None, "nvidia.com/gpu", id="GKE shares",
        ),
    ],
)  # fmt: skip
def test_nodes_to_come_are_divided_as_their_pool_says(
    labels, want_shares, want_instances, want_resource
):
    (node,) = planned_nodes([kind(**labels)], (), (), POLICY)
    assert (node.shares_per_gpu, node.mig_instances) == (want_shares, want_instances)
    assert (node.is_shareable, node.has_whole_gpus) == (bool(want_shares), not want_shares)
    assert (node.is_mig, node.gpu_resource) == (bool(want_instances), want_resource)


@pytest.mark.parametrize(
    ("pools", "want"),
    [
        pytest.param([{"shares_per_gpu": 4}], "match_labels", id="no labels"),
        pytest.param([pool("a", shares_per_gpu=1)], "shares_per_gpu", id="one share is no share"),
        pytest.param([pool("a", shares=4)], "shares_per_gpu", id="an unknown key"),
        pytest.param([pool("a", mig_strategy="singel")], "mig_strategy", id="an unknown strategy"),
        pytest.param(
            [pool("a"), {"match_labels": {POOL: "a", "zone": "z"}}],
            "kubernetes.node_pools.1.match_labels are already matched by entry 0",
            id="an entry that no node reaches",
        ),
    ],
)
def test_a_pool_that_cannot_be_meant_is_refused(pools, want):
    with pytest.raises((InvalidInput, ValidationError, ExceptionGroup)) as caught:
        parse_policy({"version": 1, "kubernetes": {"node_pools": pools}})
    assert want in str(caught.value)


def test_the_first_entry_that_matches_counts():
    policy = make_kubernetes_policy(
        node_pools=[
            {"match_labels": {POOL: "a", "zone": "z"}, "shares_per_gpu": 8},
            pool("a", shares_per_gpu=2),
        ]
    )
    labels = {POOL: "a", "zone": "z"}
    assert policy.sharing_of(labels).shares_per_gpu == 8
    assert policy.sharing_of({POOL: "a"}).shares_per_gpu == 2
    assert policy.sharing_of({}).shares_per_gpu == 4
    assert (
        policy.sharing_of(labels).stated["shares_per_gpu"].endswith("node_pools.0.shares_per_gpu")
    )
