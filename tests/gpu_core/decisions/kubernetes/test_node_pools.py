"""What Karpenter's NodePools may still add."""

import pytest

from gpu_core.decisions.errors import InvalidInput
from gpu_core.decisions.kubernetes.node_pools import kinds_of
from gpu_core.decisions.kubernetes.nodes import NodeFacts
from gpu_core.decisions.kubernetes.planned import planned_nodes
from tests.strategies import make_node

CAPACITY = "karpenter.sh/capacity-type"
MACHINE = "node.kubernetes.io/instance-type"
AWS = "karpenter.k8s.aws/instance"


def node_pool(*requirements, limits=None, used=None, taints=None, labels=None):
    """A NodePool `ml` whose requirements are `key operator value,value`."""
    spelled = []
    for text in requirements:
        key, operator, values = text.split()
        spelled.append({"key": key, "operator": operator, "values": values.split(",")})
    template = {
        "metadata": {"labels": labels} if labels else {},
        "spec": {"requirements": spelled, **({"taints": taints} if taints else {})},
    }
    return {
        "metadata": {"name": "ml"},
        "spec": {"template": template, **({"limits": limits} if limits else {})},
        "status": {"resources": used or {}},
    }


def kinds(pool, *there):
    return kinds_of(pool, there, "nvidia.com/gpu")


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
    assert [kind.name for kind in kinds(node_pool(*requirements))] == want_names


H100 = f"{MACHINE} In p5.48xlarge"


@pytest.mark.parametrize(
    ("limits", "used", "want_more"),
    [
        pytest.param(None, None, 10, id="no limit"),
        pytest.param({"cpu": "1000"}, {"cpu": "900"}, 10, id="a limit on something else"),
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
    found = kinds(node_pool(H100, limits=limits, used=used), own, others)
    assert [kind.max_nodes for kind in found] == [1 + want_more]
    assert len(planned_nodes(found, (own, others), ())) == want_more


def test_zone_labels_and_taints_are_those_of_its_nodes():
    (kind,) = kinds(
        node_pool(
            H100,
            "topology.kubernetes.io/zone In us-east-1a",
            labels={"team": "ml"},
            taints=[{"key": "dedicated", "value": "ml", "effect": "NoSchedule"}],
        )
    )
    assert kind.zone == "us-east-1a"
    assert kind.node_labels == {"team": "ml", "karpenter.sh/nodepool": "ml"}
    assert kind.taints == ("dedicated=ml:NoSchedule",)


def test_a_quantity_that_nobody_understands_is_named():
    with pytest.raises(InvalidInput, match=r"limits.nvidia.com/gpu"):
        kinds(node_pool(H100, limits={"nvidia.com/gpu": "many"}))
