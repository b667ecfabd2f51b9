"""Folders that no other user of the machine may look into."""

import os
import stat
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

_PRIVATE = 0o700
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def make_private_folder(path: Path) -> None:
    """Make this folder, and the missing ones above it, for this user alone.

    A folder that is there stays as it is.

    Raises:
        OSError: It cannot be made.
    """
    missing = [folder for folder in path.parents if not folder.exists()]
    for folder in (*reversed(missing), path):
        folder.mkdir(mode=_PRIVATE, exist_ok=True)


def tighten_folder(path: Path, ours: Sequence[str] = ()) -> bool:
    """Take a folder from other users; is it private now?

    It stays as it is if it belongs to another user or is one for all, such as `/tmp`.

    Args:
        path: The folder; False: there is none.
        ours: Patterns of names. A folder with anything else in it is also used for something else,
            and stays as it is. Without patterns it may hold anything.
    """
    try:
        status = path.stat()
        if not stat.S_ISDIR(status.st_mode):
            return False
        if not status.st_mode & _OTHERS:
            return True
        is_shared = bool(status.st_mode & stat.S_ISVTX)
        if is_shared or status.st_uid != os.geteuid() or not _holds_only(path, ours):
            return False
        path.chmod(_PRIVATE)
    except OSError:
        return False
    return True


def _holds_only(path: Path, ours: Sequence[str]) -> bool:
    if not ours:
        return True
    return all(any(fnmatchcase(each.name, known) for known in ours) for each in path.iterdir())
