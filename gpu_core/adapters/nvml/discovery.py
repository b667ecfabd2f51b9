"""The NVIDIA GPUs of this machine, as NVML reports them."""

import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pynvml

from gpu_core.adapters.nvml.driver import nvml, text_of

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveredGpu:
    """One GPU of this machine."""

    uuid: str
    index: int
    """NVML's index: the order of the PCI bus."""
    product_name: str
    memory_total_bytes: int | None
    """None: the GPU shares the machine's memory and has no size of its own."""
    is_mig_enabled: bool
    """Its compute lies in MIG instances; the whole GPU runs nothing."""


def discover_gpus(environment: Mapping[str, str] = os.environ) -> tuple[DiscoveredGpu, ...]:
    """The GPUs that this process may use; none where there is no NVIDIA driver.

    A GPU that cannot be asked is left out, with a warning.

    Raises:
        GpuDiscoveryError: The driver is installed and fails. An empty answer would be a guess.
    """
    with nvml() as is_available:
        gpus = tuple(_readable_gpus()) if is_available else ()
    selection = environment.get("CUDA_VISIBLE_DEVICES")
    visible = select_visible(gpus, selection)
    if len(visible) < len(gpus):
        _logger.info(
            "CUDA_VISIBLE_DEVICES=%s limits the worker to %d of %d GPUs",
            selection,
            len(visible),
            len(gpus),
        )
    return visible


def select_visible(
    gpus: tuple[DiscoveredGpu, ...], cuda_visible_devices: str | None
) -> tuple[DiscoveredGpu, ...]:
    """The GPUs that this value of `CUDA_VISIBLE_DEVICES` leaves, in its order.

    CUDA's own rule (CUDA C++ Programming Guide, "CUDA Environment Variables"): indices or
    `GPU-` ids, which may be shortened as long as they stay unique; the first entry that names
    no GPU hides itself and all that follow. A GPU that is named twice counts once.

    Args:
        cuda_visible_devices: The variable's value; None where it is not set.
    """
    if cuda_visible_devices is None:
        return gpus
    selected: list[DiscoveredGpu] = []
    for entry in cuda_visible_devices.split(","):
        gpu = _named_gpu(gpus, entry.strip())
        if gpu is None:
            break
        if gpu not in selected:
            selected.append(gpu)
    return tuple(selected)


def _named_gpu(gpus: tuple[DiscoveredGpu, ...], entry: str) -> DiscoveredGpu | None:
    if entry.isdecimal():
        return next((gpu for gpu in gpus if gpu.index == int(entry)), None)
    if not entry.startswith("GPU-"):
        return None
    matches = [gpu for gpu in gpus if gpu.uuid.startswith(entry)]
    return matches[0] if len(matches) == 1 else None


def _readable_gpus() -> Iterator[DiscoveredGpu]:
    for index in range(pynvml.nvmlDeviceGetCount()):
        try:
            yield _read_gpu(index)
        except pynvml.NVMLError as error:
            _logger.warning("Excluding GPU %d: NVML returned %s", index, error)


def _read_gpu(index: int) -> DiscoveredGpu:
    device = pynvml.nvmlDeviceGetHandleByIndex(index)
    return DiscoveredGpu(
        uuid=text_of(pynvml.nvmlDeviceGetUUID, device),
        index=index,
        product_name=text_of(pynvml.nvmlDeviceGetName, device),
        memory_total_bytes=_memory_total_bytes(device),
        is_mig_enabled=is_mig_enabled(device),
    )


def _memory_total_bytes(device: object) -> int | None:
    try:
        return int(pynvml.nvmlDeviceGetMemoryInfo(device).total)
    except pynvml.NVMLError_NotSupported:
        return None


def is_mig_enabled(device: object) -> bool:
    """Is this GPU cut into MIG instances?"""
    try:
        current_mode, _pending_mode = pynvml.nvmlDeviceGetMigMode(device)
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
        # GPUs before the A100 and drivers before it know nothing of MIG.
        return False
    return bool(current_mode == pynvml.NVML_DEVICE_MIG_ENABLE)
