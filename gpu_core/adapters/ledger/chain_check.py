"""Reads the chains of decisions for their check, whatever bytes are in the database.

SQLite keeps any bytes in any column, and a disk may change some. What is no text is read with a
sign in its place, and what is no number as 0: such a record fails the check, and does not end it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from gpu_core.adapters.ledger.schema import decision_anchors, decisions
from gpu_core.decisions.model.decision_anchor import Anchor
from gpu_core.decisions.model.decision_chain import ChainCheck, Link, check_chains

_ROWS_PER_READ = 1000


def checked_chains(
    connection: sa.Connection, key: bytes | None, kept: Mapping[str, str]
) -> list[ChainCheck]:
    """The check of each writer's chain; its arguments are those of `check_chains`."""
    driver: Any = connection.connection.driver_connection
    is_sqlite = connection.dialect.name == "sqlite"
    if is_sqlite:
        driver.text_factory = _text
    try:
        anchors = [Anchor(**row) for row in _rows(connection, decision_anchors)]
        links = (Link(**row) for row in _rows(connection, decisions))
        return check_chains(links, anchors, key, kept)
    finally:
        if is_sqlite:
            driver.text_factory = str


def _rows(connection: sa.Connection, table: sa.Table) -> Iterator[dict[str, Any]]:
    """The rows of this table by writer and number."""
    columns = [sa.type_coerce(c, sa.types.NullType()).label(c.name) for c in table.c]
    statement = sa.select(*columns).order_by(table.c.writer, table.c.number)
    found = connection.execution_options(yield_per=_ROWS_PER_READ).execute(statement)
    for row in found.mappings():
        yield {
            name: _number(value) if name == "number" else _text(value)
            for name, value in row.items()
        }


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _text(value: Any) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
