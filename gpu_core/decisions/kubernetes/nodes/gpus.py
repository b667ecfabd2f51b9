"""The offer of a node's device plugin: whole GPUs, replicas of shared ones, or MIG instances.

Sources: NVIDIA's device plugin and GPU Feature Discovery v0.17 (README); of GKE the pages "GPU
time-sharing", "NVIDIA MPS" and "Running multi-instance GPUs" (read 2026-11): its node pools keep
the name `nvidia.com/gpu` for replicas and for MIG instances, one for each container.
"""

from collections.abc import Iterator, Mapping
from math import ceil
from types import MappingProxyType
from typing import NamedTuple

from gpu_core.decisions.catalog.mig import mig_profile
from gpu_core.decisions.kubernetes.nodes.clouds import PRODUCT_LABEL
from gpu_core.decisions.kubernetes.nodes.labels import COUNT_LABEL, REPLICAS_LABEL, count_label
from gpu_core.decisions.kubernetes.nodes.pod_requests import Requests
from gpu_core.decisions.policy.sharing import MIG_PREFIX, SharingSettings, field_of

_GKE_CLIENTS_LABEL = "cloud.google.com/gke-max-shared-clients-per-gpu"
_GKE_PARTITION_LABEL = "cloud.google.com/gke-gpu-partition-size"
_IN_MIG_MODE = "-MIG-"
_SHARED_PRODUCT = "-SHARED"
# What the device plugin appends to a resource whose replicas it renames.
_RENAMED = ".shared"
# The MIG manager's label (GPU operator v24.9): `all-1g.10gb` divides every GPU alike.
_MIG_CONFIG_LABEL = "nvidia.com/mig.config"
_ALL_OF_PROFILE = "all-"
_STRATEGY_LABEL = "nvidia.com/gpu.sharing-strategy"
_STRATEGIES = frozenset({"time-slicing", "mps"})
_GPU_RESOURCE = "nvidia.com/gpu"
# Compute slices of a GPU in MIG mode (NVIDIA MIG user guide; 4 on an A30).
_MIG_SLICES = 7


class NodeGpus(NamedTuple):
    """The physical GPUs of a node, as far as its device plugin reports them."""

    total: int
    unhealthy: int = 0
    foreign: int = 0
    is_shareable: bool = False
    mig_instances: Mapping[str, int] = MappingProxyType({})
    """MIG instances that others leave, by profile."""
    resource: str | None = None
    """The resource that a pod requests for one, or for a share of one. For MIG instances that go by
    their profiles it is the beginning of the name; None: there is none."""
    shares_per_gpu: int | None = None
    """Replicas of each; None: it is not known, or they are not shared."""
    unusable: tuple[str, ...] = ()
    """The reasons why none of them can be requested; empty: they can."""
    contradictions: tuple[str, ...] = ()
    """Settings of the policy that contradict the node; the node counts."""


def node_gpus(
    labels: Mapping[str, str],
    capacity: Requests,
    allocatable: Requests,
    foreign: Requests,
    gpu_type: str | None,
    sharing: SharingSettings,
) -> NodeGpus:
    """The GPUs of a node, and how they are divided.

    What the node offers and says itself, by GPU Feature Discovery or the labels of its cloud, comes
    before the policy.

    Args:
        capacity: All that it has, by resource.
        gpu_type: Of its GPUs; None: not known.
    """
    left = {
        name: max(0, int(allocatable.get(name, 0) - foreign.get(name, 0)))
        for name, n in capacity.items()
        if n  # a resource that is no more offered stays listed with 0
    }
    one_profile = _profile_of_all(labels)
    if one_profile is not None:
        resource = _gpu_resource(capacity, sharing)
        return NodeGpus(
            total=_partitioned_gpus(labels, capacity, one_profile, gpu_type, resource),
            mig_instances={one_profile: left.get(resource, 0)},
            resource=resource,
            unusable=tuple(_why_no_instance(is_shared=_replicas(labels) > 1)),
            contradictions=tuple(_other_strategy(sharing, "single")),
        )
    instances = {name: count for name, count in left.items() if name.startswith(MIG_PREFIX)}
    if instances:
        is_shared = any(_are_replicas(labels, name) for name in instances)
        return NodeGpus(
            total=count_label(labels, COUNT_LABEL) or 1,
            mig_instances={_profile(name): count for name, count in instances.items()},
            resource=MIG_PREFIX,
            unusable=tuple(_why_no_instance(is_shared=is_shared)),
            contradictions=tuple(_other_strategy(sharing, "mixed")),
        )
    return _whole_or_shared(labels, capacity, allocatable, foreign, sharing)


def expected_gpus(
    labels: Mapping[str, str], gpu_type: str, gpus: int, sharing: SharingSettings
) -> NodeGpus:
    """The GPUs of a node that is still to come, and how they will be divided.

    Its labels say it on GKE, and where they name the MIG manager's configuration; else the policy's
    entry for its pool does. Without any of these its GPUs are whole.
    """
    of_gke = labels.get(_GKE_PARTITION_LABEL)
    configured = labels.get(_MIG_CONFIG_LABEL, "")
    name = of_gke or configured.removeprefix(_ALL_OF_PROFILE)
    profile = mig_profile(gpu_type, name)
    if profile is not None:
        is_single = of_gke is not None or sharing.mig_strategy == "single"
        return NodeGpus(
            total=gpus,
            mig_instances={name: gpus * len(profile.starts)},
            resource=sharing.gpu_resource if is_single else MIG_PREFIX,
        )
    clients = count_label(labels, _GKE_CLIENTS_LABEL) or 1
    if clients > 1:
        return _shared(gpus, clients, sharing.gpu_resource)
    if sharing.is_shared:
        return _shared(gpus, sharing.shares_per_gpu, sharing.shared_gpu_resource)
    return NodeGpus(total=gpus, resource=sharing.gpu_resource)


def _shared(gpus: int, shares_per_gpu: int, resource: str) -> NodeGpus:
    return NodeGpus(total=gpus, is_shareable=True, resource=resource, shares_per_gpu=shares_per_gpu)


def _whole_or_shared(
    labels: Mapping[str, str],
    capacity: Requests,
    allocatable: Requests,
    foreign: Requests,
    sharing: SharingSettings,
) -> NodeGpus:
    renamed = _renamed(capacity, sharing)
    resource = renamed or _gpu_resource(capacity, sharing)
    replicas = _shares(labels, sharing, is_renamed=renamed is not None)
    offered = int(capacity.get(resource, 0))
    missing = offered - int(allocatable.get(resource, 0))
    is_shareable = replicas > 1
    return NodeGpus(
        total=offered // replicas,
        unhealthy=ceil(missing / replicas),
        foreign=ceil(int(foreign.get(resource, 0)) / replicas),
        is_shareable=is_shareable,
        resource=resource,
        shares_per_gpu=replicas if is_shareable else None,
        contradictions=tuple(_other_sharing(sharing, resource, replicas)) if offered else (),
    )


def _gpu_resource(capacity: Requests, sharing: SharingSettings) -> str:
    """The resource name of its GPUs: the policy's, unless it offers only the usual one."""
    usual = sharing.gpu_resource
    return next((name for name in (usual, _GPU_RESOURCE) if capacity.get(name)), usual)


def _renamed(capacity: Requests, sharing: SharingSettings) -> str | None:
    """The resource name, other than that of GPUs, under which it offers replicas; None: none."""
    names = (sharing.shared_gpu_resource, f"{sharing.gpu_resource}{_RENAMED}")
    return next(
        (name for name in names if capacity.get(name) and name != sharing.gpu_resource), None
    )


def _shares(labels: Mapping[str, str], sharing: SharingSettings, *, is_renamed: bool) -> int:
    """The number of runs that share each of its GPUs."""
    replicas = _replicas(labels)
    if replicas > 1:
        return replicas
    is_shared = is_renamed or labels.get(_STRATEGY_LABEL) in _STRATEGIES
    # Who discovers GPUs says of one that is not shared that it has one replica.
    is_silent = REPLICAS_LABEL not in labels and _STRATEGY_LABEL not in labels
    return sharing.shares_per_gpu if is_shared or (sharing.is_shared and is_silent) else 1


def _other_sharing(sharing: SharingSettings, resource: str, replicas: int) -> Iterator[str]:
    """Settings of the policy that contradict the node. Its defaults contradict nothing."""
    if replicas == 1:
        if sharing.is_shared:
            shares = sharing.shares_per_gpu
            yield f"its GPUs are not shared, but {field_of(sharing, 'shares_per_gpu')} is {shares}"
        return
    if resource != sharing.shared_gpu_resource and "shared_gpu_resource" in sharing.stated:
        yield (
            f"its shared GPUs are named {resource}, but "
            f"{field_of(sharing, 'shared_gpu_resource')} is {sharing.shared_gpu_resource}"
        )
    if replicas != sharing.shares_per_gpu and "shares_per_gpu" in sharing.stated:
        yield (
            f"each of its GPUs has {replicas} replicas, but "
            f"{field_of(sharing, 'shares_per_gpu')} is {sharing.shares_per_gpu}"
        )


def _other_strategy(sharing: SharingSettings, strategy: str) -> Iterator[str]:
    if sharing.mig_strategy != strategy and "mig_strategy" in sharing.stated:
        yield (
            f"its MIG strategy is {strategy!r}, but {field_of(sharing, 'mig_strategy')} is "
            f"{sharing.mig_strategy!r}"
        )


def _why_no_instance(*, is_shared: bool) -> Iterator[str]:
    if is_shared:
        yield "its MIG instances are shared and cannot be requested by runs"


def _replicas(labels: Mapping[str, str]) -> int:
    """The number of replicas of each GPU, or MIG instance."""
    return count_label(labels, REPLICAS_LABEL) or count_label(labels, _GKE_CLIENTS_LABEL) or 1


def _profile_of_all(labels: Mapping[str, str]) -> str | None:
    """The profile of the MIG instances that are offered under the name of GPUs; None: none are.

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
    return resource.removeprefix(MIG_PREFIX).replace(".me", "+me")


def _are_replicas(labels: Mapping[str, str], resource: str) -> bool:
    return resource.endswith(".shared") or (count_label(labels, f"{resource}.replicas") or 1) > 1


def _partitioned_gpus(
    labels: Mapping[str, str],
    capacity: Requests,
    profile: str,
    gpu_type: str | None,
    resource: str,
) -> int:
    """How many GPUs are divided into instances of one profile? At least one."""
    # GPU Feature Discovery's label counts instances here.
    offered = int(capacity.get(resource, 0)) // _replicas(labels)
    instances = count_label(labels, COUNT_LABEL) or offered
    known = None if gpu_type is None else mig_profile(gpu_type, profile)
    if known is not None:
        # No two starts of a profile overlap: a GPU has an instance at each.
        return max(1, ceil(instances / len(known.starts)))
    slices, _, _ = profile.partition("g")
    return max(1, instances * int(slices) // _MIG_SLICES) if slices.isdigit() else 1
