"""A checkpoint's bytes: the parts in which they are sent and verified, and the sections in them."""

import hashlib
import struct
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate

Buffer = bytes | bytearray | memoryview

_MIB = 1024 * 1024
# S3 takes at most 10,000 parts of 5 MiB or more. 16 MiB are large enough that a request's own time
# does not count, and small enough that a part that fails is soon sent again.
_PART_BYTES = 16 * _MIB
_MOST_PARTS = 10_000

# NumPy and torch work fastest on arrays that begin on a cache line.
_ALIGNMENT = 64


def part_bytes(size_bytes: int) -> int:
    """The size in bytes of the parts in which a payload is sent; the last part may be smaller.

    >>> part_bytes(2_000_000_000) // 2**20
    16
    """
    least = -(-size_bytes // _MOST_PARTS)
    return max(_PART_BYTES, -(-least // _MIB) * _MIB)


class PayloadPart:
    """One part of a payload."""

    def __init__(self, number: int, offset: int, content: memoryview) -> None:
        self.number = number
        """From 1, as S3 counts."""
        self.offset = offset
        self.content = content

    @cached_property
    def digest(self) -> bytes:
        """The SHA-256 of the part: computed once, by the first caller."""
        return hashlib.sha256(self.content).digest()


class Payload:
    """Bytes to keep. They must not change until they are safe.

    Args:
        in_parts_of: How large the parts are, in bytes; by default what suits the size.
    """

    def __init__(self, content: Buffer, in_parts_of: int | None = None) -> None:
        view = memoryview(content).cast("B")
        self.content = view
        self.size_bytes = view.nbytes
        self.part_bytes = in_parts_of or part_bytes(view.nbytes)
        self.parts = tuple(
            PayloadPart(number, offset, view[offset : offset + self.part_bytes])
            for number, offset in enumerate(range(0, max(1, view.nbytes), self.part_bytes), start=1)
        )

    @property
    def sha256(self) -> str:
        """Of the bytes; where there are several parts, of their digests, as S3 does it."""
        return combined_sha256([part.digest for part in self.parts])


def combined_sha256(digests: Sequence[bytes]) -> str:
    """The checksum of a payload with these digests of its parts, as hexadecimal digits."""
    if len(digests) == 1:
        return digests[0].hex()
    return hashlib.sha256(b"".join(digests)).hexdigest()


class Sections:
    """The layout of several buffers in a payload: their number, their sizes, then each of them."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.header = struct.pack(f"<{1 + len(sizes)}Q", len(sizes), *sizes)
        ends = list(accumulate(sizes, _next_end, initial=len(self.header)))
        self.offsets = tuple(_aligned(end) for end in ends[:-1])
        self.size_bytes = ends[-1]


def read_sections(payload: Buffer) -> list[memoryview]:
    """The sections that lie in a payload, without a copy.

    Raises:
        ValueError: The payload does not hold what its header says.
    """
    view = memoryview(payload)
    try:
        (number,) = struct.unpack_from("<Q", view)
        sizes = struct.unpack_from(f"<{number}Q", view, 8)
    except (struct.error, OverflowError) as error:
        raise ValueError(f"the payload does not have a valid header: {error}") from None
    sections = Sections(sizes)
    if sections.size_bytes != view.nbytes:
        raise ValueError(f"the payload has {view.nbytes} bytes, not {sections.size_bytes}")
    return [
        view[offset : offset + size] for offset, size in zip(sections.offsets, sizes, strict=True)
    ]


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT


def _next_end(end: int, size: int) -> int:
    return _aligned(end) + size
