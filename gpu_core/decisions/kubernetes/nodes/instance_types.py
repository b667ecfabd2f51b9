"""The GPUs of a cloud's machine type, for clusters whose labels say no more than that.

Of EC2 the catalog that comes with the package is the source: decisions read no files, so what they
need of it stands here, and a test fails where the two disagree. Google's and Microsoft's are from
their machine-type pages (read 2026-08). A type that is not listed is unknown, never guessed. The
EC2 types g6f and gr6f are left out on purpose: they have a part of a GPU and no `nvidia.com/gpu`.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple


class InstanceGpus(NamedTuple):
    """The GPUs of one machine."""

    gpu_type: str
    gpu_count: int


_EC2_SIZES = {1: "xlarge 2xlarge 4xlarge 8xlarge 16xlarge", 4: "12xlarge 24xlarge", 8: "48xlarge"}

# Family -> GPU type, and the sizes by the number of their GPUs.
_EC2: Mapping[str, tuple[str, Mapping[int, str]]] = {
    "g4dn": ("t4", {1: _EC2_SIZES[1], 4: "12xlarge", 8: "metal"}),
    "g5": ("a10g", _EC2_SIZES),
    "g6": ("l4", _EC2_SIZES),
    "gr6": ("l4", {1: "4xlarge 8xlarge"}),
    "g6e": ("l40s", _EC2_SIZES),
    "p3": ("v100-16gb", {1: "2xlarge", 4: "8xlarge", 8: "16xlarge"}),
    "p3dn": ("v100-32gb", {8: "24xlarge"}),
    "p4d": ("a100-40gb", {8: "24xlarge"}),
    "p4de": ("a100-80gb", {8: "24xlarge"}),
    "p5": ("h100-80gb", {1: "4xlarge", 8: "48xlarge"}),
    "p5e": ("h200", {8: "48xlarge"}),
    "p5en": ("h200", {8: "48xlarge"}),
    "p6-b200": ("b200", {8: "48xlarge"}),
}

_OTHERS: Mapping[str, tuple[str, int]] = {
    **{f"a2-highgpu-{n}g": ("a100-40gb", n) for n in (1, 2, 4, 8)},
    "a2-megagpu-16g": ("a100-40gb", 16),
    **{f"a2-ultragpu-{n}g": ("a100-80gb", n) for n in (1, 2, 4, 8)},
    **{f"a3-highgpu-{n}g": ("h100-80gb", n) for n in (1, 2, 4, 8)},
    "a3-megagpu-8g": ("h100-80gb", 8),
    "a3-ultragpu-8g": ("h200", 8),
    "a4-highgpu-8g": ("b200", 8),
    **{f"g2-standard-{n}": ("l4", 1) for n in (4, 8, 12, 16, 32)},
    "g2-standard-24": ("l4", 2),
    "g2-standard-48": ("l4", 4),
    "g2-standard-96": ("l4", 8),
    **{f"Standard_NC{n}as_T4_v3": ("t4", 1) for n in (4, 8, 16)},
    "Standard_NC64as_T4_v3": ("t4", 4),
    "Standard_NC6s_v3": ("v100-16gb", 1),
    "Standard_NC12s_v3": ("v100-16gb", 2),
    "Standard_NC24s_v3": ("v100-16gb", 4),
    "Standard_ND40rs_v2": ("v100-32gb", 8),
    "Standard_ND96asr_v4": ("a100-40gb", 8),
    "Standard_ND96amsr_A100_v4": ("a100-80gb", 8),
    "Standard_NC24ads_A100_v4": ("a100-80gb", 1),
    "Standard_NC48ads_A100_v4": ("a100-80gb", 2),
    "Standard_NC96ads_A100_v4": ("a100-80gb", 4),
    "Standard_ND96isr_H100_v5": ("h100-80gb", 8),
    "Standard_ND96isr_H200_v5": ("h200", 8),
}


def _all() -> Iterator[tuple[str, InstanceGpus]]:
    for family, (gpu_type, sizes) in _EC2.items():
        for count, names in sizes.items():
            for size in names.split():
                yield f"{family}.{size}", InstanceGpus(gpu_type, count)
    for name, (gpu_type, count) in _OTHERS.items():
        yield name, InstanceGpus(gpu_type, count)


INSTANCE_GPUS: Mapping[str, InstanceGpus] = MappingProxyType(dict(_all()))
"""The GPUs of each known machine type, by the value of `node.kubernetes.io/instance-type`."""


def instance_types_with(gpu_type: str, least_gpus: int, cloud: str) -> tuple[str, ...]:
    """The machines of a cloud with this many GPUs of this type.

    Args:
        gpu_type: Such as `a100-80gb`.
        least_gpus: How many one machine has at least.
        cloud: `aws`, `gcp` or `azure`.
    """
    return tuple(
        name
        for name, gpus in INSTANCE_GPUS.items()
        if gpus.gpu_type == gpu_type and gpus.gpu_count >= least_gpus and _cloud_of(name) == cloud
    )


def _cloud_of(instance_type: str) -> str:
    if instance_type.startswith("Standard_"):
        return "azure"
    return "aws" if "." in instance_type else "gcp"
