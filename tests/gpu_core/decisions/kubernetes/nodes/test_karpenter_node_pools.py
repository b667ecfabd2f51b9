"""What Karpenter's NodePools may still add."""

import pytest

from gpu_core.decisions.kubernetes.nodes.karpenter_node_pools import node_pool_offer
from gpu_core.decisions.kubernetes.nodes.nodes import NodeFacts
from gpu_core.decisions.kubernetes.nodes.virtual_nodes import planned_nodes
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.testing.builders.workloads import make_node

CAPACITY = "karpenter.sh/capacity-type"
MACHINE = "node.kubernetes.io/instance-type"
AWS = "karpenter.k8s.aws/instance"
H100 = f"{MACHINE} In p5.48xlarge"


def node_pool(*requirements, limits=None, used=None, taints=None, labels=None):
    """A NodePool `ml` that is Ready, whose requirements are `key operator value,value`."""
    spelled = []
    for text in requirements:
        key, operator, *rest = text.split()
        values = {"values": rest[0].split(",")} if rest else {}
        spelled.append({"key": key, "operator": operator, **values})
    node_class = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    template = {
        "metadata": {"labels": labels} if labels else {},
        "spec": {
            "nodeClassRef": node_class,
            "requirements": spelled,
            **({"taints": taints} if taints else {}),
        },
    }
    return {
        "metadata": {"name": "ml"},
        "spec": {"template": template, **({"limits": limits} if limits else {})},
        "status": {
            "resources": used or {},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def offer(pool, *there):
    return node_pool_offer(pool, there, "nvidia.com/gpu")


def kinds(pool, *there):
    return offer(pool, *there).kinds


@pytest.mark.parametrize(
    ("requirements", "want_names"),
    [
        pytest.param([f"{MACHINE} In p5.48xlarge"], ["ml-on-demand-8x-h100-80gb"], id="a machine"),
        pytest.param(
            [f"{MACHINE} In g5.xlarge,g5.2xlarge", f"{CAPACITY} In spot,on-demand"],
            ["ml-on-demand-1x-a10g", "ml-spot-1x-a10g"],
            id="machines with the same GPUs are one kind of each capacity",
        ),
        pytest.param(
            [f"{AWS}-family In g6", f"{AWS}-gpu-count Gt 1"],
            ["ml-on-demand-4x-l4", "ml-on-demand-8x-l4"],
            id="a family, not its small ones",
        ),
        pytest.param(
            [f"{AWS}-gpu-name In t4", f"{AWS}-size NotIn metal"],
            ["ml-on-demand-1x-t4", "ml-on-demand-4x-t4"],
            id="a chip",
        ),
        pytest.param(
            [f"{AWS}-category In p", f"{AWS}-generation In 4", "kubernetes.io/arch In amd64"],
            ["ml-on-demand-8x-a100-40gb", "ml-on-demand-8x-a100-80gb"],
            id="a generation, and what does not matter here",
        ),
        pytest.param(
            [f"{AWS}-family In g6", f"{AWS}-gpu-count Gte 4"],
            ["ml-on-demand-4x-l4", "ml-on-demand-8x-l4"],
            id="at least so many GPUs",
        ),
        pytest.param(
            [f"{AWS}-family In g6", f"{AWS}-gpu-count Lte 4"],
            ["ml-on-demand-1x-l4", "ml-on-demand-4x-l4"],
            id="at most so many GPUs",
        ),
        pytest.param(
            [f"{AWS}-gpu-name In a100", f"{AWS}-gpu-memory In 81920"],
            ["ml-on-demand-8x-a100-80gb"],
            id="one chip with more memory",
        ),
        pytest.param(
            [f"{AWS}-family In g6,g6e,p5e", f"{AWS}-gpu-count In 8", f"{AWS}-gpu-memory Gte 45776"],
            ["ml-on-demand-8x-h200", "ml-on-demand-8x-l40s"],
            id="so much memory at least",
        ),
        pytest.param(
            [f"{AWS}-family In g5", f"{AWS}-gpu-memory Lt 16384"], [], id="too little memory"
        ),
        pytest.param([f"{AWS}-family In g5", "kubernetes.io/arch In arm64"], [], id="ARM"),
        pytest.param([f"{MACHINE} In m5.large"], [], id="machines without GPUs"),
        pytest.param([f"{AWS}-gpu-name DoesNotExist x"], [], id="none with GPUs"),
    ],
)
def test_its_requirements_say_which_kinds(requirements, want_names):
    on_demand = f"{CAPACITY} In on-demand"
    if not any(text.startswith(CAPACITY) for text in requirements):
        requirements = [*requirements, on_demand]
    assert [kind.name for kind in kinds(node_pool(*requirements))] == want_names


@pytest.mark.parametrize(
    ("requirements", "want"),
    [
        pytest.param([], {"on-demand", "spot"}, id="says nothing: Karpenter adds spot too"),
        pytest.param(["In on-demand"], {"on-demand"}, id="on-demand"),
        pytest.param(["NotIn spot"], {"on-demand"}, id="reserved must be named"),
        pytest.param(["In reserved,spot"], {"reserved", "spot"}, id="by name"),
        pytest.param(["Exists"], {"on-demand", "spot"}, id="any"),
        pytest.param(["In spot", "NotIn spot"], set(), id="contradiction"),
    ],
)
def test_capacity_types_are_those_that_karpenter_may_add(requirements, want):
    pool = node_pool(H100, *(f"{CAPACITY} {text}" for text in requirements))
    assert {kind.capacity_type for kind in kinds(pool)} == want


def changed(pool, path, value):
    """The NodePool with this at `a.b.c`."""
    *parents, last = path.split(".")
    inner = pool
    for name in parents:
        inner = inner[name]
    inner[last] = value
    return pool


AZURE = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}
NOT_READY = [
    {"type": "Ready", "status": "False", "reason": "NodeClassNotReady", "message": "no subnets"}
]


@pytest.mark.parametrize(
    ("pool", "want_refusal"),
    [
        pytest.param(
            changed(node_pool(), "spec.template.spec.nodeClassRef", AZURE),
            "nodeClassRef.group is 'karpenter.azure.com'",
            id="machines of another cloud",
        ),
        pytest.param(
            changed(node_pool(), "spec.template.spec.nodeClassRef", None),
            "nodeClassRef.group is None",
            id="no class",
        ),
        pytest.param(
            node_pool("karpenter.azure.com/sku-gpu-name In A100"),
            "requirement on karpenter.azure.com/sku-gpu-name",
            id="a label of another cloud",
        ),
        pytest.param(
            node_pool("karpenter.k8s.aws/instance-local-nvme Gt 100"),
            "requirement on karpenter.k8s.aws/instance-local-nvme",
            id="a label of machines that is not known",
        ),
        pytest.param(
            node_pool("topology.kubernetes.io/zone NotIn us-east-1a"), "NotIn", id="a zone left out"
        ),
        pytest.param(node_pool(f"{MACHINE} Like p5"), "operator Like", id="an operator to come"),
        pytest.param(
            node_pool(f"{MACHINE} In m5.large"), "not match any known instance type", id="no GPUs"
        ),
    ],
)
def test_what_is_not_understood_adds_nothing_and_says_why(pool, want_refusal):
    found = offer(pool)
    assert found.kinds == ()
    assert want_refusal in "; ".join(found.refusals)


@pytest.mark.parametrize(
    ("path", "value", "want_refusal"),
    [
        pytest.param("status.conditions", NOT_READY, "NodeClassNotReady: no subnets", id="broken"),
        pytest.param("status.conditions", [], "it is not Ready", id="new"),
        pytest.param("metadata.deletionTimestamp", "2026-01-01T00:00:00Z", "deleted", id="going"),
        pytest.param("spec.replicas", 4, "spec.replicas", id="a fixed number"),
        pytest.param("spec.replicas", 0, "spec.replicas", id="a fixed number of none"),
    ],
)
def test_one_that_adds_nothing_now_keeps_its_kinds_for_those_who_wait(path, value, want_refusal):
    own = NodeFacts(
        node=make_node("n", gpu_type="h100-80gb", labels={"karpenter.sh/nodepool": "ml"})
    )
    found = offer(changed(node_pool(H100, f"{CAPACITY} In on-demand"), path, value), own)
    assert [kind.max_nodes for kind in found.kinds] == [1]
    assert planned_nodes(found.kinds, (own,), ()) == ()
    assert want_refusal in "; ".join(found.refusals)


def test_a_label_of_the_teams_own_keeps_no_machine_out():
    pool = node_pool(H100, "example.com/team Exists", "purpose In ml", f"{CAPACITY} In spot")
    assert [kind.name for kind in kinds(pool)] == ["ml-spot-8x-h100-80gb"]


def test_fewer_machines_than_min_values_are_never_launched():
    """A run asks for one kind of GPUs, so that only its machines count."""
    pool = node_pool(f"{MACHINE} In p5.48xlarge,g5.xlarge,g5.2xlarge")
    pool["spec"]["template"]["spec"]["requirements"][0]["minValues"] = 2
    found = offer(pool)
    assert {kind.gpu_type for kind in found.kinds} == {"a10g"}
    assert found.refusals == (
        f"minValues of its requirement on {MACHINE} is 2, and machines with 8 x h100-80gb have 1",
    )


def test_a_general_pool_that_is_not_ready_plans_no_nodes():
    """220 of them were planned before."""
    found = offer(changed(node_pool(), "status.conditions", NOT_READY))
    assert found.kinds
    assert planned_nodes(found.kinds, (), ()) == ()


@pytest.mark.parametrize(
    ("limits", "used", "want_more"),
    [
        pytest.param(None, None, 10, id="no limit"),
        pytest.param({"ephemeral-storage": "1Ti"}, {}, 10, id="a limit on something else"),
        pytest.param({"cpu": "1000"}, {"cpu": "616"}, 2, id="a limit on cores"),
        pytest.param({"cpu": "8"}, {}, 0, id="fewer cores than one machine has"),
        pytest.param({"memory": "5Ti"}, {}, 2, id="a limit on memory"),
        pytest.param({"nvidia.com/gpu": "24"}, {}, 3, id="GPUs for three"),
        pytest.param({"nvidia.com/gpu": "24"}, {"nvidia.com/gpu": "9"}, 1, id="some are used"),
        pytest.param({"nvidia.com/gpu": 8}, {"nvidia.com/gpu": "16"}, 0, id="more than allowed"),
        pytest.param({"nodes": "2"}, {"nodes": "1"}, 1, id="a limit on nodes"),
    ],
)
def test_its_limits_say_how_many(limits, used, want_more):
    own = NodeFacts(
        node=make_node("n", gpu_type="h100-80gb", labels={"karpenter.sh/nodepool": "ml"})
    )
    others = NodeFacts(node=make_node("o", gpu_type="h100-80gb"))
    pool = node_pool(H100, f"{CAPACITY} In on-demand", limits=limits, used=used)
    found = kinds(pool, own, others)
    assert [kind.max_nodes for kind in found] == [1 + want_more]
    assert len(planned_nodes(found, (own, others), ())) == want_more


def test_zone_labels_and_taints_are_those_of_its_nodes():
    (kind,) = kinds(
        node_pool(
            H100,
            f"{CAPACITY} In on-demand",
            "topology.kubernetes.io/zone In us-east-1a",
            labels={"team": "ml"},
            taints=[{"key": "dedicated", "value": "ml", "effect": "NoSchedule"}],
        )
    )
    assert kind.zone == "us-east-1a"
    assert kind.node_labels == {"team": "ml", "karpenter.sh/nodepool": "ml"}
    assert kind.taints == ("dedicated=ml:NoSchedule",)


def test_a_quantity_that_cannot_be_read_is_named():
    with pytest.raises(InvalidInput, match=r"limits.nvidia.com/gpu"):
        kinds(node_pool(H100, limits={"nvidia.com/gpu": "many"}))
