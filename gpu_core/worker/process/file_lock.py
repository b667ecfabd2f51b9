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
        """Has this process the lock? Tries to get it; never blocks.

        A lock whose file was deleted protects nothing: the next process locks a file of its own.
        It is taken again, and lost if another process was faster.
        """
        if self._descriptor is not None and self._is_at_path(self._descriptor):
            return True
        self.release()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # Closed on exec: a run must not keep the lock of the worker that started it. Open to all
        # users of the machine, because the lock of its GPUs is theirs together.
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        if not self._is_at_path(descriptor):  # deleted between the two calls
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        """Let another process have it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _is_at_path(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), self._path.stat())
        except FileNotFoundError:
            return False
