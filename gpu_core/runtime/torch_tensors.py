"""torch tensors in a snapshot: described next to the data, copied like every other array."""

import math
import pickle
from collections.abc import Mapping
from typing import Any

_ITEM_BYTES: Mapping[str, int] = {
    "bool": 1,
    "uint8": 1,
    "int8": 1,
    "uint16": 2,
    "int16": 2,
    "uint32": 4,
    "int32": 4,
    "uint64": 8,
    "int64": 8,
    "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "complex32": 4,
    "complex64": 8,
    "complex128": 16,
}
"""The types of numbers that are saved by their bytes, of torch 2.6 to 2.9, and the bytes of one."""

_MAX_DIMENSIONS = 64
"""As many as torch allows."""


def is_plain(value: Any) -> bool:
    """Is it a tensor of numbers that its bytes, type and shape describe?"""
    import torch

    if type(value) is not torch.Tensor or value.layout is not torch.strided:
        return False
    if value.is_quantized or value.device.type == "meta" or value.dim() > _MAX_DIMENSIONS:
        return False
    return str(value.dtype).removeprefix("torch.") in _ITEM_BYTES


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
    """The pickle form of this tensor; `NotImplemented` for anything but a plain tensor."""
    if not is_plain(value):
        return NotImplemented
    raw, *rest = described(value)
    return _tensor, (pickle.PickleBuffer(raw), *rest)


def rebuilt(buffer: Any, dtype_name: str, shape: tuple[int, ...], requires_grad: bool) -> Any:
    """The tensor with these bytes, which stay where they are.

    Args:
        buffer: Its bytes.
        dtype_name: The name of its type of numbers in torch.
        shape: Its lengths, each 0 or more.
        requires_grad: Whether it has a gradient.

    Raises:
        ValueError: The type is none that is saved, or type, shape and bytes do not fit together.
        RuntimeError: Numbers of this type have no gradient.
    """
    nbytes = memoryview(buffer).nbytes
    _require_fit(nbytes, dtype_name, shape)
    import torch

    dtype = getattr(torch, dtype_name, None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"this version of torch has no numbers of the type {dtype_name!r}")
    if nbytes == 0:
        return torch.empty(shape, dtype=dtype, requires_grad=requires_grad)
    # Bytes of a small array come back as a bytearray, large ones lie in the payload: both writable.
    flat = torch.frombuffer(buffer, dtype=torch.uint8).view(dtype)
    return flat.reshape(shape).requires_grad_(requires_grad)


def _require_fit(nbytes: int, dtype_name: str, shape: tuple[int, ...]) -> None:
    """Refuse a size that no bytes stand for: the description may come from anyone."""
    item_bytes = _ITEM_BYTES.get(dtype_name)
    if item_bytes is None:
        raise ValueError(f"{dtype_name!r} is no type of numbers that is saved: {[*_ITEM_BYTES]}")
    is_shape = all(type(length) is int and length >= 0 for length in shape)
    if not is_shape or len(shape) > _MAX_DIMENSIONS:
        raise ValueError(f"a tensor cannot have the shape {shape}")
    if math.prod(shape) * item_bytes != nbytes:
        raise ValueError(f"a tensor of the shape {shape} and type {dtype_name} has {nbytes} bytes")


def _tensor(buffer: Any, dtype_name: str, shape: tuple[int, ...], requires_grad: bool) -> Any:
    """The names in pickles, including those of earlier versions."""
    return rebuilt(buffer, dtype_name, shape, requires_grad)
