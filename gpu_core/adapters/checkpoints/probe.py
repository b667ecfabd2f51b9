"""Does a checkpoint store keep what it is given? One small object, removed again."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from uuid import uuid4

from gpu_core.adapters.checkpoints.open_store import open_store
from gpu_core.adapters.checkpoints.store import (
    CheckpointStore,
    LocalStore,
    StoreUnreachable,
    store_error,
)
from gpu_core.decisions.checkpoints.free_space import needed_bytes
from gpu_core.decisions.checks.doctor.services import StoreProbe

_CONTENT = b"prefect-gpu doctor: may be deleted\n"


def probe_store(uri: str) -> StoreProbe:
    """Write an object, read it, and delete it. A folder that is not there is only looked at.

    Raises:
        InvalidInput: It is no address of a store.
        StoreUnreachable: One of the three failed.
    """
    store = open_store(uri)
    try:
        found = partial(
            StoreProbe,
            uri=uri,
            free_bytes=store.free_bytes(),
            first_save_bytes=needed_bytes(None),
        )
        if isinstance(store, LocalStore) and not Path(store.uri("")).exists():
            _require_can_be_made(Path(store.uri("")))
            return found(is_there=False)
        began_s = time.perf_counter()
        with _probe_object(store) as key:
            if store.get(key) != _CONTENT:
                raise StoreUnreachable(uri, "the data read does not match the data written")
        took_s = time.perf_counter() - began_s
        return found(took_s=took_s)
    except StoreUnreachable:
        raise
    except Exception as error:  # any error of boto3 or the operating system
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


def _require_can_be_made(folder: Path) -> None:
    existing = next(each for each in folder.parents if each.exists())
    if not existing.is_dir():
        raise NotADirectoryError(20, os.strerror(20), str(existing))
    if not os.access(existing, os.W_OK | os.X_OK):
        raise PermissionError(13, os.strerror(13), str(existing))
