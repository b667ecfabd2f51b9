"""The NVIDIA driver: initialize it, release it, and what its errors mean."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pynvml

from gpu_core.decisions.model.errors import GpuSchedulingError


class GpuDiscoveryError(GpuSchedulingError):
    """The driver is there and does not work, so it is unknown which GPUs this machine has."""


class DriverReplacedError(GpuDiscoveryError):
    """The driver is not that of the library which this process has loaded and keeps."""


# A GPU that answers so is of no use. Other errors, the unknown one among them, may say that
# this driver does not know a question, as that of some virtual machines.
LOST = frozenset(
    {
        pynvml.NVML_ERROR_TIMEOUT,
        pynvml.NVML_ERROR_IRQ_ISSUE,
        pynvml.NVML_ERROR_GPU_IS_LOST,
        pynvml.NVML_ERROR_RESET_REQUIRED,
    }
)


@contextmanager
def nvml() -> Iterator[bool]:
    """The driver, initialized; False where there is none.

    Raises:
        GpuDiscoveryError: It is installed and fails.
    """
    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded):
        yield False
        return
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
            raise DriverReplacedError(
                f"the NVIDIA driver is installed but not responding: {error}. Restart this "
                "process or, if `nvidia-smi` fails, the machine."
            ) from error
        raise GpuDiscoveryError(
            f"the NVIDIA driver is installed but not responding: {error}. Check "
            "`nvidia-smi` and restart the machine after a driver update."
        ) from error
    try:
        yield True
    finally:
        with suppress(pynvml.NVMLError):  # a driver that fails has nothing to release
            pynvml.nvmlShutdown()


def text_of(question: Callable[[object], str], device: object) -> str:
    """The device's answer to a question for a text.

    Raises:
        NVMLError: It has none, or its answer is no text.
    """
    try:
        return question(device)
    except UnicodeDecodeError as error:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN) from error
