"""The labels by which a Karpenter NodePool chooses among the EC2 machines with GPUs.

Sources: Karpenter's AWS provider v1.14, well-known labels and instance types reference (read
2026-08); cores and memory are those of the catalog that comes with the package. Decisions read no
files, so what they need of it stands here, and a test fails where the two disagree.
"""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from gpu_core.decisions.kubernetes.nodes.clouds import AWS_GPUS, INSTANCE_TYPE_LABEL
from gpu_core.decisions.kubernetes.nodes.instance_types import INSTANCE_GPUS

_DOMAIN = "karpenter.k8s.aws/"
_GENERATION = re.compile(r"(?P<category>[a-z]+)(?P<number>[0-9]+)")
_MIB_PER_GIB = 1024

# Cores, then main memory in GiB.
_SIZES = """
g4dn.xlarge 4 16, g4dn.2xlarge 8 32, g4dn.4xlarge 16 64, g4dn.8xlarge 32 128,
g4dn.12xlarge 48 192, g4dn.16xlarge 64 256, g4dn.metal 96 384,
g5.xlarge 4 16, g5.2xlarge 8 32, g5.4xlarge 16 64, g5.8xlarge 32 128,
g5.12xlarge 48 192, g5.16xlarge 64 256, g5.24xlarge 96 384, g5.48xlarge 192 768,
g6.xlarge 4 16, g6.2xlarge 8 32, g6.4xlarge 16 64, g6.8xlarge 32 128,
g6.12xlarge 48 192, g6.16xlarge 64 256, g6.24xlarge 96 384, g6.48xlarge 192 768,
gr6.4xlarge 16 128, gr6.8xlarge 32 256,
g6e.xlarge 4 32, g6e.2xlarge 8 64, g6e.4xlarge 16 128, g6e.8xlarge 32 256,
g6e.12xlarge 48 384, g6e.16xlarge 64 512, g6e.24xlarge 96 768, g6e.48xlarge 192 1536,
p3.2xlarge 8 61, p3.8xlarge 32 244, p3.16xlarge 64 488, p3dn.24xlarge 96 768,
p4d.24xlarge 96 1152, p4de.24xlarge 96 1152,
p5.4xlarge 16 256, p5.48xlarge 192 2048, p5e.48xlarge 192 2048, p5en.48xlarge 192 2048,
p6-b200.48xlarge 192 2048
"""


class MachineSize(NamedTuple):
    """The resources of a machine apart from its GPUs."""

    cores: int
    memory_gib: int


def _sizes() -> Iterator[tuple[str, MachineSize]]:
    for row in _SIZES.split(","):
        name, cores, memory_gib = row.split()
        yield name, MachineSize(int(cores), int(memory_gib))


EC2_SIZES: Mapping[str, MachineSize] = MappingProxyType(dict(_sizes()))
"""By instance type."""


def ec2_labels(machine: str) -> dict[str, str | None]:
    """The labels that Karpenter gives to a node on this machine.

    Args:
        machine: An instance type of `EC2_SIZES`.

    Returns:
        The value of each label that is known; None: a node on it does not have the label.
    """
    family, _, size = machine.partition(".")
    gpus, room = INSTANCE_GPUS[machine], EC2_SIZES[machine]
    gpu = AWS_GPUS[gpus.gpu_type]
    generation = _GENERATION.match(family) or {"category": "", "number": ""}
    of_instance: dict[str, str | None] = {
        "family": family,
        "size": size,
        "category": generation["category"],
        "generation": generation["number"],
        "cpu": str(room.cores),
        "memory": str(room.memory_gib * _MIB_PER_GIB),
        "gpu-count": str(gpus.gpu_count),
        "gpu-name": gpu.name,
        "gpu-memory": gpu.memory_mib,
        "gpu-manufacturer": "nvidia",
        # Of Inferentia and Trainium, which no machine with GPUs has.
        "accelerator-name": None,
        "accelerator-manufacturer": None,
        "accelerator-count": None,
    }
    return {
        INSTANCE_TYPE_LABEL: machine,
        **{f"{_DOMAIN}instance-{name}": value for name, value in of_instance.items()},
        # So are all machines of the table: g5g, with ARM, is not in it.
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
    }
