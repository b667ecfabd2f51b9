"""Read a checkpoint's payload back, and compare every byte with what was written."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from gpu_core.adapters.checkpoints.store import CheckpointStore
from gpu_core.decisions.checkpoints.manifest import (
    DamagedCheckpoint,
    Manifest,
    check_part,
    check_payload,
    check_size,
)

Answer = TypeVar("Answer")

# As many as travel at once when a payload is saved; each holds one part in memory.
_READERS = 8


def read_verified(store: CheckpointStore, key: str, manifest: Manifest) -> bytes | bytearray:
    """The payload under this key, if it is the one that the manifest describes.

    Raises:
        DamagedCheckpoint: It is missing, or a byte differs.
    """
    if manifest.part_bytes is None:
        payload = _present(lambda: store.get(key))
        check_payload(payload, manifest)
        return payload
    whole = bytearray(manifest.size_bytes)

    def keep(offset: int, content: bytes) -> None:
        whole[offset : offset + len(content)] = content

    _each_part(store, key, manifest, keep)
    return whole


def verify_payload(store: CheckpointStore, key: str, manifest: Manifest) -> None:
    """Is the payload under this key the one that the manifest describes? Nothing is kept of it.

    Raises:
        DamagedCheckpoint: It is missing, or a byte differs.
    """
    if manifest.part_bytes is None:
        read_verified(store, key, manifest)
        return
    _each_part(store, key, manifest, lambda _offset, _content: None)


def _each_part(
    store: CheckpointStore, key: str, manifest: Manifest, use: Callable[[int, bytes], None]
) -> None:
    """Read and compare the parts, several at once; they come in any order."""
    part_bytes = manifest.part_bytes or manifest.size_bytes
    check_size(_present(lambda: store.size_bytes(key)), manifest)

    def read(number: int, want_sha256: str) -> None:
        content = _present(lambda: store.get_range(key, number * part_bytes, part_bytes))
        check_part(content, want_sha256)
        use(number * part_bytes, content)

    with ThreadPoolExecutor(_READERS, thread_name_prefix="checkpoint-part") as pool:
        try:
            list(pool.map(read, range(len(manifest.part_sha256)), manifest.part_sha256))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _present(ask: Callable[[], Answer]) -> Answer:
    try:
        return ask()
    except FileNotFoundError as error:
        raise DamagedCheckpoint(f"part of the checkpoint is missing: {error}") from None
