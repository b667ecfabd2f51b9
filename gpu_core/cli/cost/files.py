"""The rows of a bill as CSV or Parquet."""

import csv
import io
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import BinaryIO, TextIO

from gpu_core.adapters.files.atomic_file import replacing_file
from gpu_core.decisions.costs.focus import DECIMAL_COLUMNS, MOMENT_COLUMNS, FocusRow
from gpu_core.decisions.model.errors import InvalidInput

_ROWS_PER_PAGE = 5000


def write_rows(path: Path | None, columns: Sequence[str], rows: Iterable[FocusRow]) -> None:
    """Write the rows to a file that is whole or not there, or to stdout.

    Raises:
        InvalidInput: The file's name ends in neither .csv nor .parquet.
        OSError: The file cannot be written.
    """
    if path is None:
        _write_csv(sys.stdout, columns, rows)
    elif path.suffix == ".csv":
        with replacing_file(path) as file:
            text = io.TextIOWrapper(file, "utf-8", newline="")
            _write_csv(text, columns, rows)
            text.detach()
    elif path.suffix == ".parquet":
        with replacing_file(path) as file:
            _write_parquet(file, columns, rows)
    else:
        raise InvalidInput(
            "output", "is no file of a known form", got=path.name, allowed=".csv or .parquet"
        )


def _write_csv(out: TextIO, columns: Sequence[str], rows: Iterable[FocusRow]) -> None:
    writer = csv.DictWriter(out, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    out.flush()


def _write_parquet(file: BinaryIO, columns: Sequence[str], rows: Iterable[FocusRow]) -> None:
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

    def page(whole: Sequence[FocusRow]) -> pa.Table:
        return pa.table({name: column(name, [row[name] for row in whole]) for name in columns})

    # A column of a page takes a tenth of its values as Python has them.
    pages, left = [page(())], iter(rows)
    while whole := list(islice(left, _ROWS_PER_PAGE)):
        pages.append(page(whole))
    parquet.write_table(pa.concat_tables(pages).combine_chunks(), file)
