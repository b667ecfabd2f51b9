"""Read a state in the pickle-free form. The bytes may come from anyone."""

import struct
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpu_core.runtime import torch_tensors
from gpu_core.runtime.plain import arrays, tags
from gpu_core.runtime.plain.errors import MalformedPlainState


def read_plain(description: memoryview, sections: Sequence[memoryview]) -> Any:
    """The state with this description. Its large arrays lie in the sections, without a copy.

    Raises:
        MalformedPlainState: The bytes are no description of a state.
    """
    reader = _Reader(description, sections)
    try:
        state = reader.read()
    except (struct.error, UnicodeDecodeError, TypeError, RecursionError, OverflowError) as error:
        raise MalformedPlainState(f"it is no plain state: {error}") from None
    if reader.left_bytes:
        raise MalformedPlainState(f"{reader.left_bytes} bytes follow the state")
    return state


class _Reader:
    def __init__(self, description: memoryview, sections: Sequence[memoryview]) -> None:
        self._content = description
        self._sections = sections
        self._offset = 0
        self._depth = 0
        self._objects: list[Any] = []

    @property
    def left_bytes(self) -> int:
        return self._content.nbytes - self._offset

    def read(self) -> Any:
        """The next value."""
        tag = self._taken(1).tobytes()
        read_kind = _READERS.get(tag)
        if read_kind is None:
            raise MalformedPlainState(f"unexpected tag {tag!r}")
        if self._depth > _MAX_DEPTH:
            raise MalformedPlainState(f"values are nested over {_MAX_DEPTH} levels deep")
        self._depth += 1
        value = read_kind(self)
        self._depth -= 1
        return value

    def read_number(self, code: str, size_bytes: int) -> Any:
        (number,) = struct.unpack(f"<{code}", self._taken(size_bytes))
        return number

    def read_sized(self) -> memoryview:
        return self._taken(self.read_number("Q", 8))

    def read_complex(self) -> complex:
        return complex(*struct.unpack("<2d", self._taken(16)))

    def read_bytearray(self) -> bytearray:
        value = bytearray(self.read_sized())
        self._objects.append(value)
        return value

    def read_list(self) -> list[Any]:
        items: list[Any] = self._remembered([])
        for _ in range(self._count()):
            items.append(self.read())
        return items

    def read_items(self, kind: Callable[[list[Any]], Any]) -> Any:
        return self._remembered(kind([self.read() for _ in range(self._count())]))

    def read_packed(self, code: str) -> Any:
        tag = self._taken(1).tobytes()
        count = self._count()
        items = struct.unpack(f"<{count}{code}", self._taken(8 * count))
        if tag not in (tags.LIST, tags.TUPLE):
            raise MalformedPlainState(f"{tag!r} holds no numbers")
        return self._remembered([*items] if tag == tags.LIST else items)

    def read_dict(self, kind: Callable[[], Any]) -> Any:
        pairs = self._remembered(kind())
        for _ in range(self._count()):
            key = self.read()
            pairs[key] = self.read()
        return pairs

    def read_ordered_dict(self) -> OrderedDict[Any, Any]:
        pairs: OrderedDict[Any, Any] = self.read_dict(OrderedDict)
        attributes = self.read()
        if not isinstance(attributes, dict) or not all(type(name) is str for name in attributes):
            raise MalformedPlainState("the attributes of a dictionary must be a dictionary")
        vars(pairs).update(attributes)
        return pairs

    def read_reference(self) -> Any:
        number = self.read_number("Q", 8)
        if number >= len(self._objects):
            raise MalformedPlainState(f"object {number} is missing")
        return self._objects[number]

    def read_array(self) -> Any:
        number = self._reserve()
        self._objects[number] = array = self._array()
        return array

    def read_scalar(self) -> Any:
        array = self._array()
        if array.shape != ():
            raise MalformedPlainState(f"a single value has the shape {array.shape}")
        return array[()]

    def read_tensor(self) -> Any:
        number = self._reserve()
        dtype_name, requires_grad, *shape = self._head()
        buffer = self._raw()
        try:
            tensor = torch_tensors.rebuilt(buffer, dtype_name, tuple(shape), requires_grad)
        except ImportError:
            raise
        except Exception as error:
            raise MalformedPlainState(f"it holds no tensor: {error}") from None
        self._objects[number] = tensor
        return tensor

    def _array(self) -> Any:
        described, is_fortran, *shape = self._head()
        return arrays.rebuilt(self._raw(), described, tuple(shape), is_fortran=is_fortran)

    def _head(self) -> tuple[Any, ...]:
        head = self.read()
        if type(head) is not tuple or len(head) < 2 or type(head[1]) is not bool:
            raise MalformedPlainState("array type and shape are missing")
        if not all(type(length) is int and length >= 0 for length in head[2:]):
            raise MalformedPlainState(f"an array has the shape {head[2:]!r}")
        return head

    def _raw(self) -> memoryview:
        tag = self._taken(1).tobytes()
        if tag == tags.INLINE:
            # Copied: it lies at any address, and may have to be written to.
            return memoryview(bytearray(self.read_sized()))
        number: int = self.read_number("Q", 8)
        if tag != tags.IN_SECTION or number >= len(self._sections):
            raise MalformedPlainState("array data is missing")
        return self._sections[number]

    def _count(self) -> int:
        """The number of items that follow. Each takes at least one byte."""
        count = int(self.read_number("Q", 8))
        if count > self.left_bytes:
            raise MalformedPlainState(f"{count} items do not fit in {self.left_bytes} bytes")
        return count

    def _taken(self, size_bytes: int) -> memoryview:
        if size_bytes > self.left_bytes:
            raise MalformedPlainState(f"it ends {size_bytes - self.left_bytes} bytes too early")
        self._offset += size_bytes
        return self._content[self._offset - size_bytes : self._offset]

    def _remembered(self, value: Any) -> Any:
        self._objects.append(value)
        return value

    def _reserve(self) -> int:
        self._objects.append(None)
        return len(self._objects) - 1


# Values and what arrays say of themselves: a few levels more than what is written.
_MAX_DEPTH = tags.MAX_DEPTH + 10

_READERS: Mapping[bytes, Callable[[_Reader], Any]] = {
    tags.NONE: lambda _reader: None,
    tags.TRUE: lambda _reader: True,
    tags.FALSE: lambda _reader: False,
    tags.INT: lambda reader: reader.read_number("q", 8),
    tags.LONG_INT: lambda reader: int.from_bytes(reader.read_sized(), "little", signed=True),
    tags.FLOAT: lambda reader: reader.read_number("d", 8),
    tags.COMPLEX: _Reader.read_complex,
    tags.STR: lambda reader: str(reader.read_sized(), "utf-8", "surrogatepass"),
    tags.BYTES: lambda reader: bytes(reader.read_sized()),
    tags.BYTEARRAY: _Reader.read_bytearray,
    tags.LIST: _Reader.read_list,
    tags.TUPLE: lambda reader: reader.read_items(tuple),
    tags.SET: lambda reader: reader.read_items(set),
    tags.FROZENSET: lambda reader: reader.read_items(frozenset),
    tags.DICT: lambda reader: reader.read_dict(dict),
    tags.ORDERED_DICT: _Reader.read_ordered_dict,
    tags.INTS: lambda reader: reader.read_packed("q"),
    tags.FLOATS: lambda reader: reader.read_packed("d"),
    tags.ARRAY: _Reader.read_array,
    tags.SCALAR: _Reader.read_scalar,
    tags.TENSOR: _Reader.read_tensor,
    tags.REFERENCE: _Reader.read_reference,
}
