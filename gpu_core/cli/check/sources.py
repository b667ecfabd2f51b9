"""The files that a command names: files, folders of them, and the standard input."""

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu_core.adapters.files.unreadable import unreadable
from gpu_core.decisions.model.errors import InvalidInput

STDIN = "-"

MOST_BYTES = 8 * 1024**2
"""Of one file; the manifests of a chart with its CustomResourceDefinitions have 3 MiB."""

_ENDINGS = (".yaml", ".yml", ".json")
# What tools keep in folders of their own.
_PASSED_OVER = ("node_modules", "__pycache__")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFile:
    """One file to check.

    Attributes:
        name: As it is printed.
        is_named: Whether a person named it; False: it was found in a folder.
    """

    name: str
    text: str
    is_named: bool

    @property
    def file_name(self) -> str:
        """Its name without folders."""
        return Path(self.name).name


def read_sources(names: Sequence[str]) -> Iterator[CheckedFile]:
    """The files of these names, those of folders in the order of their paths.

    Raises:
        InvalidInput: One is not there, cannot be read, is too large or no UTF-8; or a folder has
            none of them.
    """
    for name in names:
        if name == STDIN:
            yield CheckedFile(name=STDIN, text=_stdin(), is_named=True)
        elif Path(name).is_dir():
            yield from _in_folder(Path(name))
        else:
            yield CheckedFile(name=name, text=_text(Path(name)), is_named=True)


def _in_folder(folder: Path) -> Iterator[CheckedFile]:
    found = list(_files(folder))
    if not found:
        raise InvalidInput(
            str(folder),
            "does not contain any supported files",
            allowed=f"files ending in {', '.join(_ENDINGS)}",
        )
    for path in found:
        yield CheckedFile(name=str(path), text=_text(path), is_named=False)


def _files(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name not in _PASSED_OVER
        )
        if "Chart.yaml" in names:
            # Not YAML before `helm template` has rendered them.
            folders[:] = [name for name in folders if name != "templates"]
        for name in sorted(names):
            if name.endswith(_ENDINGS) and not name.startswith("."):
                yield Path(root) / name


def _stdin() -> str:
    try:
        content = sys.stdin.buffer.read(MOST_BYTES + 1)
    except OSError as error:
        raise unreadable(Path(STDIN), error, "file") from None
    return _decoded(STDIN, content)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise unreadable(path, error, "file") from None
    return _decoded(str(path), content)


def _decoded(name: str, content: bytes) -> str:
    if len(content) > MOST_BYTES:
        raise InvalidInput(name, "is too large", allowed=f"{MOST_BYTES // 1024**2} MiB at most")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise unreadable(Path(name), error, "file") from None
