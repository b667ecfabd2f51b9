"""Any number of runs with their attempts, a page of them in memory at a time."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from gpu_core.adapters.ledger.engine import chunks
from gpu_core.adapters.ledger.month_work import runs_held_in
from gpu_core.adapters.ledger.schema import attempts, runs
from gpu_core.decisions.model.attempts import Attempt, Provenance, RunRecord

Record = tuple[RunRecord, tuple[Attempt, ...]]


@dataclass(frozen=True, slots=True)
class UsagePages:
    """Runs with their attempts, which are read anew each time that they are gone through.

    Attributes:
        read: The records of one page.
        flow_run_ids: The runs, in order.
    """

    read: Callable[[sa.Select[Any]], Sequence[Record]]
    flow_run_ids: Sequence[str]

    def __iter__(self) -> Iterator[Record]:
        for page in chunks(self.flow_run_ids):
            yield from self.read(select_records(page))


def select_records(flow_run_ids: Sequence[str]) -> sa.Select[Any]:
    """These runs with their attempts, in the order of submission, and the attempts by number."""
    return (
        sa.select(runs, attempts)
        .join(attempts, attempts.c.flow_run_id == runs.c.flow_run_id)
        .where(runs.c.flow_run_id.in_(flow_run_ids))
        .order_by(runs.c.submitted_at, runs.c.flow_run_id, attempts.c.number)
    )


def read_ids(
    connection: sa.Connection, start: datetime, end: datetime, provenance: Provenance | None
) -> Sequence[str]:
    """The runs that held GPUs at any time in [start, end), in the order of submission."""
    statement = (
        sa.select(runs.c.flow_run_id)
        .where(runs_held_in(start, end))
        .order_by(runs.c.submitted_at, runs.c.flow_run_id)
    )
    if provenance is not None:
        statement = statement.where(runs.c.provenance == provenance)
    return connection.scalars(statement).all()
