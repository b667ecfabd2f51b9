"""Does a checkpoint store keep what it is given? One small object, removed again."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from gpu_core.adapters.checkpoints.store import (
    CheckpointStore,
    LocalStore,
    StoreUnreachable,
    open_store,
    store_error,
)

_CONTENT = b"prefect-gpu doctor: may be deleted\n"


@dataclass(frozen=True, slots=True)
class StoreRoom:
    """What a store that works has room for.

    Attributes:
        free_bytes: None: no bound is known.
        is_there: False: its folder is made by the first run.
    """

    free_bytes: int | None
    is_there: bool = True


def probe_store(uri: str) -> StoreRoom:
    """Write an object, read it, and delete it. A folder that is not there is only looked at.

    Raises:
        InvalidInput: It is no address of a store.
        StoreUnreachable: One of the three failed.
    """
    store = open_store(uri)
    try:
        if isinstance(store, LocalStore) and not Path(store.uri("")).exists():
            return _room_to_come(store)
        with _probe_object(store) as key:
            if store.get(key) != _CONTENT:
                raise StoreUnreachable(uri, "it returned other bytes than were written")
        return StoreRoom(store.free_bytes())
    except StoreUnreachable:
        raise
    except Exception as error:  # whatever boto3 and the operating system raise
        raise store_error(uri, error) from error


@contextmanager
def _probe_object(store: CheckpointStore) -> Iterator[str]:
    # In no folder, which a local store would keep.
    key = f".prefect-gpu-doctor-{uuid4().hex}"
    try:
        store.put(key, _CONTENT)
        yield key
    except BaseException:
        with suppress(Exception):
            store.delete(key)
        raise
    store.delete(key)


def _room_to_come(store: LocalStore) -> StoreRoom:
    """Could the folder be made? Nothing is made to find out."""
    folder = Path(store.uri(""))
    existing = next(each for each in folder.parents if each.exists())
    if not existing.is_dir():
        raise NotADirectoryError(20, os.strerror(20), str(existing))
    if not os.access(existing, os.W_OK | os.X_OK):
        raise PermissionError(13, os.strerror(13), str(existing))
    return StoreRoom(store.free_bytes(), is_there=False)
