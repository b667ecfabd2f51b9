"""The nodes that Karpenter's NodePools may still add.

A NodePool (karpenter.sh/v1, read 2026-08) allows kinds of machines by requirements on labels, and
so much in all by limits. Its status says how much of that is there or on its way. A node that is
planned with and cannot come costs a run its `pending_timeout`, so that what is not understood
counts as "adds nothing", and the reason is given.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from gpu_core.decisions.kubernetes.nodes.clouds import KARPENTER_CAPACITY_LABEL
from gpu_core.decisions.kubernetes.nodes.ec2_labels import EC2_SIZES, ec2_labels
from gpu_core.decisions.kubernetes.nodes.instance_types import INSTANCE_GPUS, InstanceGpus
from gpu_core.decisions.kubernetes.nodes.nodes import NodeFacts
from gpu_core.decisions.kubernetes.nodes.taints_and_conditions import taints_to_tolerate
from gpu_core.decisions.kubernetes.nodes.virtual_nodes import NODE_POOL_LABEL, belongs_to
from gpu_core.decisions.kubernetes.variables.quantities import GIB, parse_quantity
from gpu_core.decisions.model.cluster import ZONE_LABEL
from gpu_core.decisions.model.section import CapacityType
from gpu_core.decisions.policy.provisioned_nodes import ProvisionedNodes

_AT_ONCE = 10
"""Further nodes of a kind that are planned at a time, without a limit on GPUs or nodes.
When they come, as many more are."""

_EC2_GROUP = "karpenter.k8s.aws"
# Domains whose labels say something about the machine or its place. A requirement on any other
# label is the platform team's own: it labels nodes and keeps no machine out.
_MACHINE_DOMAINS = ("kubernetes.io", "k8s.io", "k8s.aws", "karpenter.sh", "karpenter.azure.com")
_CAPACITY_TYPES: tuple[CapacityType, ...] = ("on-demand", "spot", "reserved")
_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"})

Requirement = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePoolOffer:
    """The nodes that one NodePool may still add.

    Attributes:
        kinds: The kinds of nodes, with those of each that are there counted in `max_nodes`.
        refusals: Why it adds no more or nothing at all; clauses such as "it is being deleted".
    """

    kinds: tuple[ProvisionedNodes, ...] = ()
    refusals: tuple[str, ...] = ()


def node_pool_offer(
    node_pool: Mapping[str, Any], real: Iterable[NodeFacts], gpu_resource: str
) -> NodePoolOffer:
    """The kinds of nodes that this NodePool may add, with their numbers.

    A kind for each GPU type, number of GPUs and capacity type that its requirements allow. A
    NodePool that cannot add nodes now keeps its kinds, with no room for more: runs may wait for
    nodes of it that are on their way.

    Args:
        real: The nodes that are there; those of the NodePool count.

    Raises:
        InvalidInput: A quantity of it cannot be read.
    """
    spec = node_pool.get("spec") or {}
    template = (spec.get("template") or {}).get("spec") or {}
    requirements: Sequence[Requirement] = template.get("requirements") or ()
    if unknown := tuple(_not_understood(template, requirements)):
        return NodePoolOffer(refusals=unknown)
    machines = [name for name in EC2_SIZES if _allows(requirements, name)]
    capacity_types = _capacity_types(requirements)
    refusals = tuple(_closed(node_pool))
    nodes = tuple(real)
    kinds = []
    for gpus, names in _by_gpus(machines):
        if few := _too_few(requirements, names):
            refusals += (few,)
            continue
        left = 0 if refusals else _left(node_pool, gpu_resource, names)
        for capacity_type in capacity_types:
            kind = _kind(node_pool, requirements, gpus, capacity_type)
            there = sum(belongs_to(kind, facts) for facts in nodes)
            # A kind that is used up stays one: a run may wait for its last node.
            kinds.append(kind.model_copy(update={"max_nodes": there + left}))
    if not kinds and not refusals:
        refusals = (
            "its requirements do not match any known instance type with GPUs and a capacity type",
        )
    return NodePoolOffer(kinds=tuple(kinds), refusals=refusals)


def _not_understood(
    template: Mapping[str, Any], requirements: Sequence[Requirement]
) -> Iterator[str]:
    """The reasons why its machines cannot be known."""
    node_class = template.get("nodeClassRef") or {}
    group = node_class.get("group")
    if group != _EC2_GROUP:
        yield (
            f"its nodeClassRef.group is {group!r}, but only instance types of "
            f"{_EC2_GROUP} are supported"
        )
        return
    known = {*ec2_labels(next(iter(EC2_SIZES))), ZONE_LABEL, KARPENTER_CAPACITY_LABEL}
    for requirement in requirements:
        key, operator = requirement["key"], requirement["operator"]
        if key not in known and _is_about_machines(key):
            yield f"its requirement on {key} is not supported"
        elif operator not in _OPERATORS:
            yield f"its requirement on {key} has the unsupported operator {operator}"
        elif key == ZONE_LABEL and operator not in {"In", "Exists"}:
            yield f"its requirement on {key} has the operator {operator} instead of In with zones"


def _is_about_machines(key: str) -> bool:
    domain, has_domain, _ = key.rpartition("/")
    if not has_domain or domain == "node-restriction.kubernetes.io":
        return False
    return any(domain == known or domain.endswith(f".{known}") for known in _MACHINE_DOMAINS)


def _closed(node_pool: Mapping[str, Any]) -> Iterator[str]:
    """The reasons why it adds no nodes now."""
    if node_pool["metadata"].get("deletionTimestamp"):
        yield "it is being deleted"
    if (node_pool.get("spec") or {}).get("replicas") is not None:
        yield "it has a fixed number of nodes (spec.replicas) and is not scaled for pods"
    conditions = (node_pool.get("status") or {}).get("conditions") or ()
    ready: Mapping[str, Any] = next((c for c in conditions if c.get("type") == "Ready"), {})
    if ready.get("status") != "True":
        because = ": ".join(filter(None, (ready.get("reason"), ready.get("message"))))
        yield f"it is not Ready ({because})" if because else "it is not Ready"


def _by_gpus(machines: Iterable[str]) -> list[tuple[InstanceGpus, list[str]]]:
    """The machines with the same GPUs together."""
    found: dict[InstanceGpus, list[str]] = {}
    for name in machines:
        found.setdefault(INSTANCE_GPUS[name], []).append(name)
    return sorted(found.items())


def _too_few(requirements: Iterable[Requirement], machines: Sequence[str]) -> str | None:
    """The `minValues` that these machines do not meet. Karpenter then launches none of them."""
    for requirement in requirements:
        least, key = requirement.get("minValues"), requirement["key"]
        labels = [ec2_labels(name) for name in machines]
        values = {known[key] for known in labels if key in known}
        if least is not None and values and len(values) < least:
            gpus = INSTANCE_GPUS[machines[0]]
            return (
                f"minValues of its requirement on {key} is {least}, and machines with "
                f"{gpus.gpu_count} x {gpus.gpu_type} have {len(values)}"
            )
    return None


def _kind(
    node_pool: Mapping[str, Any],
    requirements: Sequence[Requirement],
    gpus: InstanceGpus,
    capacity_type: CapacityType,
) -> ProvisionedNodes:
    name = node_pool["metadata"]["name"]
    template = node_pool["spec"]["template"]
    taints = (template.get("spec") or {}).get("taints")
    labels = (template.get("metadata") or {}).get("labels") or {}
    return ProvisionedNodes(
        name=f"{name}-{capacity_type}-{gpus.gpu_count}x-{gpus.gpu_type}",
        gpu_type=gpus.gpu_type,
        capacity_type=capacity_type,
        gpus_per_node=gpus.gpu_count,
        max_nodes=1,
        zone=_only(_values(requirements, ZONE_LABEL)),
        node_labels={**labels, NODE_POOL_LABEL: name},
        taints=tuple(sorted(taints_to_tolerate({"spec": {"taints": taints}}))),
    )


def _left(node_pool: Mapping[str, Any], gpu_resource: str, machines: Sequence[str]) -> int:
    """How many more nodes do its limits allow? Karpenter may take the smallest of the machines."""
    limits = (node_pool.get("spec") or {}).get("limits") or {}
    used = (node_pool.get("status") or {}).get("resources") or {}
    sizes = [EC2_SIZES[name] for name in machines]
    each = {
        gpu_resource: Fraction(INSTANCE_GPUS[machines[0]].gpu_count),
        "nodes": Fraction(1),
        "cpu": Fraction(min(size.cores for size in sizes)),
        "memory": Fraction(min(size.memory_gib for size in sizes) * GIB),
    }
    left = [_AT_ONCE]
    for resource, one in each.items():
        if resource in limits:
            limit = parse_quantity(limits[resource], f"limits.{resource}")
            free = limit - parse_quantity(used.get(resource, 0), f"resources.{resource}")
            left.append(max(0, int(free // one)))
    return min(left)


def _allows(requirements: Iterable[Requirement], machine: str) -> bool:
    labels = ec2_labels(machine)
    return all(
        _meets(labels[requirement["key"]], requirement)
        for requirement in requirements
        if requirement["key"] in labels
    )


def _meets(value: str | None, requirement: Requirement) -> bool:
    values: Sequence[str] = requirement.get("values") or ()
    operator = requirement["operator"]
    if operator in {"NotIn", "DoesNotExist"}:
        return value is None or (operator == "NotIn" and value not in values)
    if value is None:
        return False
    match operator:
        case "In":
            return value in values
        case "Exists":
            return True
        case _ if not (value.isdigit() and values and values[0].isdigit()):
            return False
        case "Gt":
            return int(value) > int(values[0])
        case "Lt":
            return int(value) < int(values[0])
        case "Gte":
            return int(value) >= int(values[0])
        case "Lte":
            return int(value) <= int(values[0])
        case _:
            return False


def _capacity_types(requirements: Sequence[Requirement]) -> tuple[CapacityType, ...]:
    """Any that it does not rule out; reserved only by name, as it needs a reservation.

    Without a requirement Karpenter adds spot nodes too (aws/karpenter-provider-aws#5015). Pods
    name the capacity type that they are planned with.
    """
    named = _values(requirements, KARPENTER_CAPACITY_LABEL)
    return tuple(
        name
        for name in _CAPACITY_TYPES
        if (name != "reserved" or name in named)
        and all(_meets(name, r) for r in requirements if r["key"] == KARPENTER_CAPACITY_LABEL)
    )


def _values(requirements: Iterable[Requirement], key: str) -> tuple[str, ...]:
    """The values that it allows by name."""
    return tuple(
        value
        for requirement in requirements
        if requirement["key"] == key and requirement["operator"] == "In"
        for value in requirement.get("values") or ()
    )


def _only(values: tuple[str, ...]) -> str | None:
    return values[0] if len(values) == 1 else None
