"""Did an attempt end because it ran out of memory: of its machine, or of its GPU?"""

import re
from enum import StrEnum

from gpu_core.decisions.model.attempts import Attempt, EndReason


class MemoryShortage(StrEnum):
    """The memory that was used up. A stable contract."""

    GPU = "gpu"
    HOST = "host"


# PyTorch (`torch.OutOfMemoryError`, before 2.5 `torch.cuda.OutOfMemoryError`) with each of its
# allocators, CUDA's own error 2, cuBLAS without a workspace, XLA of JAX and TensorFlow, the kernels
# of TensorFlow, CuPy, and RMM of RAPIDS, which raises Python's MemoryError.
_GPU = re.compile(
    r"\bCUDA out of memory\b|\bCUDA error: out of memory\b|\bCUDA_ERROR_OUT_OF_MEMORY\b"
    r"|\bcudaErrorMemoryAllocation\b|\bCUBLAS_STATUS_ALLOC_FAILED\b"
    r"|\bRESOURCE_EXHAUSTED: Out of memory\b|\b(?:HIP|XPU) out of memory\b"
    r"|\bAllocation on device\b.*\bwould exceed allowed memory\b"
    r"|\bOOM when allocating tensor\b.*\bdevice:GPU\b"
    r"|\bOutOfMemoryError: Out of memory allocating [\d,]+ bytes\b"
    r"|\bout_of_memory: CUDA error\b",
    re.I,
)
# Python, NumPy, a DataLoader's worker without shared memory, and Kubernetes.
_HOST = re.compile(
    r"\bMemoryError\b|\bOOMKilled\b|\bCannot allocate memory\b|\bmost likely out of memory\b"
    r"|\bmemory limit\b|\bOOM when allocating tensor\b",
    re.I,
)
_OWN_ENDS = frozenset({EndReason.FAILED, EndReason.CRASHED})


def memory_shortage(attempt: Attempt) -> MemoryShortage | None:
    """The memory that this attempt ran out of; None: neither, or it was ended by others.

    Args:
        attempt: With the message of its end, which has the exception's text or the pod's reason.
    """
    if attempt.end_reason not in _OWN_ENDS:
        return None
    text = attempt.end_message or ""
    if _GPU.search(text):
        return MemoryShortage.GPU
    return MemoryShortage.HOST if _HOST.search(text) else None
