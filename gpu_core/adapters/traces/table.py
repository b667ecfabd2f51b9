"""Reading tables: every mistake is named with its file, line and column."""

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu_core.decisions.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table."""

    where: str
    """The file and line, for errors."""
    values: dict[str, str]

    def text(self, column: str) -> str:
        """What the column says.

        Raises:
            InvalidInput: Nothing.
        """
        value = (self.values.get(column) or "").strip()
        if not value:
            raise InvalidInput(f"{self.where}: {column}", "is missing")
        return value

    def optional_text(self, column: str) -> str | None:
        """What the column says; None: nothing, or there is no such column."""
        return (self.values.get(column) or "").strip() or None

    def number(self, column: str) -> float:
        """The column's number, 0 or more.

        Raises:
            InvalidInput: It is none.
        """
        text = self.text(column)
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 <= value < math.inf:
            raise InvalidInput(
                f"{self.where}: {column}", "is not a number", got=text, allowed="0 or more"
            )
        return value

    def whole(self, column: str) -> int:
        """The column's whole number, 0 or more.

        Raises:
            InvalidInput: It is none.
        """
        value = self.number(column)
        if not value.is_integer():
            raise InvalidInput(f"{self.where}: {column}", "is not a whole number", got=value)
        return int(value)


def read_table(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    """The lines of a CSV file that has at least these columns.

    Raises:
        InvalidInput: The file cannot be read, or a column is missing.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(str(path), f"cannot be read: {error}") from error
    reader = csv.DictReader(text.splitlines())
    missing = [column for column in columns if column not in (reader.fieldnames or ())]
    if missing:
        raise InvalidInput(f"{path}:1", f"has no column {missing[0]!r}", allowed=", ".join(columns))
    for values in reader:
        yield Row(f"{path}:{reader.line_num}", values)
