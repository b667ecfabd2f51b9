"""The rows of a bill as CSV or Parquet."""

import csv
import io
import os
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import BinaryIO, TextIO

from gpu_core.adapters.files.atomic_file import replacing_file
from gpu_core.decisions.costs.billing.focus import DECIMAL_COLUMNS, MOMENT_COLUMNS, FocusRow
from gpu_core.decisions.model.errors import InvalidInput, nearest_name

_SUFFIXES = (".csv", ".parquet")
_ROWS_PER_PAGE = 5_000


def check_output(path: Path | None) -> None:
    """Can a bill be written to this file? Asked before the ledger is read, which takes a while.

    Raises:
        InvalidInput: Its name ends in neither .csv nor .parquet, it is a folder, its folder is
            missing, or no file can be written there.
    """
    if path is None:
        return
    if path.suffix not in _SUFFIXES:
        raise InvalidInput(
            "output",
            "has an unsupported file extension",
            got=path.name,
            allowed=" or ".join(_SUFFIXES),
            nearest=nearest_name(path.suffix, _SUFFIXES),
        )
    if path.is_dir():
        raise InvalidInput(
            "output",
            "is a directory",
            got=str(path),
            remedy="please specify the path to a file in this directory",
        )
    file = next((each for each in path.parents if each.exists() and not each.is_dir()), None)
    if file is not None:
        raise InvalidInput(
            "output",
            "cannot be created, because a parent path is a file",
            got=str(path),
            remedy=f"please specify a path inside a directory. {file} is a file",
        )
    if not path.parent.is_dir():
        raise InvalidInput(
            "output",
            "is in a directory that does not exist",
            got=str(path),
            remedy=f"please create {path.parent} first",
        )
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise InvalidInput(
            "output",
            "cannot be written",
            got=str(path),
            remedy=f"please ensure that you have write access to {path.parent}",
        )


def write_rows(
    path: Path | None,
    columns: Sequence[str],
    rows: Iterable[FocusRow],
    rows_per_page: int = _ROWS_PER_PAGE,
) -> None:
    """Write the rows to a file that is whole or not there, or to stdout.

    Args:
        path: One that `check_output` takes.
        rows_per_page: Of Parquet: a page is a row group, and in memory as a whole.

    Raises:
        OSError: The file cannot be written.
    """
    if path is None:
        _write_csv(sys.stdout, columns, rows)
    elif path.suffix == ".csv":
        with replacing_file(path) as file:
            text = io.TextIOWrapper(file, "utf-8", newline="")
            _write_csv(text, columns, rows)
            text.detach()
    else:
        with replacing_file(path) as file:
            _write_parquet(file, columns, rows, rows_per_page)


def _write_csv(out: TextIO, columns: Sequence[str], rows: Iterable[FocusRow]) -> None:
    writer = csv.DictWriter(out, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    out.flush()


def _write_parquet(
    file: BinaryIO, columns: Sequence[str], rows: Iterable[FocusRow], rows_per_page: int
) -> None:
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

    types = {name: column(name, []).type for name in columns}
    left = iter(rows)
    with parquet.ParquetWriter(file, pa.schema(types)) as writer:
        while whole := list(islice(left, rows_per_page)):
            page = {name: column(name, [row[name] for row in whole]) for name in columns}
            writer.write_table(pa.table(page))
