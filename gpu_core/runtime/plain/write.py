"""Write a state in the pickle-free form."""

import struct
import sys
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from typing import Any

from gpu_core.runtime import torch_tensors
from gpu_core.runtime.plain import arrays, tags
from gpu_core.runtime.plain.errors import NotPlain

# Packing pays from a few items on.
_PACKED_FROM = 8
_INT_BOUND = 2**63


def write_plain(state: object) -> tuple[bytearray, list[memoryview]]:
    """The description of a state, and the bytes of its large arrays.

    An object that the state holds in two places is written once and restored as one object, and a
    container may contain itself. Arrays that share memory are written one by one.

    Raises:
        NotPlain: It holds a value that cannot be restored exactly.
    """
    writer = _Writer()
    try:
        writer.write(state)
    except RecursionError:
        raise NotPlain("is nested too deep") from None
    return writer.description, writer.sections


class _Writer:
    def __init__(self) -> None:
        self.description = bytearray()
        self.sections: list[memoryview] = []
        self._depth = 0
        self._numbers: dict[int, int] = {}
        self._open_tuples: set[int] = set()
        # What is made here must live until the end: an object made later could get its id.
        self._made: list[object] = []

    def write(self, value: Any) -> None:
        """Append this value, or a reference to it."""
        number = self._numbers.get(id(value))
        if number is not None:
            self._numbered(tags.REFERENCE, number)
            return
        write_kind = _WRITERS.get(type(value))
        if write_kind is not None:
            write_kind(self, value)
        else:
            self._write_library_value(value)

    def write_int(self, value: int) -> None:
        if -_INT_BOUND <= value < _INT_BOUND:
            self.description += tags.INT + struct.pack("<q", value)
            return
        self.write_sized(
            tags.LONG_INT, value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        )

    def write_sized(self, tag: bytes, content: bytes | bytearray | memoryview) -> None:
        self._numbered(tag, len(content))
        self.description += content

    def write_bytearray(self, value: bytearray) -> None:
        self._remember(value)
        self.write_sized(tags.BYTEARRAY, value)

    def write_list(self, value: list[Any]) -> None:
        self._remember(value)
        if not self._write_packed(tags.LIST, value):
            self._write_items(tags.LIST, value)

    def write_tuple(self, value: tuple[Any, ...]) -> None:
        if id(value) in self._open_tuples:
            raise NotPlain("is a tuple that contains itself")
        self._open_tuples.add(id(value))
        if not self._write_packed(tags.TUPLE, value):
            self._write_items(tags.TUPLE, value)
        # Numbered after its items: a reader cannot make it before them.
        self._remember(value)

    def write_set(self, tag: bytes, value: Collection[Any]) -> None:
        self._write_items(tag, value)
        self._remember(value)

    def write_dict(self, tag: bytes, value: Mapping[Any, Any]) -> None:
        self._remember(value)
        self._numbered(tag, len(value))
        self._enter()
        for key, item in value.items():
            try:
                self.write(key)
                self.write(item)
            except NotPlain as error:
                error.inside(f"[{key!r}]" if type(key) in (str, int) else "[...]")
                raise
        self._depth -= 1

    def write_ordered_dict(self, value: OrderedDict[Any, Any]) -> None:
        self.write_dict(tags.ORDERED_DICT, value)
        attributes = vars(value)
        self._made.append(attributes)
        self.write(attributes)

    def _write_library_value(self, value: Any) -> None:
        """NumPy's and torch's: where the library is not loaded, there is no value of it."""
        numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
        if numpy is not None and type(value) is numpy.ndarray:
            self._remember(value)
            self._write_array(tags.ARRAY, value)
        elif numpy is not None and isinstance(value, numpy.generic):
            if type(value) is not value.dtype.type:
                raise NotPlain(f"is of the type {_name(value)}")
            self._write_array(tags.SCALAR, numpy.asarray(value))
        elif torch is not None and torch_tensors.is_plain(value):
            self._remember(value)
            raw, dtype_name, shape, requires_grad = torch_tensors.described(value)
            self._write_raw(tags.TENSOR, (dtype_name, requires_grad, *shape), memoryview(raw))
        else:
            raise NotPlain(f"is of the type {_name(value)}")

    def _write_array(self, tag: bytes, array: Any) -> None:
        described = arrays.descriptor(array.dtype)
        raw, is_fortran = arrays.raw_bytes(array)
        self._write_raw(tag, (described, is_fortran, *array.shape), raw)

    def _write_raw(self, tag: bytes, head: tuple[Any, ...], raw: memoryview) -> None:
        self.description += tag
        self._made.append(head)
        self.write(head)
        if raw.nbytes < tags.SECTION_BYTES:
            self.write_sized(tags.INLINE, raw)
            return
        self._numbered(tags.IN_SECTION, len(self.sections))
        self.sections.append(raw)

    def _write_packed(self, tag: bytes, items: Collection[Any]) -> bool:
        """Are these all floats, or all integers of 8 bytes? Then they are written at once."""
        if len(items) < _PACKED_FROM:
            return False
        kinds = {*map(type, items)}
        if kinds == {float}:
            packed, code = tags.FLOATS, "d"
        elif kinds == {int} and min(items) >= -_INT_BOUND and max(items) < _INT_BOUND:
            packed, code = tags.INTS, "q"
        else:
            return False
        self._numbered(packed + tag, len(items))
        self.description += struct.pack(f"<{len(items)}{code}", *items)
        return True

    def _write_items(self, tag: bytes, items: Collection[Any]) -> None:
        self._numbered(tag, len(items))
        self._enter()
        for index, item in enumerate(items):
            try:
                self.write(item)
            except NotPlain as error:
                error.inside(f"[{index}]")
                raise
        self._depth -= 1

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > tags.MAX_DEPTH:
            raise NotPlain(f"is nested over {tags.MAX_DEPTH} levels deep")

    def _numbered(self, tag: bytes, number: int) -> None:
        self.description += tag + struct.pack("<Q", number)

    def _remember(self, value: object) -> None:
        self._numbers[id(value)] = len(self._numbers)


def _name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _constant(tag: bytes) -> Callable[[_Writer, Any], None]:
    def write(writer: _Writer, _value: object) -> None:
        writer.description += tag

    return write


def _write_bool(writer: _Writer, value: bool) -> None:
    writer.description += tags.TRUE if value else tags.FALSE


def _write_float(writer: _Writer, value: float) -> None:
    writer.description += tags.FLOAT + struct.pack("<d", value)


def _write_complex(writer: _Writer, value: complex) -> None:
    writer.description += tags.COMPLEX + struct.pack("<2d", value.real, value.imag)


def _write_str(writer: _Writer, value: str) -> None:
    # A lone surrogate is text too: it comes from file names that are no UTF-8.
    writer.write_sized(tags.STR, value.encode("utf-8", "surrogatepass"))


_WRITERS: Mapping[type, Callable[[_Writer, Any], None]] = {
    type(None): _constant(tags.NONE),
    bool: _write_bool,
    int: _Writer.write_int,
    float: _write_float,
    complex: _write_complex,
    str: _write_str,
    bytes: lambda writer, value: writer.write_sized(tags.BYTES, value),
    bytearray: _Writer.write_bytearray,
    list: _Writer.write_list,
    tuple: _Writer.write_tuple,
    set: lambda writer, value: writer.write_set(tags.SET, value),
    frozenset: lambda writer, value: writer.write_set(tags.FROZENSET, value),
    dict: lambda writer, value: writer.write_dict(tags.DICT, value),
    OrderedDict: _Writer.write_ordered_dict,
}
