"""The rows of a bill as CSV or Parquet."""

import csv
import io
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from gpu_core.adapters.files.atomic_file import replace_file
from gpu_core.decisions.costs.focus import DECIMAL_COLUMNS, MOMENT_COLUMNS, FocusRow
from gpu_core.decisions.model.errors import InvalidInput


def write_rows(path: Path | None, columns: Sequence[str], rows: Iterable[FocusRow]) -> None:
    """Write the rows to a file that is whole or not there, or to stdout.

    Raises:
        InvalidInput: The file's name ends in neither .csv nor .parquet.
        OSError: The file cannot be written.
    """
    if path is None:
        sys.stdout.write(_csv(columns, rows))
    elif path.suffix == ".csv":
        replace_file(path, _csv(columns, rows).encode())
    elif path.suffix == ".parquet":
        replace_file(path, _parquet(columns, rows))
    else:
        raise InvalidInput(
            "output", "is no file of a known form", got=path.name, allowed=".csv or .parquet"
        )


def _csv(columns: Sequence[str], rows: Iterable[FocusRow]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _parquet(columns: Sequence[str], rows: Iterable[FocusRow]) -> bytes:
    """Typed columns: decimals to the last digit of the CSV, moments in UTC, texts."""
    import pyarrow as pa  # a second to import, and only Parquet needs it
    from pyarrow import parquet

    def column(name: str, values: list[str | None]) -> pa.Array:
        if name in DECIMAL_COLUMNS:
            numbers = [None if value is None else Decimal(value) for value in values]
            return pa.array(numbers, pa.decimal128(38, 18))
        if name in MOMENT_COLUMNS:
            moments = [None if value is None else datetime.fromisoformat(value) for value in values]
            return pa.array(moments, pa.timestamp("s", tz="UTC"))
        return pa.array(values, pa.string())

    whole = list(rows)
    table = pa.table({name: column(name, [row[name] for row in whole]) for name in columns})
    out = io.BytesIO()
    parquet.write_table(table, out)
    return out.getvalue()
