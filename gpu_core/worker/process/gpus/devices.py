"""Detects the GPUs of this machine: physical GPUs, else the virtual GPUs of the policy."""

import socket
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import psutil

from gpu_core.adapters.nvml import DiscoveredGpu, GpuDiscoveryError, discover_gpus
from gpu_core.decisions.catalog.product_names import gpu_type_from_product_name, nominal_memory_gib
from gpu_core.decisions.model.cluster import Machine, Node
from gpu_core.decisions.model.section import CapacityType
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.telemetry.virtual_gpus import VIRTUAL_PREFIX
from gpu_core.worker.operations.bounded_call import BoundedCall

# proc(5): a new one at each boot of Linux.
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

# Without persistence mode the driver initializes each GPU for each program that asks, for seconds.
_ANSWER_S = 60.0

_discovery: BoundedCall[tuple[DiscoveredGpu, ...]] = BoundedCall()


def machine_gpus() -> tuple[DiscoveredGpu, ...]:
    """The GPUs of this machine that this process may use, as NVML names them.

    Raises:
        GpuDiscoveryError: The driver is installed, and fails or does not answer.
    """
    try:
        return _discovery.of(discover_gpus, _ANSWER_S)
    except TimeoutError as error:
        raise GpuDiscoveryError(
            f"the NVIDIA driver is installed but did not respond within {_ANSWER_S:.0f} "
            "seconds. Check whether `nvidia-smi` works."
        ) from error


def local_nodes(policy: Policy, capacity_type: CapacityType = "on-demand") -> tuple[Node, ...]:
    """The machine as the scheduler sees it: one node for each GPU type that it holds.

    Args:
        policy: Which virtual GPUs it has, where it has no real ones.
        capacity_type: What the machine is.
    """
    # A GPU that is cut into MIG devices cannot be used whole; its parts are not offered yet.
    discovered = tuple(gpu for gpu in machine_gpus() if not gpu.is_mig_enabled)
    nodes = _real_nodes(discovered) if discovered else _virtual_nodes(policy)
    there = tuple(replace(node, capacity_type=capacity_type) for node in nodes)
    found = there if discovered else (*there, *_virtual_spot(policy))
    return tuple(replace(node, machine=_machine(node, len(found))) for node in found)


def _machine(node: Node, nodes: int) -> Machine:
    """The billed resources of this node. The CPUs and memory of several nodes are counted once."""
    is_whole = nodes == 1
    return Machine(
        gpus=len(node.gpu_ids),
        cpu_milli=1000 * (psutil.cpu_count() or 0) or None if is_whole else None,
        memory_mib=psutil.virtual_memory().total // 2**20 if is_whole else None,
        incarnation=boot_id(),
        created_at=datetime.fromtimestamp(psutil.boot_time(), UTC),
    )


def boot_id() -> str | None:
    """The id of this boot of the machine; None: its system has no ids of boots."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return None


def visible_devices(gpu_ids: tuple[str, ...]) -> str:
    """The value of CUDA_VISIBLE_DEVICES: UUIDs of real GPUs, numbers of virtual ones."""
    return ",".join(gpu_id.removeprefix(VIRTUAL_PREFIX) for gpu_id in gpu_ids)


def _real_nodes(discovered: tuple[DiscoveredGpu, ...]) -> tuple[Node, ...]:
    by_type: dict[str, list[DiscoveredGpu]] = defaultdict(list)
    for gpu in discovered:
        by_type[gpu_type_from_product_name(gpu.product_name, gpu.memory_total_bytes)].append(gpu)
    host = socket.gethostname()
    return tuple(
        Node(
            name=host if len(by_type) == 1 else f"{host}/{gpu_type}",
            gpu_type=gpu_type,
            gpu_ids=tuple(gpu.uuid for gpu in sorted(gpus, key=lambda gpu: gpu.index)),
            gpu_memory_gib=nominal_memory_gib(gpu_type) or _whole_gib(gpus[0]),
        )
        for gpu_type, gpus in sorted(by_type.items())
    )


def _whole_gib(gpu: DiscoveredGpu) -> int | None:
    return None if gpu.memory_total_bytes is None else gpu.memory_total_bytes // 2**30


def _virtual_nodes(policy: Policy) -> tuple[Node, ...]:
    virtual = policy.virtual_gpus
    if virtual is None:
        return ()
    return (_virtual_node(virtual.gpu_type, range(virtual.count)),)


def _virtual_spot(policy: Policy) -> tuple[Node, ...]:
    virtual = policy.virtual_gpus
    if virtual is None or not virtual.spot:
        return ()
    node = _virtual_node(virtual.gpu_type, range(virtual.count, virtual.count + virtual.spot))
    return (replace(node, name=f"{node.name}/spot", capacity_type="spot"),)


def _virtual_node(gpu_type: str, numbers: range) -> Node:
    return Node(
        name=socket.gethostname(),
        gpu_type=gpu_type,
        gpu_ids=tuple(f"{VIRTUAL_PREFIX}{number}" for number in numbers),
        gpu_memory_gib=nominal_memory_gib(gpu_type),
    )
