"""torch tensors in a snapshot: described beside the data, copied like every other array."""

import pickle
from typing import Any


def is_plain(value: Any) -> bool:
    """Is it a tensor of numbers that its bytes, type and shape describe?"""
    import torch

    if type(value) is not torch.Tensor or value.layout is not torch.strided:
        return False
    return not value.is_quantized and value.device.type != "meta"


def described(value: Any) -> tuple[Any, str, tuple[int, ...], bool]:
    """The bytes of a plain tensor, the name of its type, its shape, and whether it has a gradient.

    Tensors of a GPU are copied to the host, and restored there: `load_state_dict` moves them to
    wherever the model is. Tensors that share memory are saved one by one.
    """
    import torch

    host = value.detach().resolve_conj().resolve_neg().cpu().contiguous()
    raw = host.reshape(-1).view(torch.uint8).numpy()
    dtype_name = str(host.dtype).removeprefix("torch.")
    return raw, dtype_name, tuple(host.shape), value.requires_grad


def reduced(value: Any) -> Any:
    """How this tensor is pickled; `NotImplemented` for everything that is not a plain tensor."""
    if not is_plain(value):
        return NotImplemented
    raw, *rest = described(value)
    return _tensor, (pickle.PickleBuffer(raw), *rest)


def rebuilt(buffer: Any, dtype_name: str, shape: tuple[int, ...], requires_grad: bool) -> Any:
    """The tensor with these bytes, which stay where they are.

    Raises:
        ValueError: There is no such type of numbers.
        RuntimeError: Type, shape and bytes do not fit together.
    """
    import torch

    dtype = getattr(torch, dtype_name, None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"torch has no numbers of the type {dtype_name!r}")
    if memoryview(buffer).nbytes == 0:
        return torch.empty(shape, dtype=dtype, requires_grad=requires_grad)
    # Bytes of a small array come back as a bytearray, large ones lie in the payload: both writable.
    flat = torch.frombuffer(buffer, dtype=torch.uint8).view(dtype)
    return flat.reshape(shape).requires_grad_(requires_grad)


def _tensor(buffer: Any, dtype_name: str, shape: tuple[int, ...], requires_grad: bool) -> Any:
    """What pickles name, those of earlier versions too."""
    return rebuilt(buffer, dtype_name, shape, requires_grad)
