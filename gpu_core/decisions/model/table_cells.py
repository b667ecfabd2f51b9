"""Cells of the tables that a worker publishes: plain data for JSON, read back by their column."""

from collections.abc import Mapping
from datetime import datetime

from gpu_core.decisions.model.errors import InvalidInput, one_line

Row = Mapping[str, object]

# One run must not fill the artifact of all runs.
_LONGEST_TEXT = 2_000


def table_value(value: object) -> object:
    """The value for a table: a moment as ISO 8601 text in UTC, a text as one line."""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%SZ}"
    return one_line(value, _LONGEST_TEXT) if isinstance(value, str) else value


def whole(row: Row, column: str) -> int:
    """The whole number in this column."""
    value = row.get(column)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _unreadable(column, value)
    return value


def whole_or_none(row: Row, column: str) -> int | None:
    """The whole number in this column; None where there is none."""
    return None if row.get(column) is None else whole(row, column)


def number(row: Row, column: str) -> float:
    """The number in this column."""
    value = row.get(column)
    return value if isinstance(value, float) else whole(row, column)


def text(row: Row, column: str) -> str:
    """The text in this column."""
    value = row.get(column)
    if not isinstance(value, str):
        raise _unreadable(column, value)
    return value


def text_or_none(row: Row, column: str) -> str | None:
    """The text in this column; None where there is none."""
    return None if row.get(column) is None else text(row, column)


def moment(row: Row, column: str) -> datetime:
    """The moment in this column."""
    written = text(row, column)
    try:
        return datetime.fromisoformat(written)
    except ValueError:
        raise _unreadable(column, written) from None


def moment_or_none(row: Row, column: str) -> datetime | None:
    """The moment in this column; None where there is none."""
    return None if row.get(column) is None else moment(row, column)


def _unreadable(column: str, value: object) -> InvalidInput:
    return InvalidInput(
        f"queue.{column}",
        "cannot be read",
        got=value,
        remedy=(
            "start a worker of this version, because the queue was published by a different version"
        ),
    )
