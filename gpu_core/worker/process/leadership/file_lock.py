"""A lock between processes of one machine."""

import fcntl
import os
from pathlib import Path

from gpu_core.adapters.files.private_folder import make_private_folder


class FileLock:
    """An exclusive lock that the operating system releases when its holder dies, however it dies.

    The package filelock takes the same lock, but its holder cannot ask whether the file that it
    holds is still the one at the path (4.2), and without flock it falls back to a lock that a
    killed process leaves behind.

    Args:
        path: The lock file.
        mode: Who may open it.
    """

    def __init__(self, path: Path, mode: int = 0o600) -> None:
        self._path = path
        self._mode = mode
        self._descriptor: int | None = None

    @property
    def is_held(self) -> bool:
        """Does this process have the lock?"""
        return self._descriptor is not None

    @property
    def is_at_path(self) -> bool:
        """Is the lock held, and its file still the one at its path?"""
        return self._descriptor is not None and self._is_at_path(self._descriptor)

    @property
    def path(self) -> Path:
        """The lock file."""
        return self._path

    def acquire(self) -> bool:
        """Has this process the lock? Tries to get it; never blocks.

        A lock whose file was deleted protects nothing: the next process locks a file of its own.
        It is taken again, and lost if another process was faster.
        """
        if self.is_at_path:
            return True
        self.release()
        make_private_folder(self._path.parent)
        # Closed on exec: a run must not keep the lock of the worker that started it.
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(self._path, flags, self._mode)
        try:
            if os.fstat(descriptor).st_uid == os.geteuid():
                os.fchmod(descriptor, self._mode)  # independent of the umask
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
