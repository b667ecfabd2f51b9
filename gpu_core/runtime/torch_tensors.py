"""torch tensors in a snapshot: described in the pickle, copied like every other array."""

import pickle
from typing import Any


def reduced(value: Any) -> Any:
    """How this tensor is pickled; `NotImplemented` for everything that is not a plain tensor.

    Tensors of a GPU are copied to the host, and restored there: `load_state_dict` moves them to
    wherever the model is. Tensors that share memory are saved one by one.
    """
    import torch

    is_plain = type(value) is torch.Tensor and value.layout is torch.strided
    if not is_plain or value.is_quantized or value.device.type == "meta":
        return NotImplemented
    host = value.detach().resolve_conj().resolve_neg().cpu().contiguous()
    raw = host.reshape(-1).view(torch.uint8).numpy()
    dtype = str(host.dtype).removeprefix("torch.")
    return _tensor, (pickle.PickleBuffer(raw), dtype, tuple(host.shape), value.requires_grad)


def _tensor(buffer: Any, dtype_name: str, shape: tuple[int, ...], requires_grad: bool) -> Any:
    import torch

    dtype = getattr(torch, dtype_name)
    if memoryview(buffer).nbytes == 0:
        return torch.empty(shape, dtype=dtype, requires_grad=requires_grad)
    # Bytes of a small array come back as a bytearray, large ones lie in the payload: both writable.
    flat = torch.frombuffer(buffer, dtype=torch.uint8).view(dtype)
    return flat.reshape(shape).requires_grad_(requires_grad)
