"""A state as it is now, in memory of our own: the training continues while it is saved."""

import ctypes
import io
import logging
import mmap
import os
import pickle
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gpu_core.decisions.checkpoints.manifest import BYTES, PICKLE, PLAIN, SECTIONS
from gpu_core.decisions.checkpoints.payload import Buffer, Payload, Sections, read_sections
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.runtime import torch_tensors
from gpu_core.runtime.plain import NotPlain, read_plain, write_plain

_log = logging.getLogger(__name__)

# Fixed, so that every Python this library supports reads what any other has written.
_PICKLE_PROTOCOL = 5
# Smaller arrays stay inside the pickle: a section of their own would not make them faster.
_SECTION_BYTES = 16 * 1024
# From some size on, C libraries copy past the cache, which takes a third less time: glibc beyond
# three quarters of a thread's share of it. Smaller pieces than this stay below that on servers.
_COPIED_AT_ONCE_BYTES = 256 * 1024 * 1024
_COPIERS = min(4, os.cpu_count() or 1)


class Snapshots:
    """Takes states, one at a time: a payload holds until the next one is taken.

    Arrays (NumPy's, torch's, everything that pickles its buffers out of band) are copied once,
    into memory that is kept for the next time: the first snapshot of a size also waits for the
    operating system, those after it run at the memory's speed. `bytes` cannot change and are not
    copied at all.

    Args:
        refuses_pickles: Take only states that can be saved without pickle.
    """

    def __init__(self, *, refuses_pickles: bool = False) -> None:
        self._memory: mmap.mmap | None = None
        self._refuses_pickles = refuses_pickles
        self._needs_pickle = False

    def take(self, state: object) -> tuple[str, Payload]:
        """The format of the state and its bytes.

        Raises:
            pickle.PicklingError, TypeError, AttributeError: It holds what cannot be pickled.
            InvalidInput: It holds what only pickle can save, and pickles are refused.
        """
        if type(state) is bytes:
            return BYTES, Payload(state)
        payload_format, described, arrays = self._described(state)
        if payload_format == PICKLE:
            return PICKLE, Payload(described)
        contents = [memoryview(described), *arrays]
        sections = Sections([content.nbytes for content in contents])
        if not arrays:
            return payload_format, Payload(
                sections.header.ljust(sections.offsets[0], b"\0") + described
            )
        memory = self._of_size(sections.size_bytes)
        memory[: len(sections.header)] = sections.header
        _copy(contents, memory, sections.offsets)
        return payload_format, Payload(memory)

    def _described(self, state: object) -> tuple[str, Buffer, Sequence[memoryview]]:
        # Once is enough: on a GPU each try copies the tensors before the value that is not plain.
        if not self._needs_pickle:
            try:
                return PLAIN, *write_plain(state)
            except NotPlain as error:
                self._require_pickles(error)
        pickled, arrays = _pickled(state)
        return (SECTIONS if arrays else PICKLE), pickled, arrays

    def _require_pickles(self, error: NotPlain) -> None:
        if self._refuses_pickles:
            raise InvalidInput(
                error.path,
                f"{error.problem}, which requires pickle, but pickles are not allowed by "
                "the policy (checkpoints.refuse_pickles)",
                allowed="plain data, NumPy arrays and torch tensors",
                remedy="save state_dict() or plain fields of it",
            ) from error
        self._needs_pickle = True
        _log.info("Using pickle for the checkpoints of this run because %s", error)

    def _of_size(self, size_bytes: int) -> memoryview:
        if self._memory is None or len(self._memory) < size_bytes:
            self._memory = mmap.mmap(-1, size_bytes)
            if hasattr(mmap, "MADV_HUGEPAGE"):  # a thousandth of the page faults
                self._memory.madvise(mmap.MADV_HUGEPAGE)
        return memoryview(self._memory)[:size_bytes]


def restored(payload_format: str, payload: bytes | bytearray) -> Any:
    """The state that was taken.

    Raises:
        ValueError: A later version of this library wrote it.
        Exception: Any error of unpickling.
    """
    # Pickles run code: the caller has checked whether the policy refuses them.
    if payload_format == BYTES:
        return bytes(payload)
    if payload_format == PICKLE:
        return pickle.loads(payload)  # noqa: S301
    if payload_format == PLAIN:
        description, *arrays = read_sections(_writable(payload))
        return read_plain(description, arrays)
    if payload_format == SECTIONS:
        pickled, *arrays = read_sections(_writable(payload))
        return pickle.loads(pickled, buffers=arrays)  # noqa: S301
    raise ValueError(f"the format {payload_format!r} is unknown to this version")


def _writable(payload: bytes | bytearray) -> bytearray:
    """The arrays lie in the payload itself, and a training changes them."""
    return bytearray(payload) if isinstance(payload, bytes) else payload


class _Pickler(pickle.Pickler):
    """Leaves large arrays out of the pickle."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, _PICKLE_PROTOCOL, buffer_callback=self._is_small)
        self.arrays: list[memoryview] = []

    def reducer_override(self, value: Any) -> Any:
        """Descriptions of torch tensors; other values describe themselves."""
        if "torch" in sys.modules:
            return torch_tensors.reduced(value)
        return NotImplemented

    def _is_small(self, buffer: pickle.PickleBuffer) -> bool:
        view = buffer.raw()
        if view.nbytes < _SECTION_BYTES:
            return True
        self.arrays.append(view)
        return False


def _pickled(state: object) -> tuple[Buffer, Sequence[memoryview]]:
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(state)
    return file.getbuffer(), pickler.arrays


def _copy(contents: Sequence[memoryview], memory: memoryview, offsets: Sequence[int]) -> None:
    """Copy arrays to their offsets. One thread alone does not fill the bandwidth of memory."""
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    pieces: list[tuple[int, int, int]] = []
    for content, offset in zip(contents, offsets, strict=True):
        if content.readonly:  # its address may not be taken
            memory[offset : offset + content.nbytes] = content
            continue
        source = ctypes.addressof(ctypes.c_char.from_buffer(content))
        pieces += [
            (base + offset + at, source + at, min(_COPIED_AT_ONCE_BYTES, content.nbytes - at))
            for at in range(0, content.nbytes, _COPIED_AT_ONCE_BYTES)
        ]
    with ThreadPoolExecutor(min(_COPIERS, len(pieces) or 1)) as pool:
        list(pool.map(lambda piece: ctypes.memmove(*piece), pieces))
