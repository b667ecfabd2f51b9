"""Runs and attempts as they begin, run and end, written down."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa

from gpu_core.adapters.files.run_files import CheckpointReport
from gpu_core.adapters.ledger.database import LedgerDatabase, Logged, UnloggedEnd, values_of
from gpu_core.adapters.ledger.decision_log import append
from gpu_core.adapters.ledger.engine import (
    upsert,
)
from gpu_core.adapters.ledger.errors import UnknownAttempt
from gpu_core.adapters.ledger.pool_claims import check_claim, claim_pool, read_claim
from gpu_core.adapters.ledger.run_families import ancestors, last_hosts
from gpu_core.adapters.ledger.schema import (
    attempts,
    runs,
)
from gpu_core.adapters.ledger.unlogged_costs import mark_unlogged
from gpu_core.decisions.checks.prefect.pool_claim import PoolClaim
from gpu_core.decisions.costs.mlflow.unlogged_cost import CostChange
from gpu_core.decisions.model.attempt_exit import Exit
from gpu_core.decisions.model.attempts import Attempt, EndReason, RunRecord, SettlementValue
from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.decisions.model.host_summary import HostSummary
from gpu_core.decisions.model.units import require_aware

_RESUMED = (EndReason.PREEMPTED, EndReason.BUDGET_HELD)


class AttemptWrites(LedgerDatabase):
    """The writes about runs and their attempts, by the installation that has the pool."""

    def claim_pool(self, wanted: PoolClaim, instead_of: PoolClaim | None = None) -> PoolClaim:
        """Claim a pool for an installation, or renew its claim. Returns the claim that counts now.

        From the first claim that was got on, `admit` writes nothing unless it is still there.

        Args:
            wanted: The claim; `claimed_at` counts where the pool changes hands, `renewals` never.
            instead_of: Another installation's claim, which is over if it has not changed.
        """
        now = self._commits.write(lambda connection: claim_pool(connection, wanted, instead_of))
        if now.installation == wanted.installation:
            self._fence = now.pool_id, now.installation
        return now

    def pool_claim(self, pool_id: str) -> PoolClaim | None:
        """The installation that acts for this pool; None: none has claimed it."""
        with self._reader.begin() as connection:
            return read_claim(connection, pool_id)

    def admit(
        self,
        records: Sequence[tuple[RunRecord, Attempt]],
        decided: Logged | None = None,
    ) -> frozenset[str]:
        """Write down runs, each with the attempt that it begins, in one transaction.

        A run that is already there is corrected, but keeps its first `submitted_at` (its place in
        line), and a known final state is not erased by None.

        Args:
            records: The runs and attempts.
            decided: Their admissions for the log of decisions, by attempt id; of those that are
                refused here nothing is written.

        Returns:
            The ids of the attempts that hold their GPUs from now on. One that is missing was
            refused: its run already has an attempt of this number, so another worker started it.

        Raises:
            PoolNotOurs: Another installation has claimed the pool since `claim_pool` got it.
        """
        if not records:
            return frozenset()
        run_rows = [values_of(asdict(run)) for run, _ in records]
        attempt_rows = [values_of(asdict(attempt)) for _, attempt in records]
        insert = upsert(self._writer.dialect.name)(attempts)
        begun = insert.on_conflict_do_nothing().returning(attempts.c.attempt_id)

        def write(connection: sa.Connection) -> frozenset[str]:
            if self._fence is not None:
                check_claim(connection, *self._fence)
            connection.execute(_recorded(self._writer.dialect.name), run_rows)
            admitted = frozenset(connection.scalars(begun, attempt_rows))
            if decided is not None:
                batch = [d for d in decided.decisions if d.decision_id in admitted]
                append(connection, decided.writer, batch)
            return admitted

        return self._commits.write(write)

    def withdraw_attempt(self, attempt_id: str) -> bool:
        """Take back an attempt that never started a process; False if it did, or is not there."""
        statement = sa.delete(attempts).where(
            attempts.c.attempt_id == attempt_id,
            attempts.c.started_at.is_(None),
            attempts.c.released_at.is_(None),
        )
        return self._changes_a_row(statement)

    def mark_started(
        self,
        attempt_id: str,
        *,
        started_at: datetime,
        pid: int | None = None,
        pid_created_at: float | None = None,
        infrastructure: str | None = None,
    ) -> None:
        """Write down what runs the attempt.

        Args:
            pid_created_at: The operating system's start time of `pid`, in seconds since 1970.
            infrastructure: What runs it where no process of this machine does.

        Raises:
            UnknownAttempt: It is not in the ledger (withdrawn, perhaps): end the process.
        """
        is_known = self._update(
            attempts,
            attempts.c.attempt_id == attempt_id,
            started_at=started_at,
            last_seen_at=started_at,
            pid=pid,
            pid_created_at=pid_created_at,
            infrastructure=infrastructure,
        )
        if not is_known:
            raise UnknownAttempt(f"attempt {attempt_id} was not found in the ledger")

    def move_attempt(self, attempt: Attempt) -> bool:
        """Write down where an open attempt really is, that was opened before it was known.

        Node, GPUs, capacity, price, zone and the moments from which it holds them, and from which
        that is certain, are corrected.

        Returns:
            False: it is over, or not there.
        """
        return self._update(
            attempts,
            sa.and_(attempts.c.attempt_id == attempt.attempt_id, attempts.c.released_at.is_(None)),
            node=attempt.node,
            gpu_type=attempt.gpu_type,
            gpu_ids=attempt.gpu_ids,
            capacity_type=attempt.capacity_type,
            price_micro_usd_per_gpu_hour=attempt.price_micro_usd_per_gpu_hour,
            admitted_at=attempt.admitted_at,
            shares=attempt.shares,
            zone=attempt.zone,
            gpu_quantity=attempt.gpu_quantity,
            price_micro_usd_per_cpu_hour=attempt.price_micro_usd_per_cpu_hour,
            price_micro_usd_per_gib_hour=attempt.price_micro_usd_per_gib_hour,
            price_source=attempt.price_source,
            price_as_of=attempt.price_as_of,
            bound_at=attempt.bound_at,
        )

    def mark_draining(
        self,
        attempt_id: str,
        *,
        requested_at: datetime,
        reason: EndReason,
        deadline_at: datetime,
        message: str,
        preempted_by: str | None = None,
        decided: Logged | None = None,
    ) -> bool:
        """Ask an open attempt to end; False if it is over or was already asked.

        The first one wins, except that a cancellation overrides a preemption: a cancelled run
        must not come back. The run is then never given more time than it was promised first.
        """
        statement = _draining(attempt_id, reason).values(
            values_of(
                {
                    "drain_requested_at": requested_at,
                    "drain_reason": reason,
                    "drain_message": message,
                }
            )
            | {
                "drain_deadline_at": _earlier(attempts.c.drain_deadline_at, deadline_at),
                "preempted_by": sa.func.coalesce(preempted_by, attempts.c.preempted_by),
            }
        )

        def write(connection: sa.Connection) -> bool:
            is_first = connection.execute(statement).rowcount == 1
            if is_first and decided is not None:
                append(connection, decided.writer, decided.decisions)
            return is_first

        return self._commits.write(write)

    def note_settlement(self, attempt_id: str, settlement: Mapping[str, SettlementValue]) -> None:
        """Write down how the end of an open attempt was judged.

        A worker that takes over applies this, and does not judge anew a state that the first
        half of the work has changed.
        """
        self._update(
            attempts,
            sa.and_(attempts.c.attempt_id == attempt_id, attempts.c.released_at.is_(None)),
            settlement=dict(settlement),
        )

    def note_gone(self, attempt_id: str, gone_at: datetime, exit_: Exit | None) -> None:
        """Write down that nothing of an open attempt lives, and how it ended.

        Its GPUs are free from then on. A worker that takes over judges its end by this: what ran
        it may be deleted by then.

        Args:
            gone_at: Since when nothing of it lives.
            exit_: How it ended, as it was seen; None: nothing saw it.
        """
        self._update(
            attempts,
            sa.and_(attempts.c.attempt_id == attempt_id, attempts.c.released_at.is_(None)),
            gone_at=gone_at,
            exit=exit_,
        )

    def heartbeat(
        self, seen_at: datetime, attempts_seen: Mapping[str, CheckpointReport | None]
    ) -> None:
        """Write down that these attempts were seen alive, and what they have saved; all or none.

        Args:
            attempts_seen: By attempt id; None for an attempt that has reported nothing.
        """
        if not attempts_seen:
            return
        statement = (
            sa.update(attempts)
            .where(
                attempts.c.attempt_id == sa.bindparam("seen_attempt_id"),
                attempts.c.released_at.is_(None),
            )
            .values(
                last_seen_at=seen_at,
                checkpoint=_kept_unless_new("checkpoint"),
                checkpointed_at=_kept_unless_new("checkpointed_at"),
                restored_from=_kept_unless_new("restored_from"),
                first_step_at=_kept_unless_new("first_step_at"),
                expected_loss_s=_kept_unless_new("expected_loss_s"),
                saves=_kept_unless_new("saves"),
                save_stall_s=_kept_unless_new("save_stall_s"),
            )
        )
        # Two workers that lock the same rows in the same order never wait for each other's.
        rows = [_report_values(key, attempts_seen[key]) for key in sorted(attempts_seen)]
        self._commits.write(lambda connection: connection.execute(statement, rows))

    def add_price(self, attempt: Attempt) -> bool:
        """Write down the prices of an open attempt that changed; False if it is over."""
        return self._update(
            attempts,
            sa.and_(attempts.c.attempt_id == attempt.attempt_id, attempts.c.released_at.is_(None)),
            later_prices=attempt.later_prices,
        )

    def close_attempt(
        self,
        attempt_id: str,
        *,
        released_at: datetime,
        end_reason: EndReason,
        end_message: str | None,
        exit_code: int | None,
        is_charged_failure: bool,
        is_end_estimated: bool = False,
        checkpoint: str | None = None,
        checkpointed_at: datetime | None = None,
        restored_from: str | None = None,
        first_step_at: datetime | None = None,
        expected_loss_s: float | None = None,
        saves: int | None = None,
        save_stall_s: float | None = None,
        gpu_summaries: Sequence[GpuSummary] = (),
        host_summary: HostSummary | None = None,
        parent_flow_run_id: str | None = None,
        unlogged: UnloggedEnd | None = None,
    ) -> bool:
        """Write down that the attempt's GPUs are free again; False if that was already known.

        `released_at` is never before the admission, also where clocks differ.

        Args:
            parent_flow_run_id: The run that started its run; None: none did, or it is unknown.
            unlogged: Lists the run's cost as not in MLflow yet; None: it is not logged.
        """
        released_at = require_aware(released_at, "released_at")
        final = values_of(
            {
                "end_reason": end_reason,
                "end_message": end_message,
                "exit_code": exit_code,
                "is_charged_failure": is_charged_failure,
                "is_end_estimated": is_end_estimated,
            }
        )
        saved = values_of(
            {
                "checkpoint": checkpoint,
                "checkpointed_at": checkpointed_at,
                "restored_from": restored_from,
                "first_step_at": first_step_at,
                "expected_loss_s": expected_loss_s,
                "saves": saves,
                "save_stall_s": save_stall_s,
                "gpu_summaries": tuple(gpu_summaries) or None,
                "host_summary": host_summary,
            }
        )
        statement = sa.update(attempts).where(
            attempts.c.attempt_id == attempt_id, attempts.c.released_at.is_(None)
        )
        ended = statement.values(
            released_at=_later(attempts.c.admitted_at, released_at),
            # Nothing is judged by them any more.
            **dict.fromkeys(("job_variables", "gone_at", "exit")),
            **final,
            **{name: value for name, value in saved.items() if value is not None},
        )
        return self._end(ended, attempts.c.flow_run_id, unlogged, parent_flow_run_id)

    def finish_run(
        self, flow_run_id: str, final_state: str, *, unlogged: UnloggedEnd | None = None
    ) -> bool:
        """Write down the run's final Prefect state; False if the ledger never had the run.

        Args:
            unlogged: Lists its cost as not in MLflow yet; None: it is not logged.
        """
        statement = sa.update(runs).where(runs.c.flow_run_id == flow_run_id)
        return self._end(statement.values(final_state=final_state), runs.c.flow_run_id, unlogged)

    def _end(
        self,
        statement: sa.Update,
        flow_run_id: sa.Column[str],
        unlogged: UnloggedEnd | None,
        parent: str | None = None,
    ) -> bool:
        """Does this statement change a row? The costs that change with it are then listed."""

        def write(connection: sa.Connection) -> bool:
            ended = connection.scalars(statement.returning(flow_run_id)).all()
            if parent is not None:
                of_ended = sa.update(runs).where(runs.c.flow_run_id.in_(ended))
                connection.execute(of_ended.values(parent_flow_run_id=parent))
            if unlogged is not None:
                above = last_hosts(connection, ancestors(connection, ended))
                mark_unlogged(connection, above, CostChange.ENDED, unlogged.at)
                hosts = dict.fromkeys(ended, unlogged.host)
                mark_unlogged(connection, hosts, CostChange.ENDED, unlogged.at)
            return bool(ended)

        return self._commits.write(write)

    def import_records(self, records: Iterable[tuple[RunRecord, Iterable[Attempt]]]) -> int:
        """Add runs with their attempts, all or none; how many attempts were new.

        What is already there is left as it is, so that importing twice adds nothing.
        """
        pairs = [(run, tuple(of_run)) for run, of_run in records]
        run_rows = [values_of(asdict(run)) for run, _ in pairs]
        attempt_rows = [values_of(asdict(attempt)) for _, of_run in pairs for attempt in of_run]
        insert = upsert(self._writer.dialect.name)
        with self._writer.begin() as connection:
            before = connection.scalar(sa.select(sa.func.count()).select_from(attempts)) or 0
            for table, rows in ((runs, run_rows), (attempts, attempt_rows)):
                if rows:
                    connection.execute(insert(table).on_conflict_do_nothing(), rows)
            after = connection.scalar(sa.select(sa.func.count()).select_from(attempts)) or 0
        return int(after - before)


@cache
def _recorded(dialect: str) -> Any:
    """The statement that records runs.

    It is made once: that takes longer than to write some runs.
    """
    insert = upsert(dialect)(runs)
    corrected = {
        column.name: insert.excluded[column.name]
        for column in runs.c
        if column.name not in ("flow_run_id", "submitted_at")
    }
    for known in (runs.c.final_state, runs.c.parent_flow_run_id):
        corrected[known.name] = sa.func.coalesce(insert.excluded[known.name], known)
    return insert.on_conflict_do_update(index_elements=[runs.c.flow_run_id], set_=corrected)


def _draining(attempt_id: str, reason: EndReason) -> sa.Update:
    may_drain: sa.ColumnElement[bool] = attempts.c.drain_requested_at.is_(None)
    if reason is EndReason.CANCELLED:
        may_drain = sa.or_(may_drain, attempts.c.drain_reason.in_(_RESUMED))
    return sa.update(attempts).where(
        attempts.c.attempt_id == attempt_id, attempts.c.released_at.is_(None), may_drain
    )


def _earlier(column: sa.Column[Any], moment: datetime) -> sa.ColumnElement[Any]:
    new = sa.literal(require_aware(moment, column.name), column.type)
    return sa.case((column < new, column), else_=new)


def _later(column: sa.Column[Any], moment: datetime) -> sa.ColumnElement[Any]:
    new = sa.literal(moment, column.type)
    return sa.case((column > new, column), else_=new)


def _kept_unless_new(name: str) -> sa.ColumnElement[Any]:
    column = attempts.c[name]
    return sa.func.coalesce(sa.bindparam(f"new_{name}", type_=column.type), column)


def _report_values(attempt_id: str, report: CheckpointReport | None) -> dict[str, Any]:
    return {"seen_attempt_id": attempt_id} | values_of(
        {
            "new_checkpoint": report and report.checkpoint,
            "new_checkpointed_at": report and report.saved_at,
            "new_restored_from": report and report.restored_from,
            "new_first_step_at": report and report.first_step_at,
            "new_expected_loss_s": report and report.expected_loss_s,
            "new_saves": report and report.saves,
            "new_save_stall_s": report and report.save_stall_s,
        }
    )
