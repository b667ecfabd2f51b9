"""A lock between processes of one machine."""

import fcntl
import os
from pathlib import Path


class FileLock:
    """An exclusive lock that the operating system releases when its holder dies, however it dies.

    Args:
        path: The lock file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    @property
    def is_held(self) -> bool:
        """Does this process have the lock?"""
        return self._descriptor is not None

    def acquire(self) -> bool:
        """Has this process the lock? Tries to get it; never blocks."""
        if self._descriptor is not None:
            return True
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # Closed on exec: a run must not keep the lock of the worker that started it. Open to all
        # users of the machine, because the lock of its GPUs is theirs together.
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        """Let another process have it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
