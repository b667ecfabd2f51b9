"""From Kubernetes' Node objects to the nodes that the scheduler plans with."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from math import floor
from typing import Any

from gpu_core.decisions.catalog.product_names import nominal_memory_gib
from gpu_core.decisions.kubernetes.manifests.names import POOL_LABEL, label_value
from gpu_core.decisions.kubernetes.nodes.clouds import INSTANCE_TYPE_LABEL
from gpu_core.decisions.kubernetes.nodes.gpus import NodeGpus, node_gpus
from gpu_core.decisions.kubernetes.nodes.labels import (
    capacity_type_of,
    gpu_type_of,
    reported_memory_gib,
)
from gpu_core.decisions.kubernetes.nodes.pod_requests import Requests, pod_requests
from gpu_core.decisions.kubernetes.nodes.taints_and_conditions import (
    blocked_by,
    interruption_of,
    taints_to_tolerate,
)
from gpu_core.decisions.kubernetes.variables.quantities import MIB, parse_quantity
from gpu_core.decisions.model.cluster import ZONE_LABEL, Machine, Node
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """One node as the scheduler plans with it, and what it cannot say in its own words."""

    node: Node
    """GPUs are numbered, because the device plugin says only how many there are. Those that other
    people's pods hold are not listed; those that may not be used now are unhealthy."""
    blocked_by: tuple[str, ...] = ()
    """The reasons why it gets no new runs; empty: it gets some."""
    unusable: tuple[str, ...] = ()
    """Of these reasons those for which no run could ask for its GPUs: the policy has to change."""
    contradictions: tuple[str, ...] = ()
    """Settings of the policy for its GPUs that contradict the node; the node counts."""
    interruption: str | None = None
    """The taint that says that it is about to go; None: none does."""
    foreign_gpus: int = 0
    """GPUs that other people's pods hold."""
    foreign_gpu_ids: tuple[str, ...] = ()
    """The ids of those that are not listed for that."""
    zone: str | None = None
    instance_type: str | None = None


def node_facts(
    node: Mapping[str, Any],
    pods: Iterable[Mapping[str, Any]],
    policy: KubernetesPolicy,
    *,
    pool: str,
    held_gpu_ids: frozenset[str] = frozenset(),
) -> NodeFacts | None:
    """The facts about this node for the scheduler; None: it has no GPUs and will have none.

    Args:
        policy: Names the resources and the labels of the platform team.
        pool: Our own pool: its pods are what the scheduler itself has placed.
        held_gpu_ids: The GPUs that our attempts hold there: those stay listed.

    Raises:
        InvalidInput: A quantity cannot be read.
    """
    labels: Mapping[str, str] = node["metadata"].get("labels") or {}
    status = node.get("status", {})
    capacity, allocatable = _amounts(status, "capacity"), _amounts(status, "allocatable")
    own = label_value(pool)
    others = [pod_requests(pod) for pod in pods if _pool_of(pod) != own]
    foreign = _total(others)
    gpu_type = gpu_type_of(labels, policy.gpu_type_labels)
    gpus = node_gpus(labels, capacity, allocatable, foreign, gpu_type, policy.sharing_of(labels))
    if gpu_type is None and not gpus.total:
        return None
    why_not = [*blocked_by(node, policy.gpu_conditions), *gpus.unusable]
    if not gpus.total:
        why_not.append("its device plugin has not registered any GPUs yet")
    listed, unhealthy, foreign_ids = _numbered(gpus, held_gpu_ids)
    gpu_type = gpu_type or "unknown"
    return NodeFacts(
        node=Node(
            name=node["metadata"]["name"],
            gpu_type=gpu_type,
            gpu_ids=listed,
            gpu_memory_gib=nominal_memory_gib(gpu_type) or reported_memory_gib(labels),
            capacity_type=capacity_type_of(labels),
            unhealthy_gpu_ids=frozenset(listed) if why_not else unhealthy,
            cpu_milli=_left(allocatable, foreign, "cpu", Fraction(1, 1000)),
            memory_mib=_left(allocatable, foreign, "memory", Fraction(MIB)),
            labels=labels,
            taints=taints_to_tolerate(node),
            is_shareable=gpus.is_shareable,
            # A replica is what the device plugin hands out there; no pod gets all of a GPU.
            has_whole_gpus=not gpus.is_shareable,
            is_mig=bool(gpus.mig_instances),
            mig_instances=gpus.mig_instances or None,
            shares_per_gpu=gpus.shares_per_gpu,
            gpu_resource=gpus.resource,
            machine=_machine(node, capacity, gpus),
        ),
        blocked_by=tuple(why_not),
        interruption=interruption_of(node),
        unusable=gpus.unusable,
        contradictions=gpus.contradictions,
        foreign_gpus=gpus.foreign,
        foreign_gpu_ids=foreign_ids,
        zone=labels.get(ZONE_LABEL),
        instance_type=labels.get(INSTANCE_TYPE_LABEL),
    )


def _machine(node: Mapping[str, Any], capacity: Requests, gpus: NodeGpus) -> Machine:
    """A device plugin that offers none of its GPUs is away; one that offers others is not."""
    metadata = node["metadata"]
    created = metadata.get("creationTimestamp")
    return Machine(
        gpus=gpus.total,
        faulty_gpus=gpus.unhealthy if 0 < gpus.unhealthy < gpus.total else 0,
        cpu_milli=_left(capacity, {}, "cpu", Fraction(1, 1000)),
        memory_mib=_left(capacity, {}, "memory", Fraction(MIB)),
        incarnation=metadata.get("uid"),
        instance_id=node.get("spec", {}).get("providerID") or None,
        created_at=None if created is None else datetime.fromisoformat(created),
    )


def _numbered(
    gpus: NodeGpus, held: frozenset[str]
) -> tuple[tuple[str, ...], frozenset[str], tuple[str, ...]]:
    """The ids of the GPUs that are ours to plan with, which of them are unhealthy, and the others.

    It is unknown which of the GPUs others hold or which is broken: it is those with the highest
    numbers that none of our attempts holds.
    """
    ids = [str(number) for number in range(gpus.total)]
    spare = [gpu_id for gpu_id in reversed(ids) if gpu_id not in held]
    foreign = tuple(spare[: gpus.foreign])
    unhealthy = spare[gpus.foreign : gpus.foreign + gpus.unhealthy]
    ours = tuple(gpu_id for gpu_id in ids if gpu_id not in foreign)
    return ours, frozenset(unhealthy), foreign


def _left(allocatable: Requests, foreign: Requests, name: str, unit: Fraction) -> int | None:
    """The amount of a resource that others leave, in whole units; None: the node does not say."""
    if name not in allocatable:
        return None
    return max(0, floor((allocatable[name] - foreign.get(name, 0)) / unit))


def _amounts(status: Mapping[str, Any], kind: str) -> Requests:
    found = status.get(kind) or {}
    return {name: parse_quantity(value, f"{kind}.{name}") for name, value in found.items()}


def _total(parts: Iterable[Requests]) -> Requests:
    total: dict[str, Any] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return total


def _pool_of(pod: Mapping[str, Any]) -> str | None:
    labels: Mapping[str, str] = pod.get("metadata", {}).get("labels") or {}
    return labels.get(POOL_LABEL)
