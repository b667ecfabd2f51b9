"""Rows of the ledger as runs and attempts, also those with values that cannot be read.

A person edited the database, a disk damaged it, or a newer version wrote a word that this one does
not know: what can be read of such a row is used, and what it holds stays held.
"""

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from gpu_core.adapters.ledger.schema import attempts, runs
from gpu_core.decisions.model.attempts import Attempt, Provenance, RunRecord

_log = logging.getLogger("prefect.gpu.ledger")

# What the readers of columns raise: a word, a moment or a JSON document that is none.
UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError)

Row = Mapping[Any, Any]
"""Values by column."""

# Going through a table's columns takes a tenth of the time of a row.
_OF_ATTEMPTS = tuple((column.name, column) for column in attempts.c)
_OF_RUNS = tuple((column.name, column) for column in runs.c)


def read_rows(
    connection: sa.Connection, statement: sa.Select[Any], tables: Sequence[sa.Table], seen: set[str]
) -> list[Row]:
    """The rows of this statement by column; of damaged ones as much as can be read.

    Args:
        statement: Over all columns of these tables.
        seen: The damaged attempts that were logged; more are added.
    """
    columns = [column for table in tables for column in table.c]
    try:
        rows: list[Row] = [row._mapping for row in connection.execute(statement)]
        if attempts not in tables or all(_is_sound(row) for row in rows):
            return rows
    except UNREADABLE:
        pass
    raw = [sa.type_coerce(c, sa.types.NullType()).label(f"c{n}") for n, c in enumerate(columns)]
    found = connection.execute(statement.with_only_columns(*raw, maintain_column_froms=True))
    return [_read(dict(zip(columns, row, strict=True)), connection.dialect, seen) for row in found]


def read_whole_rows(
    connection: sa.Connection, statement: sa.Select[Any], table: sa.Table, seen: set[str]
) -> list[Row]:
    """The rows that can be read; those with a value that cannot are named and left out.

    Args:
        statement: Over all columns of this table.
        seen: The keys of damaged rows that were logged; more are added.
    """
    try:
        rows: list[Row] = [row._mapping for row in connection.execute(statement)]
        if all(_is_whole(row, table) for row in rows):
            return rows
    except UNREADABLE:
        pass
    raw = [sa.type_coerce(c, sa.types.NullType()).label(f"c{n}") for n, c in enumerate(table.c)]
    found = connection.execute(statement.with_only_columns(*raw, maintain_column_froms=True))
    (key,) = table.primary_key.columns
    whole: list[Row] = []
    for values in found:
        row, damaged = _readable(dict(zip(table.c, values, strict=True)), connection.dialect)
        damaged += [c for c in table.c if row[c] is None and not c.nullable and c not in damaged]
        if damaged:
            _name(str(row[key]), damaged, seen, ". The row is ignored")
        else:
            whole.append(row)
    return whole


def _is_whole(row: Row, table: sa.Table) -> bool:
    # SQLite keeps any text in a column of numbers, and gives it back.
    return all(
        column.nullable
        if row[column] is None
        else not isinstance(column.type, sa.Integer) or isinstance(row[column], int)
        for column in table.c
    )


def attempt_of(row: Row) -> Attempt:
    """The attempt in a row of the table."""
    return Attempt(**{name: row[column] for name, column in _OF_ATTEMPTS})


def run_of(row: Row) -> RunRecord:
    """The run in a row of the table."""
    return RunRecord(**{name: row[column] for name, column in _OF_RUNS})


def _is_sound(row: Row) -> bool:
    # SQLite keeps any text in a column of numbers, and gives it back.
    c = attempts.c
    price = row[c.price_micro_usd_per_gpu_hour]
    numbers_are_sound = isinstance(row[c.number], int) and isinstance(price, int | None)
    return numbers_are_sound and row[c.gpu_ids] is not None


def _read(raw: Row, dialect: sa.Dialect, seen: set[str]) -> Row:
    row, damaged = _readable(raw, dialect)
    _complete(row, damaged)
    if damaged:
        key = str(row.get(attempts.c.attempt_id) or row.get(runs.c.flow_run_id))
        _name(key, damaged, seen)
    return row


def _readable(
    raw: Row, dialect: sa.Dialect
) -> tuple[dict[sa.Column[Any], Any], list[sa.Column[Any]]]:
    """The values that can be read, None for the others, and the columns of these."""
    row: dict[sa.Column[Any], Any] = {}
    damaged = []
    for column, value in raw.items():
        try:
            row[column] = _value(column, value, dialect)
        except UNREADABLE:
            row[column] = None
            damaged.append(column)
    return row, damaged


def _name(key: str, damaged: Sequence[sa.Column[Any]], seen: set[str], then: str = "") -> None:
    if key in seen:
        return
    seen.add(key)
    names = ", ".join(f"{column.table.name}.{column.name}" for column in damaged)
    _log.error("Failed to parse the ledger row of %s: %s%s", key, names, then)


def _value(column: sa.Column[Any], value: Any, dialect: sa.Dialect) -> Any:
    if value is None:
        return None
    processor = column.type.dialect_impl(dialect).result_processor(dialect, None)
    read = value if processor is None else processor(value)
    if isinstance(column.type, sa.Integer) and not isinstance(read, int):
        raise TypeError(f"{read!r} is not a whole number")
    return read


def _complete(row: dict[sa.Column[Any], Any], damaged: Sequence[sa.Column[Any]]) -> None:
    """Put something in the place of what has to be there: nothing is charged, nothing freed."""
    if runs.c.flow_run_id in row:
        row[runs.c.priority] = row[runs.c.priority] or 0
        row[runs.c.provenance] = row[runs.c.provenance] or Provenance.MEASURED
        row[runs.c.submitted_at] = row[runs.c.submitted_at] or row.get(attempts.c.admitted_at)
        row[runs.c.submitted_at] = row[runs.c.submitted_at] or datetime.now(UTC)
    if attempts.c.attempt_id not in row:
        return
    c = attempts.c
    known = [row[column] for column in (c.started_at, c.last_seen_at, c.released_at)]
    row[c.admitted_at] = row[c.admitted_at] or next(
        (moment for moment in known if moment is not None), datetime.now(UTC)
    )
    if c.released_at in damaged:
        row[c.released_at] = row[c.admitted_at]
    row[c.number] = row[c.number] or 0
    if row[c.gpu_ids] is None:
        shares = row[c.shares] or ()
        row[c.gpu_ids] = tuple(gpu_id for share in shares for gpu_id in share.gpu_ids)
    row[c.is_charged_failure] = bool(row[c.is_charged_failure])
    row[c.is_end_estimated] = bool(row[c.is_end_estimated])
