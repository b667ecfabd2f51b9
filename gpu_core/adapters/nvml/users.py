"""The processes that use the GPUs of this machine, as reported by NVML."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pynvml

from gpu_core.adapters.nvml.driver import LOST, GpuDiscoveryError, nvml, text_of

_logger = logging.getLogger(__name__)


class GpuUsers:
    """Polls which processes use the GPUs of this machine.

    NVML stays initialized in between: without persistence mode each initialization takes seconds.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._is_open = False

    def process_ids(self) -> dict[str, tuple[int, ...]]:
        """The processes with a compute context, by the UUID of the GPU; of an idle GPU none.

        A process of another container or virtual machine has the number that the driver knows. A
        GPU that does not answer is missing.

        Raises:
            GpuDiscoveryError: The driver fails, or is gone. The next call initializes it anew.
        """
        try:
            if not self._is_open and not self._stack.enter_context(nvml()):
                raise GpuDiscoveryError("the NVIDIA driver is not loaded")
            self._is_open = True
            return dict(_by_gpu())
        except (pynvml.NVMLError, GpuDiscoveryError) as error:
            self.close()
            if isinstance(error, GpuDiscoveryError):
                raise
            raise GpuDiscoveryError(f"the NVIDIA driver is not responding: {error}") from error

    def close(self) -> None:
        """Release the driver; the next question initializes it anew."""
        self._is_open = False
        self._stack.close()


def _by_gpu() -> Iterator[tuple[str, tuple[int, ...]]]:
    for index in range(pynvml.nvmlDeviceGetCount()):
        try:
            device = pynvml.nvmlDeviceGetHandleByIndex(index)
            uuid = text_of(pynvml.nvmlDeviceGetUUID, device)
            pids = computing(device)
        except pynvml.NVMLError as error:
            _logger.debug("Unable to list the processes on GPU %d: NVML returned %s", index, error)
            continue
        yield uuid, pids


def computing(device: object) -> tuple[int, ...]:
    """The processes with a compute context on this device, as far as the driver lists them.

    Raises:
        NVMLError: The device is lost.
    """
    return tuple(sorted({pid for query in _PROCESS_QUERIES for pid in _pids(query, device)}))


_PROCESS_QUERIES = (
    pynvml.nvmlDeviceGetComputeRunningProcesses,
    pynvml.nvmlDeviceGetMPSComputeRunningProcesses,
)


def _pids(query: Callable[[object], Sequence[Any]], device: object) -> list[int]:
    try:
        return [process.pid for process in query(device)]
    except (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError) as error:
        if getattr(error, "value", None) in LOST:
            raise
        # Older drivers do not know these forms of the questions.
        _logger.debug("Unable to list all processes on a GPU: NVML returned %s", error)
        return []
