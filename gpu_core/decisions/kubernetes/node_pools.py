"""What Karpenter's NodePools may still add.

A NodePool (karpenter.sh/v1, read 2026-08) allows kinds of machines by requirements on labels, and
so much in all by limits. Its status says how much of that is there or on its way.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpu_core.decisions.kubernetes.clouds import (
    AWS_GPUS,
    INSTANCE_TYPE_LABEL,
    KARPENTER_CAPACITY_LABEL,
)
from gpu_core.decisions.kubernetes.instance_types import INSTANCE_GPUS, InstanceGpus
from gpu_core.decisions.kubernetes.node_health import taints_to_tolerate
from gpu_core.decisions.kubernetes.node_labels import ZONE_LABEL
from gpu_core.decisions.kubernetes.nodes import NodeFacts
from gpu_core.decisions.kubernetes.planned import belongs_to
from gpu_core.decisions.kubernetes.provisioned import ProvisionedNodes
from gpu_core.decisions.kubernetes.quantities import parse_quantity
from gpu_core.decisions.policy_base import CapacityType

NODE_POOL_LABEL = "karpenter.sh/nodepool"

_AT_ONCE = 10
"""Without a limit on GPUs or nodes: so many nodes of a kind are planned with beside those that are
there. When they come, so many more are."""

_AWS = "karpenter.k8s.aws/"
_GENERATION = re.compile(r"(?P<category>[a-z]+)(?P<number>[0-9]+)")
_CAPACITY_TYPES: tuple[CapacityType, ...] = ("on-demand", "spot", "reserved")


def kinds_of(
    node_pool: Mapping[str, Any], real: Iterable[NodeFacts], gpu_resource: str
) -> tuple[ProvisionedNodes, ...]:
    """Which kinds of nodes may this NodePool add, and how many?

    A kind for each GPU type, number of GPUs and capacity type that its requirements allow. What
    they say about other things than the machine's type, architecture, GPUs, zone and capacity is
    not looked at, and of its limits only those on GPUs and nodes: a node that then does not come
    is given up.

    Args:
        node_pool: The object.
        real: The nodes that are there; those of the NodePool count.
        gpu_resource: What a GPU is called.

    Raises:
        InvalidInput: A quantity of it cannot be read.
    """
    name = node_pool["metadata"]["name"]
    spec = node_pool.get("spec") or {}
    template = (spec.get("template") or {}).get("spec") or {}
    requirements = template.get("requirements") or ()
    machines = {
        gpus for machine, gpus in INSTANCE_GPUS.items() if _allows(requirements, machine, gpus)
    }
    labels = (spec.get("template") or {}).get("metadata", {}).get("labels") or {}
    taints = tuple(sorted(taints_to_tolerate({"spec": {"taints": template.get("taints")}})))
    nodes = tuple(real)
    found = []
    for gpu_type, gpu_count in sorted(machines):
        left = _left(node_pool, gpu_resource, gpu_count)
        for capacity_type in _capacity_types(requirements):
            kind = ProvisionedNodes(
                name=f"{name}-{capacity_type}-{gpu_count}x-{gpu_type}",
                gpu_type=gpu_type,
                capacity_type=capacity_type,
                gpus_per_node=gpu_count,
                max_nodes=1,
                zone=_only(_values(requirements, ZONE_LABEL)),
                node_labels={**labels, NODE_POOL_LABEL: name},
                taints=taints,
            )
            there = sum(belongs_to(kind, facts) for facts in nodes)
            # A kind that is used up stays one: somebody may wait for its last node.
            found.append(kind.model_copy(update={"max_nodes": there + left}))
    return tuple(found)


def _left(node_pool: Mapping[str, Any], gpu_resource: str, gpus_per_node: int) -> int:
    """How many more nodes with so many GPUs do its limits allow?"""
    limits = (node_pool.get("spec") or {}).get("limits") or {}
    used = (node_pool.get("status") or {}).get("resources") or {}
    left = [_AT_ONCE]
    for resource, each in ((gpu_resource, gpus_per_node), ("nodes", 1)):
        if resource in limits:
            limit = parse_quantity(limits[resource], f"limits.{resource}")
            free = limit - parse_quantity(used.get(resource, 0), f"resources.{resource}")
            left.append(max(0, int(free // each)))
    return min(left)


def _allows(requirements: Iterable[Mapping[str, Any]], machine: str, gpus: InstanceGpus) -> bool:
    """May it add this machine, as far as the table of machines tells?"""
    family, is_ec2, size = machine.partition(".")
    if not is_ec2:
        return False
    gpu = AWS_GPUS[gpus.gpu_type]
    generation = _GENERATION.match(family) or {"category": "", "number": ""}
    labels = {
        INSTANCE_TYPE_LABEL: machine,
        f"{_AWS}instance-family": family,
        f"{_AWS}instance-size": size,
        f"{_AWS}instance-category": generation["category"],
        f"{_AWS}instance-generation": generation["number"],
        f"{_AWS}instance-gpu-count": str(gpus.gpu_count),
        f"{_AWS}instance-gpu-name": gpu.name,
        f"{_AWS}instance-gpu-memory": gpu.memory_mib,
        f"{_AWS}instance-gpu-manufacturer": "nvidia",
        # So are all EC2 machines of the table: g5g, with ARM, is not in it.
        "kubernetes.io/arch": "amd64",
    }
    return all(
        _meets(labels[requirement["key"]], requirement)
        for requirement in requirements
        if requirement["key"] in labels
    )


def _meets(value: str, requirement: Mapping[str, Any]) -> bool:
    values: Sequence[str] = requirement.get("values") or ()
    match requirement["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "DoesNotExist":
            return False
        case "Gt" if value.isdigit():
            return int(value) > int(values[0])
        case "Lt" if value.isdigit():
            return int(value) < int(values[0])
        case "Gte" if value.isdigit():
            return int(value) >= int(values[0])
        case "Lte" if value.isdigit():
            return int(value) <= int(values[0])
        case _:
            return True


def _capacity_types(requirements: Iterable[Mapping[str, Any]]) -> tuple[CapacityType, ...]:
    """On-demand where it does not say."""
    named = _values(requirements, KARPENTER_CAPACITY_LABEL)
    return tuple(name for name in _CAPACITY_TYPES if name in named) or ("on-demand",)


def _values(requirements: Iterable[Mapping[str, Any]], key: str) -> tuple[str, ...]:
    """What it allows by name."""
    return tuple(
        value
        for requirement in requirements
        if requirement["key"] == key and requirement["operator"] == "In"
        for value in requirement.get("values") or ()
    )


def _only(values: tuple[str, ...]) -> str | None:
    return values[0] if len(values) == 1 else None
