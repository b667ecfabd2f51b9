"""Which memory an attempt ran out of."""

import pytest

from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.requests.out_of_memory.shortage import MemoryShortage, memory_shortage
from gpu_core.testing.builders.attempts import make_attempt

TORCH = (
    "Failure 1 of 3: Flow run encountered an exception: OutOfMemoryError: CUDA out of memory. "
    "Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB. Retrying the run."
)


def ended(message, reason=EndReason.FAILED):
    return make_attempt("r", end_reason=reason, end_message=message)


@pytest.mark.parametrize(
    ("message", "want"),
    [
        pytest.param(TORCH, MemoryShortage.GPU, id="torch"),
        pytest.param("RuntimeError: CUDA error: out of memory", MemoryShortage.GPU, id="CUDA"),
        pytest.param(
            "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate",
            *(MemoryShortage.GPU,),
            id="cuBLAS",
        ),
        pytest.param(
            "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9 bytes.",
            *(MemoryShortage.GPU,),
            id="JAX",
        ),
        pytest.param(
            "OutOfMemoryError: Allocation on device 0 would exceed allowed memory.",
            *(MemoryShortage.GPU,),
            id="torch with CUDA's own allocator",
        ),
        pytest.param(
            "OutOfMemoryError: Out of memory allocating 1,099,511,627,776 bytes (allocated so far: "
            "0 bytes).",
            *(MemoryShortage.GPU,),
            id="CuPy",
        ),
        pytest.param(
            "MemoryError: std::bad_alloc: out_of_memory: CUDA error (failed to allocate 332954508 "
            "bytes) at: /usr/include/rmm/mr/device/cuda_memory_resource.hpp:70",
            *(MemoryShortage.GPU,),
            id="RAPIDS, which raises Python's error for its GPU's memory",
        ),
        pytest.param(
            "ResourceExhaustedError: OOM when allocating tensor with shape[32,1024,64,64] and type "
            "float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc",
            *(MemoryShortage.GPU,),
            id="TensorFlow",
        ),
        pytest.param(
            "ResourceExhaustedError: OOM when allocating tensor with shape[209715200,30] and type "
            "double on /job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu",
            *(MemoryShortage.HOST,),
            id="TensorFlow on its machine",
        ),
        pytest.param(
            "OutOfMemoryError: Java heap space", None, id="another program's error of this name"
        ),
        pytest.param("exit code 137 (OOMKilled)", MemoryShortage.HOST, id="Kubernetes"),
        pytest.param(
            "the process was killed by SIGKILL, most likely out of memory",
            *(MemoryShortage.HOST,),
            id="the kernel",
        ),
        pytest.param("numpy MemoryError: Unable to allocate", MemoryShortage.HOST, id="NumPy"),
        pytest.param("ValueError: the data set is empty", None, id="another error"),
        pytest.param(None, None, id="no message"),
    ],
)
def test_which_memory_was_used_up(message, want):
    assert memory_shortage(ended(message)) is want


def test_what_others_ended_ran_out_of_nothing():
    assert memory_shortage(ended(TORCH, EndReason.PREEMPTED)) is None
