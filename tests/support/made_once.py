"""Files that take long to make, made once on this machine: later tests find them in the cache."""

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "prefect-gpu"


def made_once(folder: Path, name: str, make: Callable[[Path], None]) -> Path:
    """The file of this name in this folder of the cache; other processes wait until it is made.

    Args:
        folder: Relative to the cache. It names the release that the file is of.
        make: Makes the file at the path that it is given, in a folder of its own.
    """
    made = CACHE / folder / name
    made.parent.mkdir(parents=True, exist_ok=True)
    with (made.parent / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            room = made.parent / f"{name}.new"
            shutil.rmtree(room, ignore_errors=True)  # of a process that was killed
            room.mkdir()
            make(room / name)
            (room / name).rename(made)
            shutil.rmtree(room)
    return made
