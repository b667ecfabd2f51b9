"""What a node's device plugin offers: whole GPUs, replicas of shared ones, or MIG instances.

Sources: NVIDIA's device plugin and GPU Feature Discovery v0.17 (README); of GKE the pages "GPU
time-sharing", "NVIDIA MPS" and "Running multi-instance GPUs" (read 2026-11): its node pools keep
the name `nvidia.com/gpu` for replicas and for MIG instances, one for each container.
"""

from collections.abc import Iterator, Mapping
from math import ceil
from types import MappingProxyType
from typing import NamedTuple

from gpu_core.decisions.kubernetes.clouds import PRODUCT_LABEL
from gpu_core.decisions.kubernetes.node_labels import COUNT_LABEL, REPLICAS_LABEL, count_label
from gpu_core.decisions.kubernetes.pod_requests import Requests
from gpu_core.decisions.kubernetes.policy import KubernetesPolicy
from gpu_core.decisions.placement.mig import mig_profile

_GKE_CLIENTS_LABEL = "cloud.google.com/gke-max-shared-clients-per-gpu"
_GKE_PARTITION_LABEL = "cloud.google.com/gke-gpu-partition-size"
_MIG_PREFIX = "nvidia.com/mig-"
_IN_MIG_MODE = "-MIG-"
_SHARED_PRODUCT = "-SHARED"
# Compute slices of a GPU in MIG mode (NVIDIA MIG user guide; 4 on an A30).
_MIG_SLICES = 7


class NodeGpus(NamedTuple):
    """The physical GPUs of a node, as far as its device plugin tells."""

    total: int
    unhealthy: int = 0
    foreign: int = 0
    is_shareable: bool = False
    mig_instances: Mapping[str, int] = MappingProxyType({})
    """What others leave, by profile."""
    unusable: tuple[str, ...] = ()
    """Why nothing of them can be asked for; empty: it can."""


def node_gpus(
    labels: Mapping[str, str],
    capacity: Requests,
    allocatable: Requests,
    foreign: Requests,
    gpu_type: str | None,
    policy: KubernetesPolicy,
) -> NodeGpus:
    """Which GPUs has a node, and how are they divided?

    Args:
        labels: Of the node.
        capacity: All that it has, by resource.
        allocatable: What of it may be used.
        foreign: What other people's pods ask for.
        gpu_type: Of its GPUs; None: not known.
        policy: Names the resources that our pods ask for.
    """
    left = {
        name: max(0, int(allocatable.get(name, 0) - foreign.get(name, 0)))
        for name, n in capacity.items()
        if n  # a resource that is no more offered stays listed with 0
    }
    one_profile = _profile_of_all(labels)
    if one_profile is not None:
        return NodeGpus(
            total=_partitioned_gpus(labels, capacity, one_profile, gpu_type, policy),
            mig_instances={one_profile: left.get(policy.gpu_resource, 0)},
            unusable=tuple(_why_no_instance(policy, "single", is_shared=_replicas(labels) > 1)),
        )
    instances = {name: count for name, count in left.items() if name.startswith(_MIG_PREFIX)}
    if instances:
        is_shared = any(_are_replicas(labels, name) for name in instances)
        return NodeGpus(
            total=count_label(labels, COUNT_LABEL) or 1,
            mig_instances={_profile(name): count for name, count in instances.items()},
            unusable=tuple(_why_no_instance(policy, "mixed", is_shared=is_shared)),
        )
    return _whole_or_shared(labels, capacity, allocatable, foreign, policy)


def _whole_or_shared(
    labels: Mapping[str, str],
    capacity: Requests,
    allocatable: Requests,
    foreign: Requests,
    policy: KubernetesPolicy,
) -> NodeGpus:
    replicas = _replicas(labels)
    resource = policy.gpu_resource
    if capacity.get(policy.shared_gpu_resource) and policy.shared_gpu_resource != resource:
        resource = policy.shared_gpu_resource
        replicas = replicas if replicas > 1 else policy.shares_per_gpu
    offered = int(capacity.get(resource, 0))
    missing = offered - int(allocatable.get(resource, 0))
    is_shareable = replicas > 1
    return NodeGpus(
        total=offered // replicas,
        unhealthy=ceil(missing / replicas),
        foreign=ceil(int(foreign.get(resource, 0)) / replicas),
        is_shareable=is_shareable,
        unusable=tuple(_why_no_replica(policy, resource, replicas)) if is_shareable else (),
    )


def _why_no_replica(policy: KubernetesPolicy, resource: str, replicas: int) -> Iterator[str]:
    if resource != policy.shared_gpu_resource:
        yield (
            f"its shared GPUs are called {resource}, and the policy's "
            f"kubernetes.shared_gpu_resource is {policy.shared_gpu_resource}"
        )
    if replicas != policy.shares_per_gpu:
        yield (
            f"each of its GPUs is shared by {replicas}, and the policy's "
            f"kubernetes.shares_per_gpu is {policy.shares_per_gpu}"
        )


def _why_no_instance(policy: KubernetesPolicy, strategy: str, *, is_shared: bool) -> Iterator[str]:
    if policy.mig_strategy != strategy:
        yield (
            f"its MIG instances are offered with the strategy {strategy!r}, and the policy's "
            f"kubernetes.mig_strategy is {policy.mig_strategy!r}"
        )
    if is_shared:
        yield "its MIG instances are shared, which no run can ask for"


def _replicas(labels: Mapping[str, str]) -> int:
    """By how many is each GPU, or MIG instance, shared?"""
    return count_label(labels, REPLICAS_LABEL) or count_label(labels, _GKE_CLIENTS_LABEL) or 1


def _profile_of_all(labels: Mapping[str, str]) -> str | None:
    """Which MIG instances go by the name of GPUs? None: none do.

    So it is on GKE, and with the device plugin's strategy `single`: all instances of the node are
    alike, and the product's name has the profile.
    """
    of_gke = labels.get(_GKE_PARTITION_LABEL)
    if of_gke is not None:
        return of_gke
    _, is_single, profile = labels.get(PRODUCT_LABEL, "").partition(_IN_MIG_MODE)
    return profile.removesuffix(_SHARED_PRODUCT) if is_single else None


def _profile(resource: str) -> str:
    """With the strategy `mixed` each profile has its resource."""
    return resource.removeprefix(_MIG_PREFIX).replace(".me", "+me")


def _are_replicas(labels: Mapping[str, str], resource: str) -> bool:
    return resource.endswith(".shared") or (count_label(labels, f"{resource}.replicas") or 1) > 1


def _partitioned_gpus(
    labels: Mapping[str, str],
    capacity: Requests,
    profile: str,
    gpu_type: str | None,
    policy: KubernetesPolicy,
) -> int:
    """How many GPUs are divided into instances of one profile? At least one."""
    # GPU Feature Discovery's label counts instances here.
    offered = int(capacity.get(policy.gpu_resource, 0)) // _replicas(labels)
    instances = count_label(labels, COUNT_LABEL) or offered
    known = None if gpu_type is None else mig_profile(gpu_type, profile)
    if known is not None:
        # No two starts of a profile overlap: a GPU has an instance at each.
        return max(1, ceil(instances / len(known.starts)))
    slices, _, _ = profile.partition("g")
    return max(1, instances * int(slices) // _MIG_SLICES) if slices.isdigit() else 1
