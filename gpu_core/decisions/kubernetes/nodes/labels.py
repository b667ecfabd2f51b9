"""The GPUs and the capacity of a node, from its labels."""

import re
from collections.abc import Mapping

from gpu_core.decisions.catalog.product_names import gpu_type_from_product_name
from gpu_core.decisions.kubernetes.manifests.names import CAPACITY_TYPE_LABEL
from gpu_core.decisions.kubernetes.nodes.clouds import (
    AKS_PRIORITY_LABEL,
    EKS_CAPACITY,
    EKS_CAPACITY_LABEL,
    GKE_ACCELERATOR_LABEL,
    GKE_ACCELERATORS,
    GKE_SPOT_LABEL,
    INSTANCE_TYPE_LABEL,
    KARPENTER_CAPACITY_LABEL,
    PRODUCT_LABEL,
)
from gpu_core.decisions.kubernetes.nodes.instance_types import INSTANCE_GPUS
from gpu_core.decisions.model.cluster import ON_DEMAND, RESERVED, SPOT

COUNT_LABEL = "nvidia.com/gpu.count"
REPLICAS_LABEL = "nvidia.com/gpu.replicas"

_BYTES_PER_MIB = 1024**2

# Labels with the chip's name, and those with its memory in MiB.
_NAMED = (
    (PRODUCT_LABEL, "nvidia.com/gpu.memory"),
    ("karpenter.k8s.aws/instance-gpu-name", "karpenter.k8s.aws/instance-gpu-memory"),
    ("eks.amazonaws.com/instance-gpu-name", "eks.amazonaws.com/instance-gpu-memory"),
)
# What GPU Feature Discovery appends to the product's name.
_PRODUCT_SUFFIX = re.compile(r"-(?:SHARED|MIG-.*)$")


def gpu_type_of(
    labels: Mapping[str, str], own_labels: Mapping[str, Mapping[str, str]]
) -> str | None:
    """The type of GPU of a node with these labels; None: they do not say.

    What is closest to the hardware comes first: GPU Feature Discovery, then the provisioner, then
    the table of machine types.

    Args:
        own_labels: Labels of the platform team's own by GPU type; they come before all others.
    """
    for gpu_type, wanted in own_labels.items():
        if wanted.items() <= labels.items():
            return gpu_type
    for name_label, memory_label in _NAMED:
        if name_label in labels:
            return _from_product(labels[name_label], labels.get(memory_label))
    accelerator = labels.get(GKE_ACCELERATOR_LABEL)
    if accelerator is not None:
        product = accelerator.removeprefix("nvidia-").removeprefix("tesla-")
        return GKE_ACCELERATORS.get(accelerator) or _from_product(product, None)
    machine = INSTANCE_GPUS.get(labels.get(INSTANCE_TYPE_LABEL, ""))
    return None if machine is None else machine.gpu_type


def _from_product(product: str, memory_mib: str | None) -> str:
    whole = _PRODUCT_SUFFIX.sub("", product)
    # Of an instance, not of the GPU: then only the name counts.
    is_part = "-MIG-" in product
    known = memory_mib is not None and memory_mib.isdigit() and not is_part
    return gpu_type_from_product_name(
        whole, int(memory_mib or 0) * _BYTES_PER_MIB if known else None
    )


def reported_memory_gib(labels: Mapping[str, str]) -> int | None:
    """How much memory do the labels give each GPU, to the nearest GiB? None: they do not say."""
    for name_label, memory_label in _NAMED:
        memory_mib = labels.get(memory_label, "")
        if memory_mib.isdigit() and "-MIG-" not in labels.get(name_label, ""):
            return round(int(memory_mib) / 1024)
    return None


def capacity_type_of(labels: Mapping[str, str]) -> str:
    """The capacity type of a node with these labels: on-demand, where none says otherwise."""
    for label in (CAPACITY_TYPE_LABEL, KARPENTER_CAPACITY_LABEL):
        if labels.get(label) in (SPOT, ON_DEMAND, RESERVED):
            return labels[label]
    if labels.get(EKS_CAPACITY_LABEL) in EKS_CAPACITY:
        return EKS_CAPACITY[labels[EKS_CAPACITY_LABEL]]
    is_spot = (
        labels.get(GKE_SPOT_LABEL) == "true"
        or labels.get("cloud.google.com/gke-preemptible") == "true"
        or labels.get(AKS_PRIORITY_LABEL) == SPOT
    )
    return SPOT if is_spot else ON_DEMAND


def count_label(labels: Mapping[str, str], label: str) -> int | None:
    """The number in this label; None: there is none."""
    text = labels.get(label, "")
    return int(text) if text.isdigit() else None
