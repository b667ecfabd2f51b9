"""Runs with their attempts, read back."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import Any

import sqlalchemy as sa

from gpu_core.adapters.ledger.database import LedgerDatabase
from gpu_core.adapters.ledger.engine import (
    chunks,
    snapshot,
)
from gpu_core.adapters.ledger.month_work import runs_held_in
from gpu_core.adapters.ledger.rows import attempt_of, read_rows, run_of
from gpu_core.adapters.ledger.run_families import descendants
from gpu_core.adapters.ledger.schema import (
    attempts,
    capacity_intervals,
    runs,
)
from gpu_core.adapters.ledger.unfinished_runs import read_unfinished
from gpu_core.adapters.ledger.usage_pages import UsagePages, read_ids, select_records
from gpu_core.decisions.model.attempts import Attempt, Provenance, RunRecord
from gpu_core.decisions.model.units import require_aware

_VERSION = (
    attempts.c.attempt_id,
    attempts.c.gone_at,
    attempts.c.released_at,
    attempts.c.end_reason,
    attempts.c.later_prices,
    attempts.c.first_step_at,
    attempts.c.checkpointed_at,
    attempts.c.expected_loss_s,
)


class RunRecords(LedgerDatabase):
    """The records of runs and attempts, and of those that held GPUs in a time."""

    def run(self, flow_run_id: str) -> RunRecord | None:
        """The record of this run; None: the ledger has never seen it."""
        statement = sa.select(runs).where(runs.c.flow_run_id == flow_run_id)
        with self._reader.begin() as connection:
            found = read_rows(connection, statement, (runs,), self._damaged)
        return run_of(found[0]) if found else None

    def unfinished_runs(self, pool: str) -> tuple[str, ...]:
        """The runs of the pool with no open attempt and no final state: their ids, sorted."""
        with self._reader.begin() as connection:
            return read_unfinished(connection, pool)

    def open_attempts(self, pool: str, host: str) -> tuple[Attempt, ...]:
        """The attempts that hold GPUs of this pool on this host, the oldest first."""
        statement = (
            sa.select(attempts)
            .where(
                attempts.c.pool == pool,
                attempts.c.host == host,
                attempts.c.released_at.is_(None),
            )
            .order_by(attempts.c.admitted_at, attempts.c.attempt_id)
        )
        with self._reader.begin() as connection:
            rows = read_rows(connection, statement, (attempts,), self._damaged)
        return tuple(attempt_of(row) for row in rows)

    def attempts_of(self, flow_run_ids: Iterable[str]) -> dict[str, tuple[Attempt, ...]]:
        """The attempts of each of these runs, in their order. Empty for a run with none."""
        asked = list(dict.fromkeys(flow_run_ids))
        found: list[Attempt] = []
        with self._reader.begin() as connection:
            for ids in chunks(asked):
                statement = (
                    sa.select(attempts)
                    .where(attempts.c.flow_run_id.in_(ids))
                    .order_by(attempts.c.flow_run_id, attempts.c.number)
                )
                rows = read_rows(connection, statement, (attempts,), self._damaged)
                found.extend(attempt_of(row) for row in rows)
        none: tuple[Attempt, ...] = ()
        by_run = groupby(found, key=lambda attempt: attempt.flow_run_id)
        return dict.fromkeys(asked, none) | {run: tuple(group) for run, group in by_run}

    def usage(
        self,
        start: datetime,
        end: datetime,
        *,
        provenance: Provenance | None = None,
        pool: str | None = None,
    ) -> tuple[tuple[RunRecord, tuple[Attempt, ...]], ...]:
        """The runs that held GPUs at any time in [start, end), with all of each run's attempts.

        In the order of submission, and the attempts by number.

        Args:
            provenance: Only measured, or only generated records; None: both.
            pool: Only the runs of this pool; None: of all.
        """
        start, end = require_aware(start, "start"), require_aware(end, "end")
        statement = (
            sa.select(runs, attempts)
            .join(attempts, attempts.c.flow_run_id == runs.c.flow_run_id)
            .where(runs_held_in(start, end))
            .order_by(runs.c.submitted_at, runs.c.flow_run_id, attempts.c.number)
        )
        if provenance is not None:
            statement = statement.where(runs.c.provenance == provenance)
        if pool is not None:
            statement = statement.where(runs.c.pool == pool)
        with self._reader.begin() as connection:
            return self._records(connection, statement)

    def run_versions(
        self, start: datetime, end: datetime, *, provenance: Provenance, pool: str
    ) -> dict[str, tuple[tuple[object, ...], ...]]:
        """The versions of the runs of `usage`, by flow run: equal ones have the same record.

        A version changes when an attempt is opened, makes its first step, saves, has another price,
        frees its GPUs or ends. It leaves out where an attempt is.
        """
        start, end = require_aware(start, "start"), require_aware(end, "end")
        # As they are stored: a value that cannot be read must not hide the other runs.
        raw = [sa.type_coerce(column, sa.types.NullType()) for column in _VERSION]
        statement = (
            sa.select(runs.c.flow_run_id, *raw)
            .join(attempts, attempts.c.flow_run_id == runs.c.flow_run_id)
            .where(runs_held_in(start, end), runs.c.provenance == provenance, runs.c.pool == pool)
            .order_by(runs.c.submitted_at, runs.c.flow_run_id, attempts.c.number)
        )
        found: dict[str, tuple[tuple[object, ...], ...]] = {}
        with self._reader.begin() as connection:
            for run_id, *values in connection.execute(statement):
                found[run_id] = (*found.get(run_id, ()), tuple(values))
        return found

    @contextmanager
    def usage_in_pages(
        self, start: datetime, end: datetime, *, provenance: Provenance | None = None
    ) -> Iterator[UsagePages]:
        """The same of any number of runs: a page of them is in memory at a time.

        They may be read several times, and are always those of the moment of the first question.
        """
        start, end = require_aware(start, "start"), require_aware(end, "end")
        with snapshot(self._reader) as connection:
            ids = read_ids(connection, start, end, provenance)
            yield UsagePages(partial(self._records, connection), ids)

    def records_of(
        self, flow_run_ids: Iterable[str]
    ) -> tuple[tuple[RunRecord, tuple[Attempt, ...]], ...]:
        """These runs with their attempts; without those that have none."""
        asked = list(dict.fromkeys(flow_run_ids))
        found: list[tuple[RunRecord, tuple[Attempt, ...]]] = []
        with self._reader.begin() as connection:
            for ids in chunks(asked):
                found += self._records(connection, select_records(ids))
        return tuple(found)

    def family_of(self, flow_run_id: str) -> tuple[tuple[RunRecord, tuple[Attempt, ...]], ...]:
        """This run and those that it started, and they in turn; without those that have no attempt.

        Each once. Runs are in it from their first end on.
        """
        with self._reader.begin() as connection:
            below = descendants(connection, flow_run_id)
        return self.records_of([flow_run_id, *sorted(below)])

    def pools(self) -> tuple[str, ...]:
        """The pools with a run or a machine in the ledger, in alphabetical order."""
        known = sa.union(sa.select(runs.c.pool), sa.select(capacity_intervals.c.pool))
        with self._reader.begin() as connection:
            return tuple(sorted(connection.scalars(known)))

    def _records(
        self, connection: sa.Connection, statement: sa.Select[Any]
    ) -> tuple[tuple[RunRecord, tuple[Attempt, ...]], ...]:
        """The runs of a statement over both tables, so that both are seen at the same moment."""
        rows = read_rows(connection, statement, (runs, attempts), self._damaged)
        pairs = [(run_of(row), attempt_of(row)) for row in rows]
        by_run = groupby(pairs, key=lambda pair: pair[0].flow_run_id)
        groups = [list(group) for _, group in by_run]
        return tuple((group[0][0], tuple(attempt for _, attempt in group)) for group in groups)
