"""Reading tables: every mistake is named with its file, line and column."""

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu_core.adapters.files.text_file import read_text_file
from gpu_core.decisions.model.errors import InvalidInput, nearest_name

MOST = 10**15
"""Larger numbers are not exact in a table's decimal notation, and mean nothing."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table."""

    where: str
    """The file and line, for errors."""
    values: dict[str, str]

    def text(self, column: str) -> str:
        """The value of the column.

        Raises:
            InvalidInput: Nothing.
        """
        value = (self.values.get(column) or "").strip()
        if not value:
            raise InvalidInput(f"{self.where}: {column}", "is missing")
        return value

    def optional_text(self, column: str) -> str | None:
        """The value of the column; None: empty, or no such column."""
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

    def whole(self, column: str, most: int = MOST) -> int:
        """The column's whole number, 0 or more.

        Raises:
            InvalidInput: It is none, or larger.
        """
        value = self.number(column)
        if value > most or not value.is_integer():
            raise InvalidInput(
                f"{self.where}: {column}",
                "is not a whole number" if value <= most else "is too large",
                got=self.text(column),
                allowed=f"0 to {most:,}",
            )
        return int(value)


def read_table(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    """The lines of a CSV file that has at least these columns.

    Raises:
        InvalidInput: The file cannot be read, or a column is missing.
    """
    reader = csv.DictReader(read_text_file(path, "table in CSV").splitlines())
    try:
        names = reader.fieldnames or ()
        missing = [column for column in columns if column not in names]
        if missing:
            raise InvalidInput(
                f"{path}:1",
                f"has no column {missing[0]!r}",
                allowed=", ".join(columns),
                nearest=nearest_name(missing[0], [name for name in names if name]),
            )
        for values in reader:
            yield Row(f"{path}:{reader.line_num}", values)
    except csv.Error as error:
        raise InvalidInput(
            f"{path}:{reader.line_num + 1}", "is not valid CSV", got=str(error)
        ) from None
