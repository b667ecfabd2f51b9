"""Runs that start other runs: statements over one connection, in its transaction."""

from collections.abc import Collection, Iterable

import sqlalchemy as sa

from gpu_core.adapters.ledger.engine import chunks
from gpu_core.adapters.ledger.schema import attempts, runs


def ancestors(connection: sa.Connection, flow_run_ids: Collection[str]) -> frozenset[str]:
    """The runs that started these, and those in turn. Also those that are not in the ledger."""
    return _relatives(connection, flow_run_ids, runs.c.flow_run_id, runs.c.parent_flow_run_id)


def descendants(connection: sa.Connection, flow_run_id: str) -> frozenset[str]:
    """The runs that this one started, and those that they started in turn."""
    return _relatives(connection, [flow_run_id], runs.c.parent_flow_run_id, runs.c.flow_run_id)


def last_hosts(connection: sa.Connection, flow_run_ids: Iterable[str]) -> dict[str, str]:
    """The host of the last attempt of each of these runs. Runs without one are left out."""
    hosts: dict[str, str] = {}
    for ids in chunks(sorted(flow_run_ids)):
        statement = (
            sa.select(attempts.c.flow_run_id, attempts.c.host)
            .where(attempts.c.flow_run_id.in_(ids))
            .order_by(attempts.c.flow_run_id, attempts.c.number)
        )
        hosts |= dict(row._tuple() for row in connection.execute(statement))
    return hosts


def _relatives(
    connection: sa.Connection,
    flow_run_ids: Collection[str],
    of: sa.Column[str],
    wanted: sa.Column[str],
) -> frozenset[str]:
    """All that are reached from these, each once, also where damaged rows make a circle."""
    first, found, asked = frozenset(flow_run_ids), set[str](), sorted(flow_run_ids)
    while asked:
        reached: set[str] = set()
        for ids in chunks(asked):
            statement = sa.select(wanted).where(of.in_(ids), runs.c.parent_flow_run_id.is_not(None))
            reached.update(connection.scalars(statement))
        asked = sorted(reached - found - first)
        found.update(asked)
    return frozenset(found)
