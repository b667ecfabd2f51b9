"""Text and JSON files that a person names: what is said when they cannot be read."""

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

from gpu_core.adapters.files.unreadable import unreadable
from gpu_core.decisions.model.errors import InvalidInput

MOST_BYTES = 1024**3
"""Of one file: more does not fit into memory several times, as reading it needs."""


def is_file(path: Path) -> bool:
    """Is there a file of this name? A name that no file can have is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False  # too long, with a NUL, or in a folder that may not be entered


def read_text_file(path: Path, what: str) -> str:
    """The text of this file. One whose name ends in `.gz` is unpacked.

    Args:
        what: What it is, for the errors, such as `trace`.

    Raises:
        InvalidInput: It is not there, a folder, too large or no UTF-8.
    """
    try:
        if path.exists() and not path.is_file():
            raise InvalidInput(
                str(path), "is not a file", remedy=f"name a readable {what} in UTF-8"
            )
        if path.stat().st_size > MOST_BYTES:
            raise InvalidInput(
                str(path), f"is too large for a {what}", allowed=f"up to {MOST_BYTES:,} bytes"
            )
        if path.suffix == ".gz":
            return _unpacked(path, what)
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError, EOFError, zlib.error) as error:
        raise unreadable(path, error, what) from None


def _unpacked(path: Path, what: str) -> str:
    with gzip.open(path) as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise InvalidInput(
            str(path), f"is too large for a {what}", allowed=f"up to {MOST_BYTES:,} bytes unpacked"
        )
    return content.decode("utf-8-sig")


def read_json_file(path: Path, what: str) -> Any:
    """The data of this file.

    Raises:
        InvalidInput: It cannot be read, is no JSON, nested too deeply, or has too long a number.
    """
    text = read_text_file(path, what)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidInput(f"{path}:{error.lineno}", "is not valid JSON", got=error.msg) from None
    except ValueError:
        raise InvalidInput(str(path), "has a number with too many digits") from None
    except RecursionError:
        raise InvalidInput(str(path), "is nested too deeply") from None
