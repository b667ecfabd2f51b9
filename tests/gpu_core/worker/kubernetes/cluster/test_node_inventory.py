"""What a cluster offers, with the nodes that may still come."""

import pytest

from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.testing.builders.workloads import make_allocation, make_policy, make_workload
from gpu_core.worker.kubernetes.cluster.node_inventory import NodeInventory

POLICY = make_policy(
    kubernetes={
        "provisioned": [{"name": "big", "gpu_type": "t4", "gpus_per_node": 4, "max_nodes": 2}]
    }
)


class View:
    """A cluster that is given, not watched."""

    def __init__(self, *names):
        self.nodes = {}
        self.dirty = set()
        for name in names:
            self.add(name)

    def add(self, name):
        self.nodes[name] = {
            "metadata": {"name": name, "labels": {"nvidia.com/gpu.product": "Tesla-T4"}},
            "spec": {},
            "status": {
                "capacity": {"nvidia.com/gpu": "4"},
                "allocatable": {"nvidia.com/gpu": "4"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        self.dirty.add(name)

    def pods_on(self, _name):
        return ()

    def take_dirty_nodes(self):
        dirty, self.dirty = self.dirty, set()
        return dirty


def waiting_for(node, gpus="0 1 2 3", name="w"):
    return make_allocation(make_workload(name, 4), {node: gpus}, "t4")


def usable(offers, *allocations):
    """The nodes with GPUs that may be used, by name."""
    nodes = offers.nodes(POLICY, allocations)
    return [node.name for node in nodes if set(node.gpu_ids) - node.unhealthy_gpu_ids]


@pytest.mark.parametrize(
    ("there", "held", "want_nodes"),
    [
        pytest.param([], [], ["new/big/0", "new/big/1"], id="an empty cluster"),
        pytest.param(["n1"], [], ["n1", "new/big/0"], id="one is there"),
        pytest.param(["n1", "n2", "n3"], [], ["n1", "n2", "n3"], id="more than would come"),
        pytest.param(["n1"], ["new/big/0"], ["new/big/0"], id="one is there, one is waited for"),
    ],
)
def test_what_may_come_is_offered_after_what_is_there(there, held, want_nodes):
    offers = NodeInventory(View(*there), "gpus")
    found = usable(offers, *(waiting_for(node) for node in held))
    # At the worker's first look it is unknown for whom a node came.
    assert found == want_nodes


def test_a_node_that_comes_is_kept_for_those_who_wait_for_it():
    view = View("n1")
    offers = NodeInventory(view, "gpus")
    assert usable(offers) == ["n1", "new/big/0"]
    view.add("n2")
    assert usable(offers, waiting_for("new/big/0")) == ["n1", "new/big/0"]
    # Its pod is bound: the attempt holds the real node, and no run waits any more.
    assert usable(offers, waiting_for("n2")) == ["n1", "n2"]


def test_a_node_that_came_for_no_run_is_used_by_all():
    view = View("n1")
    offers = NodeInventory(view, "gpus")
    usable(offers)
    view.add("n2")
    assert usable(offers) == ["n1", "n2"]


def test_a_run_that_waits_without_end_does_not_close_a_node_for_ever():
    view = View("n1")
    offers = NodeInventory(view, "gpus")
    usable(offers)
    view.add("n2")
    usable(offers, waiting_for("new/big/0"))
    assert usable(offers) == ["n1", "n2"]


READY = {"type": "Ready", "status": "True"}


def node_pool(name, limit):
    wanted = {
        "node.kubernetes.io/instance-type": ["p5.48xlarge"],
        "karpenter.sh/capacity-type": ["on-demand"],
    }
    template = {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpus"},
        "requirements": [
            {"key": key, "operator": "In", "values": values} for key, values in wanted.items()
        ],
    }
    return {
        "metadata": {"name": name},
        "spec": {"template": {"spec": template}, "limits": {"nvidia.com/gpu": limit}},
        "status": {"conditions": [READY]},
    }


def test_node_pools_are_offered_and_one_that_cannot_be_read_is_left_out():
    pools = [node_pool("ml", "8"), node_pool("odd", "many")]
    offers = NodeInventory(View(), "gpus")
    nodes = offers.nodes(make_policy(), (), pools)
    assert [node.name for node in nodes] == ["new/ml-on-demand-8x-h100-80gb/0"]


def test_the_log_says_once_why_a_pool_adds_nothing(caplog):
    offers, pool = NodeInventory(View(), "gpus"), node_pool("ml", "8")
    pool["status"]["conditions"] = [READY | {"status": "False", "reason": "NodeClassNotReady"}]
    with caplog.at_level("WARNING", "prefect.gpu.offers"):
        for _ in range(3):
            assert offers.nodes(make_policy(), (), [pool]) == ()
    assert [record.getMessage() for record in caplog.records] == [
        "NodePool ml cannot add nodes: it is not Ready (NodeClassNotReady)"
    ]


def test_the_last_node_of_a_pool_is_kept_for_who_waits_for_it():
    """Karpenter counts it as used while it is still on its way."""
    name = "new/ml-on-demand-8x-h100-80gb/0"
    pool = node_pool("ml", "8")
    pool["status"]["resources"] = {"nvidia.com/gpu": "8"}
    holder = make_allocation(make_workload("w", 8), {name: "0 1 2 3 4 5 6 7"}, "h100-80gb")
    offers = NodeInventory(View(), "gpus")
    assert [node.name for node in offers.nodes(make_policy(), (holder,), [pool])] == [name]
    assert offers.nodes(make_policy(), (), [pool]) == ()


def test_of_two_kinds_with_one_name_the_policys_counts():
    name = "ml-on-demand-8x-h100-80gb"
    kind = {"name": name, "gpu_type": "t4", "gpus_per_node": 4, "max_nodes": 1}
    policy = make_policy(kubernetes={"provisioned": [kind]})
    (node,) = NodeInventory(View(), "gpus").nodes(policy, (), [node_pool("ml", "8")])
    assert (node.name, node.gpu_type) == (f"new/{name}/0", "t4")


def of_template(**pod_spec):
    return {"job_configuration": {"job_manifest": {"spec": {"template": {"spec": pod_spec}}}}}


def test_what_the_template_refuses_is_not_offered_and_what_it_tolerates_is_open():
    """Its pods would wait there in vain; and a change of the template counts at once."""
    view, template = View("n1", "n2"), {}
    view.nodes["n2"]["metadata"]["labels"]["pool"] = "b"
    view.nodes["n2"]["spec"]["taints"] = [{"key": "team", "value": "ml", "effect": "NoSchedule"}]
    offers = NodeInventory(view, "gpus", lambda: template)

    def offered():
        return {node.name: set(node.taints) for node in offers.nodes(make_policy(), ())}

    assert offered() == {"n1": set(), "n2": {"team=ml:NoSchedule"}}
    template = of_template(
        nodeSelector={"pool": "b"}, tolerations=[{"key": "team", "operator": "Exists"}]
    )
    assert offered() == {"n2": set()}


@pytest.mark.parametrize(
    ("labels", "policy", "want_usable", "want"),
    [
        pytest.param(
            {"cloud.google.com/gke-max-shared-clients-per-gpu": "2"},
            {"shares_per_gpu": 4},
            "n1",
            "Falling back to the labels and resources of node n1: each of its GPUs has 2 replicas",
            id="the policy says something else",
        ),
        pytest.param(
            {
                "cloud.google.com/gke-gpu-partition-size": "1g.5gb",
                "cloud.google.com/gke-max-shared-clients-per-gpu": "2",
            },
            {},
            "n2",
            "Ignoring GPUs on node n1: its MIG instances are shared ",
            id="no run can ask for them",
        ),
    ],
)
def test_what_is_odd_about_the_gpus_of_a_node_is_logged_once(
    caplog, labels, policy, want_usable, want
):
    view = View("n1", "n2")
    offers = NodeInventory(view, "gpus")
    view.nodes["n1"]["metadata"]["labels"] |= labels
    with caplog.at_level("WARNING", logger="prefect.gpu.offers"):
        for _ in range(2):
            view.dirty.add("n1")
            nodes = offers.nodes(make_policy(kubernetes=policy), ())
            healthy = [n.name for n in nodes if set(n.gpu_ids) - n.unhealthy_gpu_ids]
            assert healthy[0] == want_usable
    (reported,) = caplog.messages
    assert reported.startswith(want)


def test_the_name_of_a_gpu_is_that_of_its_node():
    view = View("n1")
    offers = NodeInventory(view, "gpus")
    assert offers.shares_per_gpu is None, "not polled yet"
    view.nodes["n1"]["metadata"]["labels"]["nvidia.com/gpu.replicas"] = "2"
    (node,) = offers.nodes(make_policy(), ())
    placement = ClusterInfo([node]).find(Shape(gpu_share_milli=400))
    assert placement is not None
    assert offers.gpu_resource(placement) == "nvidia.com/gpu"
    assert offers.shares_per_gpu == {2}


SHARING = {"match_labels": {"karpenter.sh/nodepool": "ml"}, "shares_per_gpu": 4}


@pytest.mark.parametrize(
    ("pool", "want_nodes", "want_told"),
    [
        pytest.param({"shared_gpu_resource": "nvidia.com/gpu"}, True, False, id="plain names"),
        pytest.param({}, False, True, id="names that no node has before it is there"),
    ],
)
def test_karpenter_adds_shared_gpus_only_under_their_plain_name(
    caplog, pool, want_nodes, want_told
):
    policy = make_policy(kubernetes={"node_pools": [SHARING | pool]})
    offers = NodeInventory(View(), "gpus")
    with caplog.at_level("WARNING", logger="prefect.gpu.offers"):
        nodes = offers.nodes(policy, (), [node_pool("ml", "8")])
    assert bool(nodes) is want_nodes
    assert all(node.shares_per_gpu == 4 and node.is_shareable for node in nodes)
    assert (
        "Karpenter does not provision nodes for nvidia.com/gpu.shared" in caplog.text
    ) is want_told
