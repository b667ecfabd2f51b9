"""The intervals of capacity: statements over one connection, in its transaction.

Each statement may be executed twice: an interval is inserted by its id, and ended only while open.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from gpu_core.adapters.ledger.engine import chunks, upsert
from gpu_core.adapters.ledger.rows import Row, read_whole_rows
from gpu_core.adapters.ledger.schema import capacity_intervals
from gpu_core.decisions.costs.capacity.capacity_intervals import (
    LONGEST_START,
    CapacityChanges,
    CapacityInterval,
)

_c = capacity_intervals.c
_LATEST = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class KnownCapacity:
    """The records of a host's machines in the ledger."""

    by_node: Mapping[str, CapacityInterval]
    """The last one of each node, if it is open or ended in the hour before the last look."""
    last_look: datetime | None
    """The moment at which a worker last saw one of the host's machines; None: never."""


def read_known(connection: sa.Connection, host: str, damaged: set[str]) -> KnownCapacity:
    """The machines of this host that are there, or were recently, and when one was seen last.

    Args:
        damaged: The rows that cannot be read and were named; they are left out.
    """
    last = _last_look(connection, host)
    if last is None:
        return KnownCapacity({}, None)
    statement = (
        sa.select(capacity_intervals)
        .where(_c.host == host, sa.or_(_c.until.is_(None), _c.until > last - LONGEST_START))
        .order_by(_c.since, sa.func.coalesce(_c.until, _LATEST))
    )
    rows = read_whole_rows(connection, statement, capacity_intervals, damaged)
    return KnownCapacity({row[_c.node]: _interval(row) for row in rows}, last)


def _last_look(connection: sa.Connection, host: str) -> datetime | None:
    return _extreme(connection, sa.func.max, _c.seen_at, _c.host == host)


def read_first(connection: sa.Connection, pool: str | None) -> datetime | None:
    """The moment at which the first machine began to count, of a pool or of all."""
    which = sa.true() if pool is None else _c.pool == pool
    return _extreme(connection, sa.func.min, _c.since, which)


def _extreme(
    connection: sa.Connection, of: Any, column: sa.Column[Any], where: sa.ColumnElement[bool]
) -> datetime | None:
    """The first or last moment of a column that can be read."""
    asked = sa.select(of(column)).where(where)
    try:
        found: datetime | None = connection.scalar(asked)
    except ValueError:  # SQLite keeps any text
        is_moment = sa.cast(column, sa.String).like("2___-__-__ __:__:__.______")
        found = connection.scalar(asked.where(is_moment))
    return found


def read_overlapping(
    connection: sa.Connection, start: datetime, end: datetime, damaged: set[str]
) -> tuple[CapacityInterval, ...]:
    """The intervals with a time in [start, end), in the order of their beginnings.

    Args:
        damaged: The rows that cannot be read and were named; they are left out.
    """
    begun = sa.select(_c.interval_id).where(_c.since < end)
    ids = sa.union_all(begun.where(_c.until > start), begun.where(_c.until.is_(None)))
    statement = (
        sa.select(capacity_intervals)
        .where(_c.interval_id.in_(ids))
        .order_by(_c.since, _c.host, _c.node, _c.interval_id)
    )
    rows = read_whole_rows(connection, statement, capacity_intervals, damaged)
    return tuple(_interval(row) for row in rows)


def write_changes(connection: sa.Connection, changes: CapacityChanges) -> None:
    """Write down what ended, then what started.

    An interval of a machine that another worker has written down already is left out.
    """
    end = (
        sa.update(capacity_intervals)
        .where(_c.interval_id == sa.bindparam("ended_id"), _c.until.is_(None))
        .values(
            until=sa.bindparam("until_"),
            end_reason=sa.bindparam("end_reason_"),
            is_end_estimated=sa.bindparam("is_end_estimated_"),
        )
    )
    ended = [
        {
            "ended_id": interval.interval_id,
            "until_": interval.until,
            "end_reason_": interval.end_reason,
            "is_end_estimated_": interval.is_end_estimated,
        }
        for interval in changes.ended
    ]
    insert = upsert(connection.dialect.name)
    begin = insert(capacity_intervals).on_conflict_do_nothing()
    if ended:
        connection.execute(end, ended)
    if changes.begun:
        connection.execute(begin, [asdict(interval) for interval in changes.begun])


def note_seen(connection: sa.Connection, interval_ids: Sequence[str], seen_at: datetime) -> None:
    """Write down that these machines are there. A clock that jumped back takes nothing back."""
    for ids in chunks(sorted(interval_ids)):
        connection.execute(
            sa.update(capacity_intervals)
            .where(_c.interval_id.in_(ids), _c.until.is_(None), _c.seen_at < seen_at)
            .values(seen_at=seen_at)
        )


def _interval(row: Row) -> CapacityInterval:
    return CapacityInterval(**{column.name: row[column] for column in capacity_intervals.c})
