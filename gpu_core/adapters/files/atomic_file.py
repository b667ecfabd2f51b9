"""Files that are whole or absent, also after a kill, and still there after a power cut."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

TEMPORARY_SUFFIX = ".tmp"


def replace_file(path: Path, content: bytes | memoryview) -> None:
    """Make `path` hold `content`, in one step that no reader can see half of.

    The content is on the disk before the name points to it, and the name is on the disk before
    this returns. A kill in between leaves `<name>.<random>.tmp` next to the untouched old file.

    Raises:
        OSError: The folder is missing, or the disk refused; `path` is as it was.
    """
    with replacing_file(path) as file:
        file.write(content)


@contextmanager
def replacing_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of `path` in one step when the block ends.

    After an error in the block `path` is as it was.

    Raises:
        OSError: As for `replace_file`.
    """
    temporary = path.with_name(f"{path.name}.{os.urandom(6).hex()}{TEMPORARY_SUFFIX}")
    try:
        # "x": a temporary name is never shared, not even after a collision of random digits.
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def make_folder(path: Path) -> None:
    """Make this folder and the missing ones above it, so that they survive a power cut."""
    if path.is_dir():
        return
    make_folder(path.parent)
    path.mkdir(exist_ok=True)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Put the names in this folder on the disk: a file's own fsync does not."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
