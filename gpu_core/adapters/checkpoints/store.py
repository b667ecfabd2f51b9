"""The interface of a checkpoint store, its errors, and the store in a folder."""

import shutil
from pathlib import Path
from typing import Protocol

from gpu_core.adapters.files.atomic_file import make_folder, replace_file
from gpu_core.decisions.checkpoints.payload import Payload
from gpu_core.decisions.checkpoints.store_errors import permanent_remedy
from gpu_core.decisions.model.errors import GpuSchedulingError, one_line, sentences
from gpu_core.decisions.model.units import format_bytes

# botocore quotes the patterns that a bucket's name may match.
_LONGEST_REASON = 300


class StoreUnreachable(GpuSchedulingError):
    """The checkpoint store cannot be used; the run would lose its work without noticing."""

    def __init__(self, uri: str, reason: str) -> None:
        super().__init__(uri, reason)
        self.uri = uri
        self.reason = reason

    def __str__(self) -> str:
        return sentences(
            f"the checkpoint store {self.uri} cannot be used: {self.reason}",
            "ensure that checkpoint_uri, the endpoint and the credentials are correct and that "
            "listing, reading, writing and deleting are allowed",
        )


class StoreMisconfigured(StoreUnreachable):
    """The checkpoint store cannot be used by any attempt of the run as it is configured.

    The worker knows it by its name in the message of the run's Failed state, and makes no other
    attempt (`decisions.diagnosis`).
    """

    def __init__(self, uri: str, reason: str, remedy: str) -> None:
        super().__init__(uri, reason)
        self.args = (uri, reason, remedy)
        self.remedy = remedy

    def __str__(self) -> str:
        text = f"the checkpoint store {self.uri} cannot be used: {self.reason}"
        return sentences(text, self.remedy)


def store_error(uri: str, error: Exception) -> StoreUnreachable:
    """The error of a run that cannot use its checkpoint store."""
    reason = one_line(f"{type(error).__name__}: {error}", _LONGEST_REASON)
    remedy = permanent_remedy(
        (each.__name__ for each in type(error).__mro__),
        str(error),
        code=_s3_code(error),
        errno_=error.errno if isinstance(error, OSError) else None,
    )
    if remedy is None:
        return StoreUnreachable(uri, reason)
    return StoreMisconfigured(uri, reason, remedy)


def _s3_code(error: Exception) -> str | None:
    """S3's error code, without loading botocore, which takes longer than the rest of a start."""
    response = getattr(error, "response", None)
    found = response.get("Error") if isinstance(response, dict) else None
    return str(found.get("Code", "")) if isinstance(found, dict) else None


class NotEnoughSpace(GpuSchedulingError):
    """The disk of the checkpoint store cannot take one save."""

    def __init__(
        self, uri: str, free_bytes: int, needed_bytes: int, last_save_bytes: int | None
    ) -> None:
        super().__init__(uri, free_bytes, needed_bytes, last_save_bytes)
        self.uri = uri
        self.free_bytes = free_bytes
        self.needed_bytes = needed_bytes
        self.last_save_bytes = last_save_bytes

    def __str__(self) -> str:
        last = self.last_save_bytes
        why = "for a first save" if last is None else f"after a save of {format_bytes(last)}"
        return (
            f"the disk of the checkpoint store {self.uri} has "
            f"{format_bytes(self.free_bytes)} free and needs "
            f"{format_bytes(self.needed_bytes)} {why}. Delete checkpoints of finished runs "
            "or set `checkpoint_uri` to a larger store."
        )


class AlreadyCommitted(GpuSchedulingError):
    """Another process has committed the same checkpoint of the same attempt."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.uri = uri

    def __str__(self) -> str:
        return (
            f"{self.uri} was already committed by another process of this attempt. "
            "Let one process of a run save its checkpoints (rank 0)."
        )


class CheckpointStore(Protocol):
    """Named bytes in folders. What has a name is whole and durable, even if a process is killed."""

    def put(self, key: str, content: bytes) -> None:
        """Keep the content under `folder/name`; when this returns, it is durable."""

    def commit(self, key: str, content: bytes) -> None:
        """Like `put`, for an unused name.

        Raises:
            AlreadyCommitted: The name holds other content, which stays.
        """

    def upload(self, key: str, payload: Payload) -> None:
        """Like `commit`, for content of any size, in parts where the store can do that.

        Parts that an earlier upload to this name has left are kept where they are the same.

        Raises:
            AlreadyCommitted: The name holds other content, which stays.
        """

    def unfinished(self, folder: str) -> tuple[str, ...]:
        """The names in the folder of which only parts have arrived yet."""

    def abort(self, key: str) -> None:
        """Forget the parts of an upload that stays unfinished. It is fine if there are none."""

    def get(self, key: str) -> bytes:
        """The content under `folder/name`.

        Raises:
            FileNotFoundError: There is none. Every other error means that the store could not
                answer, not that there is none.
        """

    def size_bytes(self, key: str) -> int:
        """The length of the content.

        Raises:
            FileNotFoundError: There is none, as with `get`.
        """

    def get_range(self, key: str, offset: int, size_bytes: int) -> bytes:
        """This many bytes of the content; fewer where it ends before.

        Raises:
            FileNotFoundError: There is none, as with `get`.
        """

    def names(self, folder: str) -> tuple[str, ...]:
        """All the names in the folder, in any order; none if there is no such folder."""

    def delete(self, key: str) -> None:
        """Forget this name. It is fine if there is none."""

    def free_bytes(self) -> int | None:
        """The free space; None: unknown, or unlimited."""

    def uri(self, key: str) -> str:
        """The key as people find it outside of this program."""


class LocalStore:
    """A folder of this machine, or one that all machines share."""

    def __init__(self, root: Path) -> None:
        # Made absolute now: flows change their working directory.
        self._root = root.expanduser().absolute()

    def put(self, key: str, content: bytes) -> None:
        path = self._root / key
        make_folder(path.parent)
        replace_file(path, content)

    def commit(self, key: str, content: bytes) -> None:
        self._refuse_existing(key)
        self.put(key, content)

    def upload(self, key: str, payload: Payload) -> None:
        self._refuse_existing(key)
        path = self._root / key
        make_folder(path.parent)
        replace_file(path, payload.content)

    def unfinished(self, folder: str) -> tuple[str, ...]:  # noqa: ARG002 - a file has no parts
        return ()

    def abort(self, key: str) -> None:
        """Nothing to do: what is cut short lies under a temporary name."""

    def get(self, key: str) -> bytes:
        return (self._root / key).read_bytes()

    def size_bytes(self, key: str) -> int:
        return (self._root / key).stat().st_size

    def get_range(self, key: str, offset: int, size_bytes: int) -> bytes:
        with (self._root / key).open("rb") as file:
            file.seek(offset)
            return file.read(size_bytes)

    def names(self, folder: str) -> tuple[str, ...]:
        try:
            return tuple(path.name for path in (self._root / folder).iterdir())
        except FileNotFoundError:
            return ()

    def delete(self, key: str) -> None:
        (self._root / key).unlink(missing_ok=True)

    def free_bytes(self) -> int | None:
        existing = next(folder for folder in (self._root, *self._root.parents) if folder.exists())
        return shutil.disk_usage(existing).free

    def uri(self, key: str) -> str:
        return str(self._root / key)

    def _refuse_existing(self, key: str) -> None:
        # Looked up, not locked: hard links, which could do both in one step, are missing on
        # many shared file systems, and what this finds is a mistake in a flow, not a race.
        if (self._root / key).exists():
            raise AlreadyCommitted(self.uri(key))
