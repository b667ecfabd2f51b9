"""A file that cannot be read: why, and which file of its folder may be meant."""

from itertools import islice
from pathlib import Path

from gpu_core.decisions.model.errors import InvalidInput, nearest_name

# More names take longer to compare than a person waits.
_MOST_NEIGHBORS = 1_000


def unreadable(path: Path, error: Exception, what: str) -> InvalidInput:
    """The error for a file that cannot be read, with the remedy.

    Args:
        path: As the person wrote it.
        error: What reading it raised.
        what: What it is, such as `policy file`.
    """
    remedy = f"name a readable {what} in UTF-8"
    if isinstance(error, FileNotFoundError):
        return InvalidInput(str(path), "does not exist", nearest=neighbor(path), remedy=remedy)
    why = getattr(error, "strerror", None) or str(error)
    return InvalidInput(str(path), "cannot be read", got=why, remedy=remedy)


def neighbor(path: Path) -> str | None:
    """The file of the same folder and kind that has the nearest name."""
    try:
        files = list(islice(path.parent.iterdir(), _MOST_NEIGHBORS))
    except OSError:
        return None
    stem = nearest_name(path.stem, [each.stem for each in files if each.suffix == path.suffix])
    return None if stem is None else str(path.with_stem(stem))
