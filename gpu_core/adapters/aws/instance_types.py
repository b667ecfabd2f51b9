"""One row of AWS's list of instance types as ours."""

import re
from collections.abc import Mapping
from typing import Any

from gpu_core.decisions.catalog.offerings import InstanceType, TypeKey
from gpu_core.decisions.catalog.product_names import gpu_type_from_product_name
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI

_MIB = 1024**2

# "Up to 25 Gigabit" is a burst: what is sustained is unknown.
_SUSTAINED = re.compile(r"(?:(\d+)x )?(\d+) Gigabit")


def instance_type_of(row: Mapping[str, Any]) -> InstanceType | None:
    """The instance type of a row; None: it has no NVIDIA GPU.

    Args:
        row: One of `InstanceTypes` in the answer to `describe_instance_types`.
    """
    gpus = [gpu for gpu in row.get("GpuInfo", {}).get("Gpus", ()) if _is_nvidia(gpu)]
    if not gpus:
        return None
    gpu = gpus[0]
    share = gpu.get("GpuPartitionSize", 1.0)
    memory_mib = gpu["MemoryInfo"]["SizeInMiB"]
    return InstanceType(
        key=TypeKey("aws", row["InstanceType"]),
        gpu_type=gpu_type_from_product_name(gpu["Name"], round(memory_mib / share) * _MIB),
        # A part of a GPU is counted as no GPU, and as one logical GPU (g6f, seen 2026-11).
        gpu_count=gpu["Count"] or gpu["LogicalGpuCount"],
        gpu_share_milli=round(share * WHOLE_GPU_MILLI),
        gpu_memory_mib=memory_mib,
        vcpus=row.get("VCpuInfo", {}).get("DefaultVCpus"),
        memory_gib=row["MemoryInfo"]["SizeInMiB"] / 1024,
        network_gbps=_network_gbps(row.get("NetworkInfo", {}).get("NetworkPerformance", "")),
    )


def _is_nvidia(gpu: Mapping[str, Any]) -> bool:
    return bool(gpu["Manufacturer"] == "NVIDIA")


def _network_gbps(text: str) -> float | None:
    match = _SUSTAINED.fullmatch(text)
    return None if match is None else float(match[1] or 1) * float(match[2])
