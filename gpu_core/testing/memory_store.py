"""A checkpoint store that is gone with the test."""

import threading

from gpu_core.adapters.checkpoints.store import AlreadyCommitted
from gpu_core.decisions.checkpoints.payload import Payload


class MemoryStore:
    """A `CheckpointStore` in the memory of this process: `checkpointing(store=MemoryStore())`.

    Keep the same store for the next attempt of the run, which restores from it.
    """

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}
        # A save in the background puts from a thread of its own.
        self._lock = threading.Lock()

    def put(self, key: str, content: bytes) -> None:
        with self._lock:
            self._contents[key] = bytes(content)

    def commit(self, key: str, content: bytes) -> None:
        with self._lock:
            if self._contents.setdefault(key, bytes(content)) != content:
                raise AlreadyCommitted(self.uri(key))

    def upload(self, key: str, payload: Payload) -> None:
        self.commit(key, bytes(payload.content))

    def unfinished(self, folder: str) -> tuple[str, ...]:  # noqa: ARG002 - memory has no parts
        return ()

    def abort(self, key: str) -> None:
        """Nothing to do: an upload to memory has no parts."""

    def get(self, key: str) -> bytes:
        with self._lock:
            if key not in self._contents:
                raise FileNotFoundError(self.uri(key))
            return self._contents[key]

    def size_bytes(self, key: str) -> int:
        return len(self.get(key))

    def get_range(self, key: str, offset: int, size_bytes: int) -> bytes:
        return self.get(key)[offset : offset + size_bytes]

    def names(self, folder: str) -> tuple[str, ...]:
        start = f"{folder}/"
        with self._lock:
            keys = [key for key in self._contents if key.startswith(start)]
        return tuple(key.removeprefix(start) for key in keys)

    def delete(self, key: str) -> None:
        with self._lock:
            self._contents.pop(key, None)

    def free_bytes(self) -> int | None:
        return None

    def uri(self, key: str) -> str:
        return f"memory://{key}"
