"""The control groups of a cluster's pods."""

import errno
import os
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")


def create(name: str) -> None:
    """Make the group below which a kubelet puts its pods; it wants to find it."""
    for root in _roots():
        (root / name).mkdir(exist_ok=True)


def delete(name: str) -> bool:
    """Remove the group and all below it. False: a process is left in it."""
    try:
        for root in _roots():
            for folder, _, _ in os.walk(root / name, topdown=False):
                Path(folder).rmdir()
    except OSError as error:
        if error.errno == errno.EBUSY:
            return False
        raise
    return True


def _roots() -> list[Path]:
    """One tree (version 2), or one for each controller (version 1)."""
    if (_ROOT / "cgroup.controllers").exists():
        return [_ROOT]
    return [folder for folder in _ROOT.iterdir() if folder.is_dir() and not folder.is_symlink()]
