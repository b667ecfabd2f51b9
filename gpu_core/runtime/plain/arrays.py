"""NumPy arrays in the pickle-free form: their type as text, their shape and their bytes."""

import math
from typing import Any

from gpu_core.runtime.plain.errors import MalformedPlainState, NotPlain

_KINDS = "biufcSUVmM"
"""Kinds of numbers and text of a fixed size: no objects, no text of variable size."""


def descriptor(dtype: Any) -> Any:
    """The type of an array's items as text, or as a list of fields.

    Raises:
        NotPlain: It could not be restored exactly from that.
    """
    from numpy.lib import format as npy

    if not _is_plain(dtype) or _has_metadata(dtype):
        raise NotPlain(f"has items of the type {dtype}")
    try:
        described = npy.dtype_to_descr(dtype)
        back = npy.descr_to_dtype(described)
    except (TypeError, ValueError):
        raise NotPlain(f"has items of the type {dtype}") from None
    if not (
        back == dtype
        and back.type is dtype.type
        and back.isalignedstruct == dtype.isalignedstruct
        and back.itemsize == dtype.itemsize
    ):
        raise NotPlain(f"has items of the type {dtype}")
    return described


def raw_bytes(array: Any) -> tuple[memoryview, bool]:
    """The bytes of an array, and whether it is in Fortran's order. Copied only if it has gaps."""
    import numpy

    is_fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    if array.size == 0:
        return memoryview(b""), is_fortran
    contiguous = numpy.ascontiguousarray(array.T if is_fortran else array)
    return contiguous.reshape(-1).view(numpy.uint8).data, is_fortran


def rebuilt(buffer: memoryview, described: Any, shape: tuple[int, ...], *, is_fortran: bool) -> Any:
    """The array with these bytes, which stay where they are.

    Raises:
        MalformedPlainState: Type, shape and bytes do not fit together.
    """
    import numpy
    from numpy.lib import format as npy

    try:
        dtype = npy.descr_to_dtype(described)
    except (TypeError, ValueError, IndexError, KeyError, AttributeError) as error:
        raise MalformedPlainState(f"{described!r} is no type of an array: {error}") from None
    if not _is_plain(dtype):
        raise MalformedPlainState(f"{described!r} is no plain type of an array")
    order: Any = "F" if is_fortran else "C"
    try:
        if len(shape) <= _MAX_DIMENSIONS and math.prod(shape) * dtype.itemsize == buffer.nbytes:
            # NumPy takes no empty buffer.
            return numpy.ndarray(shape, dtype, buffer if buffer.nbytes else None, order=order)
    except (ValueError, OverflowError, MemoryError):
        pass
    raise MalformedPlainState(
        f"an array of the shape {shape} and the type {dtype} has {buffer.nbytes} bytes"
    )


_MAX_DIMENSIONS = 64
"""As many as NumPy 2 allows."""


def _is_plain(dtype: Any) -> bool:
    return bool(dtype.kind in _KINDS and dtype.itemsize > 0 and not dtype.hasobject)


def _has_metadata(dtype: Any) -> bool:
    if dtype.metadata is not None:
        return True
    if dtype.subdtype is not None:
        return _has_metadata(dtype.subdtype[0])
    return any(_has_metadata(field[0]) for field in (dtype.fields or {}).values())
