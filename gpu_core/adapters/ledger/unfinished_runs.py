"""Runs without an open attempt and without a final state: a statement over one connection."""

import sqlalchemy as sa

from gpu_core.adapters.ledger.schema import attempts, runs


def read_unfinished(connection: sa.Connection, pool: str) -> tuple[str, ...]:
    """The runs of the pool with no open attempt and no final state, in the order of their ids.

    Most of them wait for their next attempt.
    """
    is_open = sa.exists().where(
        attempts.c.flow_run_id == runs.c.flow_run_id, attempts.c.released_at.is_(None)
    )
    statement = (
        sa.select(runs.c.flow_run_id)
        .where(runs.c.pool == pool, runs.c.final_state.is_(None), ~is_open)
        .order_by(runs.c.flow_run_id)
    )
    return tuple(connection.execute(statement).scalars())
