"""The NVIDIA GPUs of this machine, as NVML reports them."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pynvml

from gpu_core.decisions.model.errors import GpuSchedulingError

_logger = logging.getLogger(__name__)


class GpuDiscoveryError(GpuSchedulingError):
    """The driver is there and does not work, so it is unknown which GPUs this machine has."""


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
    """Which GPUs may this process use? None of them where there is no NVIDIA driver.

    A GPU that cannot be asked is left out, with a warning.

    Raises:
        GpuDiscoveryError: The driver is installed and fails. An empty answer would be a guess.
    """
    with _nvml() as is_available:
        gpus = tuple(_readable_gpus()) if is_available else ()
    selection = environment.get("CUDA_VISIBLE_DEVICES")
    visible = select_visible(gpus, selection)
    if len(visible) < len(gpus):
        _logger.info(
            "CUDA_VISIBLE_DEVICES=%s leaves %d of %d GPUs", selection, len(visible), len(gpus)
        )
    return visible


class GpuUsers:
    """Who computes on the GPUs of this machine, asked again and again.

    NVML stays initialised in between: without persistence mode each initialisation takes seconds.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._is_open = False

    def process_ids(self) -> dict[str, tuple[int, ...]]:
        """The processes with a compute context, by the UUID of the GPU; of an idle GPU none.

        A process of another container or virtual machine has the number that the driver knows. A
        GPU that does not answer is missing.

        Raises:
            GpuDiscoveryError: The driver fails, or is gone. The next call initialises it anew.
        """
        try:
            if not self._is_open and not self._stack.enter_context(_nvml()):
                raise GpuDiscoveryError("the NVIDIA driver is not loaded")
            self._is_open = True
            return dict(_computing())
        except (pynvml.NVMLError, GpuDiscoveryError) as error:
            self.close()
            if isinstance(error, GpuDiscoveryError):
                raise
            raise GpuDiscoveryError(f"the NVIDIA driver does not answer: {error}") from error

    def close(self) -> None:
        """Release the driver; the next question initialises it anew."""
        self._is_open = False
        self._stack.close()


def _computing() -> Iterator[tuple[str, tuple[int, ...]]]:
    for index in range(pynvml.nvmlDeviceGetCount()):
        try:
            device = pynvml.nvmlDeviceGetHandleByIndex(index)
            uuid = pynvml.nvmlDeviceGetUUID(device)
            pids = {pid for query in _PROCESS_QUERIES for pid in _pids(query, device)}
        except pynvml.NVMLError as error:
            _logger.debug("Who uses GPU %d is unknown: NVML says %s", index, error)
            continue
        yield uuid, tuple(sorted(pids))


_PROCESS_QUERIES = (
    pynvml.nvmlDeviceGetComputeRunningProcesses,
    pynvml.nvmlDeviceGetMPSComputeRunningProcesses,
)

# A GPU that answers so is of no use. Other errors, the unknown one among them, may say that
# this driver does not list processes, as that of some virtual machines.
_LOST = frozenset(
    {
        pynvml.NVML_ERROR_TIMEOUT,
        pynvml.NVML_ERROR_IRQ_ISSUE,
        pynvml.NVML_ERROR_GPU_IS_LOST,
        pynvml.NVML_ERROR_RESET_REQUIRED,
    }
)


def _pids(query: Callable[[object], Sequence[Any]], device: object) -> list[int]:
    try:
        return [process.pid for process in query(device)]
    except (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError) as error:
        if getattr(error, "value", None) in _LOST:
            raise
        # Older drivers do not know these forms of the questions.
        _logger.debug("Not all users of a GPU are known: NVML says %s", error)
        return []


def select_visible(
    gpus: tuple[DiscoveredGpu, ...], cuda_visible_devices: str | None
) -> tuple[DiscoveredGpu, ...]:
    """Which GPUs does this value of `CUDA_VISIBLE_DEVICES` leave, in which order?

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


@contextmanager
def _nvml() -> Iterator[bool]:
    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded):
        yield False
        return
    except pynvml.NVMLError as error:
        raise GpuDiscoveryError(
            f"the NVIDIA driver is installed and does not answer: {error}; "
            "see whether `nvidia-smi` works, and restart the machine after a driver update"
        ) from error
    try:
        yield True
    finally:
        with suppress(pynvml.NVMLError):  # a driver that fails has nothing to release
            pynvml.nvmlShutdown()


def _readable_gpus() -> Iterator[DiscoveredGpu]:
    for index in range(pynvml.nvmlDeviceGetCount()):
        try:
            yield _read_gpu(index)
        except pynvml.NVMLError as error:
            _logger.warning("GPU %d is left out: NVML says %s", index, error)


def _read_gpu(index: int) -> DiscoveredGpu:
    device = pynvml.nvmlDeviceGetHandleByIndex(index)
    return DiscoveredGpu(
        uuid=pynvml.nvmlDeviceGetUUID(device),
        index=index,
        product_name=pynvml.nvmlDeviceGetName(device),
        memory_total_bytes=_memory_total_bytes(device),
        is_mig_enabled=_is_mig_enabled(device),
    )


def _memory_total_bytes(device: object) -> int | None:
    try:
        return int(pynvml.nvmlDeviceGetMemoryInfo(device).total)
    except pynvml.NVMLError_NotSupported:
        return None


def _is_mig_enabled(device: object) -> bool:
    try:
        current_mode, _pending_mode = pynvml.nvmlDeviceGetMigMode(device)
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
        # GPUs before the A100 and drivers before it know nothing of MIG.
        return False
    return bool(current_mode == pynvml.NVML_DEVICE_MIG_ENABLE)
