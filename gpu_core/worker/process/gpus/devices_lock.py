"""The lock of a machine's GPUs, between workers of all its users."""

import contextlib
import fcntl
import os
import pwd
import secrets
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpu_core.worker.process.leadership.file_lock import FileLock

# Where every user may make files, independent of TMPDIR. The first that is there counts.
_FOLDERS = (Path("/run/lock"), Path("/tmp"))  # noqa: S108 - files there are not trusted, see below
_PREFIX = "prefect-gpu-devices"
_SUFFIX = ".lock"
_READABLE = 0o644


class DevicesLock:
    """One worker of a machine holds it, whichever user it belongs to.

    Each user locks a file of his own and looks at those of the others: a file that another
    user made first, made unreadable, or linked to elsewhere locks nothing. Only a lock that a
    running process holds does.

    Args:
        folders: Where the files are.
    """

    def __init__(self, folders: Sequence[Path] = _FOLDERS) -> None:
        self._folders = folders
        self._own: FileLock | None = None
        self._holder: str | None = None

    @property
    def is_held(self) -> bool:
        """Does this process have the lock?"""
        return self._own is not None and self._own.is_held

    @property
    def holder(self) -> str | None:
        """The user that had it when this process asked last; None: none other than this one's."""
        return self._holder

    def acquire(self) -> bool:
        """Has this process the lock? Tries to get it; never blocks.

        Two that try at the same moment may both fail; they try again in their next cycles.

        Raises:
            OSError: There is no folder in which it can have a file.
        """
        # One whose file was deleted is taken anew: another user may have got the GPUs meanwhile.
        if self._own is not None and self._own.is_at_path:
            return True
        self.release()
        self._holder = self._other_holder()
        if self._holder is not None:
            return False
        own = self._own = FileLock(self._own_path(), mode=_READABLE)
        if not own.acquire():
            return False
        self._holder = self._other_holder()
        if self._holder is not None:
            own.release()
        return own.is_held

    def release(self) -> None:
        """Let another process have it."""
        if self._own is not None:
            self._own.release()

    def _own_path(self) -> Path:
        folder = next((each for each in self._folders if os.access(each, os.W_OK)), None)
        if folder is None:
            raise PermissionError(
                f"unable to create a lock file in any of {[*map(str, self._folders)]}"
            )
        path = folder / f"{_PREFIX}-{os.geteuid()}{_SUFFIX}"
        # In a shared folder, another user may have made a file of this name.
        return path if _is_free_or_ours(path) else path.with_stem(f"{path.stem}-{_random()}")

    def _other_holder(self) -> str | None:
        own = None if self._own is None or not self._own.is_held else self._own.path
        for folder in self._folders:
            for path in sorted(folder.glob(f"{_PREFIX}*{_SUFFIX}")):
                if path == own:
                    continue
                with contextlib.suppress(OSError), _opened(path) as descriptor:
                    status = os.fstat(descriptor)
                    if stat.S_ISREG(status.st_mode) and _is_locked(descriptor):
                        return _user(status.st_uid)
        return None


def _is_free_or_ours(path: Path) -> bool:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return True
    # With a second link it might be a file of another kind, which is not to be opened to all.
    is_ours = status.st_uid == os.geteuid() and status.st_nlink == 1
    return is_ours and stat.S_ISREG(status.st_mode)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    # A pipe must not block, a link must not lead elsewhere.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _random() -> str:
    return secrets.token_hex(4)
