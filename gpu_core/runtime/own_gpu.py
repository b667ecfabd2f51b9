"""The GPU on which this process computes."""

import sys
from collections.abc import Mapping


def own_gpu_id(environment: Mapping[str, str]) -> str | None:
    """The UUID of the GPU that this thread computes on; None: unknown.

    PyTorch says it once the run has used it; nothing is imported or initialized for the answer. In
    a container with one GPU its environment has it.
    """
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    try:
        if cuda is not None and cuda.is_initialized():
            return f"GPU-{cuda.get_device_properties(cuda.current_device()).uuid}"
    except Exception:  # an older PyTorch, or a GPU that does not answer: training goes first
        return None
    visible = environment.get("NVIDIA_VISIBLE_DEVICES", "")
    is_one = visible.startswith(("GPU-", "MIG-")) and "," not in visible
    return visible if is_one else None
