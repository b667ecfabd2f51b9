"""The ledger itself: what a method writes is in one transaction, on the disk before it returns."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from functools import cache, partial
from itertools import groupby
from types import TracebackType
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from gpu_core.adapters.files.run_files import CheckpointReport
from gpu_core.adapters.ledger.attempt_bills import (
    read_bill_sums,
    read_run_bills,
    replace_bills,
)
from gpu_core.adapters.ledger.capacity import (
    KnownCapacity,
    note_seen,
    read_first,
    read_known,
    read_overlapping,
    write_changes,
)
from gpu_core.adapters.ledger.cost_slices import (
    CostQuestion,
    read_cost_slices,
    read_run_counts,
)
from gpu_core.adapters.ledger.decision_log import append, last_policy, read_links, runs_with
from gpu_core.adapters.ledger.decision_purge import purge, purgeable, read_anchors
from gpu_core.adapters.ledger.engine import (
    chunks,
    connect,
    parse_url,
    snapshot,
    upsert,
    writing,
)
from gpu_core.adapters.ledger.errors import LedgerError, LedgerRefused, UnknownAttempt
from gpu_core.adapters.ledger.gpu_history import add_windows, forget_windows, read_windows
from gpu_core.adapters.ledger.group_commit import GroupCommit
from gpu_core.adapters.ledger.held_capacity import read_held
from gpu_core.adapters.ledger.migrate import upgrade_to_head
from gpu_core.adapters.ledger.month_work import WorkQuestion, read_month_work, runs_held_in
from gpu_core.adapters.ledger.outages import is_refusal
from gpu_core.adapters.ledger.pool_claims import check_claim, claim_pool, read_claim
from gpu_core.adapters.ledger.rows import attempt_of, read_rows, run_of
from gpu_core.adapters.ledger.run_families import ancestors, descendants, last_hosts
from gpu_core.adapters.ledger.schema import (
    attempts,
    budget_alerts,
    capacity_intervals,
    catalogs,
    runs,
)
from gpu_core.adapters.ledger.unfinished_runs import read_unfinished
from gpu_core.adapters.ledger.unlogged_costs import forget_unlogged, mark_unlogged, read_unlogged
from gpu_core.adapters.ledger.usage_pages import UsagePages, read_ids, records_of
from gpu_core.decisions.catalog.offerings import Catalog, combined
from gpu_core.decisions.catalog.sheet import parse_sheet, to_sheet
from gpu_core.decisions.checks.prefect.pool_claim import Installation, PoolClaim
from gpu_core.decisions.costs.capacity_intervals import CapacityChanges, CapacityInterval
from gpu_core.decisions.costs.cost_report import BillSum, CostSlice, Keys
from gpu_core.decisions.costs.idle import CapacityCost, capacity_cost
from gpu_core.decisions.costs.run_bills import AttemptBill, RunBill
from gpu_core.decisions.costs.savings.month_savings import MonthWork
from gpu_core.decisions.costs.unlogged_cost import CostChange, UnloggedCost
from gpu_core.decisions.costs.usage_cost import Window
from gpu_core.decisions.model.attempts import Attempt, EndReason, Provenance, RunRecord
from gpu_core.decisions.model.decision_chain import (
    ChainCheck,
    Decision,
    DecisionKind,
    Link,
    check_chains,
)
from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.decisions.model.host_summary import HostSummary
from gpu_core.decisions.model.redaction import redact, secrets_in
from gpu_core.decisions.model.units import require_aware
from gpu_core.decisions.quota.budget_alerts import AlertMark
from gpu_core.decisions.telemetry.history import GpuWindow

_RESUMED = (EndReason.PREEMPTED, EndReason.BUDGET_HELD)


class Logged(NamedTuple):
    """Decisions for the log."""

    writer: str
    """Whose chain they are added to."""
    decisions: Sequence[Decision]


class UnloggedEnd(NamedTuple):
    """An end after which the cost of the run is not in MLflow yet."""

    host: str
    """Whose worker logs it."""
    at: datetime


class Ledger:
    """Who held which GPUs, when, at what price, and why it ended. Safe to use from any thread."""

    def __init__(self, engine: sa.Engine) -> None:
        self._reader = engine
        self._writer = writing(engine)
        self._commits = GroupCommit(self._writer)
        self._damaged: set[str] = set()
        self._fence: tuple[str, Installation] | None = None

    @classmethod
    def open(cls, url: str) -> "Ledger":
        """Open the ledger, creating or upgrading its tables.

        Args:
            url: `sqlite:////absolute/path/ledger.db`, or `postgresql+psycopg://…`.

        Raises:
            InvalidInput: The address cannot be used.
            LedgerTooNew: A newer version of this library has upgraded the database.
            LedgerRefused: The database cannot be opened until a person changes something.
            LedgerError: The database cannot be reached or written.
        """
        parsed = parse_url(url)
        try:
            engine = connect(parsed)
            try:
                upgrade_to_head(writing(engine))
            except BaseException:
                engine.dispose()
                raise
        except (OSError, SQLAlchemyError) as error:
            cause = getattr(error, "orig", None) or error
            shown = redact(parsed.render_as_string(hide_password=True))
            text = redact(" ".join(str(cause).split()), secrets_in(url))
            kind = LedgerRefused if is_refusal(error, parsed.database) else LedgerError
            raise kind(f"cannot open the ledger at {shown}: {text}") from error
        return cls(engine)

    def close(self) -> None:
        """Close all connections; the ledger is not used after this."""
        self._reader.dispose()

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({redact(self._reader.url.render_as_string(hide_password=True))!r})"

    # Runs

    def finish_run(
        self, flow_run_id: str, final_state: str, *, unlogged: UnloggedEnd | None = None
    ) -> bool:
        """Write down the run's final Prefect state; False if the ledger never had the run.

        Args:
            unlogged: Lists its cost as not in MLflow yet; None: it is not logged.
        """
        statement = sa.update(runs).where(runs.c.flow_run_id == flow_run_id)
        return self._end(statement.values(final_state=final_state), runs.c.flow_run_id, unlogged)

    def run(self, flow_run_id: str) -> RunRecord | None:
        """Whose run is this? None if the ledger has never seen it."""
        statement = sa.select(runs).where(runs.c.flow_run_id == flow_run_id)
        with self._reader.begin() as connection:
            found = read_rows(connection, statement, (runs,), self._damaged)
        return run_of(found[0]) if found else None

    def unfinished_runs(self, pool: str) -> tuple[str, ...]:
        """Which runs of the pool have no open attempt and no final state? Their ids, sorted."""
        with self._reader.begin() as connection:
            return read_unfinished(connection, pool)

    # Attempts

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
        run_rows = [_values(asdict(run)) for run, _ in records]
        attempt_rows = [_values(asdict(attempt)) for _, attempt in records]
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
            raise UnknownAttempt(f"attempt {attempt_id} is not in the ledger")

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
            _values(
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

    def note_settlement(
        self, attempt_id: str, settlement: Mapping[str, str | int | bool | None]
    ) -> None:
        """Write down how the end of an open attempt was judged.

        A worker that takes over applies this, and does not judge anew a state that the first
        half of the work has changed.
        """
        self._update(
            attempts,
            sa.and_(attempts.c.attempt_id == attempt_id, attempts.c.released_at.is_(None)),
            settlement=dict(settlement),
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
            )
        )
        # Two workers that lock the same rows in the same order never wait for each other's.
        rows = [_report_values(key, attempts_seen[key]) for key in sorted(attempts_seen)]
        self._commits.write(lambda connection: connection.execute(statement, rows))

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
        final = _values(
            {
                "end_reason": end_reason,
                "end_message": end_message,
                "exit_code": exit_code,
                "is_charged_failure": is_charged_failure,
                "is_end_estimated": is_end_estimated,
            }
        )
        saved = _values(
            {
                "checkpoint": checkpoint,
                "checkpointed_at": checkpointed_at,
                "restored_from": restored_from,
                "first_step_at": first_step_at,
                "expected_loss_s": expected_loss_s,
                "gpu_summaries": tuple(gpu_summaries) or None,
                "host_summary": host_summary,
            }
        )
        statement = sa.update(attempts).where(
            attempts.c.attempt_id == attempt_id, attempts.c.released_at.is_(None)
        )
        ended = statement.values(
            released_at=_later(attempts.c.admitted_at, released_at),
            job_variables=None,  # nothing is judged by them any more
            **final,
            **{name: value for name, value in saved.items() if value is not None},
        )
        return self._end(ended, attempts.c.flow_run_id, unlogged, parent_flow_run_id)

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

    def add_price(self, attempt: Attempt) -> bool:
        """Write down the prices of an open attempt that changed; False if it is over."""
        return self._update(
            attempts,
            sa.and_(attempts.c.attempt_id == attempt.attempt_id, attempts.c.released_at.is_(None)),
            later_prices=attempt.later_prices,
        )

    # Decisions

    def log(self, decided: Logged) -> None:
        """Add decisions to the log; those that are there are left out."""
        self._commits.write(
            lambda connection: append(connection, decided.writer, decided.decisions)
        )

    def decisions(
        self,
        *,
        flow_run_id: str | None = None,
        kind: str | None = None,
        writer: str | None = None,
    ) -> list[Link]:
        """Which decisions were written down, about a run, of a kind or by a writer? In order."""
        with self._reader.begin() as connection:
            return list(read_links(connection, flow_run_id, kind, writer))

    def last_policy(self, writer: str) -> str | None:
        """The digest of the policy that this writer noted last; None: it has noted none."""
        with self._reader.begin() as connection:
            return last_policy(connection, writer)

    def runs_with_decision(self, kind: DecisionKind, flow_run_ids: Iterable[str]) -> frozenset[str]:
        """About which of these runs was such a decision written down, by any writer?"""
        asked = list(dict.fromkeys(flow_run_ids))
        with self._reader.begin() as connection:
            return runs_with(connection, kind, asked)

    def check_decisions(self, anchor_key: bytes | None = None) -> list[ChainCheck]:
        """Was a record of the log changed or taken out? For each writer.

        Args:
            anchor_key: Checks the signatures of purges; None: they are not checked.
        """
        with self._reader.begin() as connection:
            return check_chains(read_links(connection), read_anchors(connection), anchor_key)

    def purgeable_decisions(self, before: datetime) -> dict[str, int]:
        """Up to which record of each writer can the log be purged of what is older?"""
        with self._reader.begin() as connection:
            return purgeable(connection, require_aware(before, "before"))

    def purge_decisions(self, cuts: Mapping[str, int], key: bytes, now: datetime) -> dict[str, int]:
        """Delete the records of each writer up to these; how many? A signed anchor of each stays.

        The caller has checked the chains with `check_decisions`: a purge would hide a change.
        """
        return self._commits.write(lambda connection: purge(connection, cuts, key, now))

    # Capacity

    def known_capacity(self, host: str) -> KnownCapacity:
        """Which machines of this host are there, and when was the last one seen?"""
        with self._reader.begin() as connection:
            return read_known(connection, host, self._damaged)

    def capacity(self, start: datetime, end: datetime) -> tuple[CapacityInterval, ...]:
        """Which intervals of capacity have a time in [start, end)? By their beginnings."""
        start, end = require_aware(start, "start"), require_aware(end, "end")
        with self._reader.begin() as connection:
            return read_overlapping(connection, start, end, self._damaged)

    def first_capacity_at(self, pool: str | None = None) -> datetime | None:
        """Since when are machines in the ledger, of a pool or all? None: there is none."""
        with self._reader.begin() as connection:
            return read_first(connection, pool)

    def write_capacity(
        self, changes: CapacityChanges, seen: Iterable[str], seen_at: datetime
    ) -> None:
        """Write down what came and went, and that the other machines were seen; all or none.

        Args:
            changes: Writing them twice is writing them once.
            seen: The ids of open intervals whose machines are there.
            seen_at: When they were seen.
        """
        ids = list(seen)

        def write(connection: sa.Connection) -> None:
            write_changes(connection, changes)
            note_seen(connection, ids, seen_at)

        self._commits.write(write)

    # Budget alerts

    def budget_alerts(self, pool: str) -> tuple[AlertMark, ...]:
        """Which marks of this pool's budgets were reported?"""
        c = budget_alerts.c
        statement = sa.select(c.budget, c.period_start, c.percent).where(c.pool == pool)
        with self._reader.begin() as connection:
            return tuple(AlertMark(*row) for row in connection.execute(statement))

    def note_budget_alerts(self, pool: str, marks: Iterable[AlertMark], sent_at: datetime) -> None:
        """Write down that these marks were reported."""
        rows = [_values({"pool": pool, "sent_at": sent_at, **mark._asdict()}) for mark in marks]
        insert = upsert(self._writer.dialect.name)(budget_alerts).on_conflict_do_nothing()
        self._commits.write(lambda connection: connection.execute(insert, rows))

    # Costs that are not in MLflow yet

    def unlogged_costs(self, pool: str, host: str, now: datetime) -> tuple[UnloggedCost, ...]:
        """Which costs does this host's worker of the pool log? The one that waits longest first."""
        with self._reader.begin() as connection:
            return read_unlogged(connection, pool, host, now)

    def note_logged(self, logged: UnloggedCost) -> None:
        """MLflow has this cost; what changed since it was read is still listed."""
        self._commits.write(lambda connection: forget_unlogged(connection, logged))

    # Bills

    def note_bills(
        self,
        instances: Iterable[str],
        window: Window,
        found: Sequence[AttemptBill],
        reconciled_at: datetime,
    ) -> frozenset[str]:
        """Write down what a bill says of attempts; the costs of their runs are to be logged again.

        It replaces what earlier bills say of the same machines for the same time: the same bill
        again changes nothing.

        Args:
            instances: The machines of the bill that are in the ledger.
            window: Its time.
            found: What it says.
            reconciled_at: The moment.

        Returns:
            The runs of which bills say something else now.
        """
        machines = tuple(instances)

        def write(connection: sa.Connection) -> frozenset[str]:
            changed = replace_bills(connection, machines, window, found, reconciled_at)
            hosts = last_hosts(connection, changed)
            mark_unlogged(connection, hosts, CostChange.RECONCILED, reconciled_at)
            return changed

        return self._commits.write(write)

    def run_bills(self, flow_run_ids: Iterable[str]) -> dict[str, RunBill]:
        """What do bills say of these runs? Without those of which they say nothing."""
        with self._reader.begin() as connection:
            return read_run_bills(connection, list(dict.fromkeys(flow_run_ids)))

    def bill_sums(self, asked: CostQuestion) -> dict[Keys, BillSum]:
        """What do bills for a time in the window say of each group?"""
        with self._reader.begin() as connection:
            return read_bill_sums(connection, asked)

    # What GPUs did minute by minute

    def add_gpu_windows(self, windows: Iterable[GpuWindow], forget_before: datetime) -> None:
        """Keep these windows, and delete those that are older than a moment."""
        found = tuple(windows)

        def write(connection: sa.Connection) -> None:
            add_windows(connection, found)
            forget_windows(connection, forget_before)

        self._commits.write(write)

    def gpu_windows(
        self, since: datetime, until: datetime, gpu_ids: Sequence[str] | None = None
    ) -> tuple[GpuWindow, ...]:
        """What did these GPUs do in each minute of a span? None: all GPUs."""
        with self._reader.begin() as connection:
            return read_windows(connection, since, until, gpu_ids)

    # The catalog that is kept up to date

    def save_catalog(self, catalog: Catalog, provider: str, refreshed_at: datetime) -> None:
        """Keep what this provider offers for all workers of this ledger."""
        row = {
            "provider": provider,
            "sheet": to_sheet(catalog, provider, refreshed_at),
            "refreshed_at": refreshed_at,
        }
        insert = upsert(self._writer.dialect.name)(catalogs).values(_values(row))
        statement = insert.on_conflict_do_update(
            index_elements=[catalogs.c.provider],
            set_={name: insert.excluded[name] for name in ("sheet", "refreshed_at")},
        )
        self._commits.write(lambda connection: connection.execute(statement))

    def catalog_refreshed_at(self) -> datetime | None:
        """When was the catalog last refreshed? None: never."""
        with self._reader.begin() as connection:
            found: datetime | None = connection.scalar(
                sa.select(sa.func.max(catalogs.c.refreshed_at))
            )
        return found

    def catalog(self) -> Catalog:
        """What is offered, by the last refresh of each provider; empty if there was none.

        Raises:
            InvalidInput: A sheet cannot be read: a newer version wrote it.
        """
        with self._reader.begin() as connection:
            rows = connection.execute(sa.select(catalogs.c.provider, catalogs.c.sheet)).all()
        return combined(parse_sheet(row.sheet, source=f"catalog of {row.provider}") for row in rows)

    # Which installation acts

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
        """Which installation acts for this pool? None: none has claimed it."""
        with self._reader.begin() as connection:
            return read_claim(connection, pool_id)

    # Whole histories

    def import_records(self, records: Iterable[tuple[RunRecord, Iterable[Attempt]]]) -> int:
        """Add runs with their attempts, all or none; how many attempts were new.

        What is already there is left as it is, so that importing twice adds nothing.
        """
        pairs = [(run, tuple(of_run)) for run, of_run in records]
        run_rows = [_values(asdict(run)) for run, _ in pairs]
        attempt_rows = [_values(asdict(attempt)) for _, of_run in pairs for attempt in of_run]
        insert = upsert(self._writer.dialect.name)
        with self._writer.begin() as connection:
            before = connection.scalar(sa.select(sa.func.count()).select_from(attempts)) or 0
            for table, rows in ((runs, run_rows), (attempts, attempt_rows)):
                if rows:
                    connection.execute(insert(table).on_conflict_do_nothing(), rows)
            after = connection.scalar(sa.select(sa.func.count()).select_from(attempts)) or 0
        return int(after - before)

    # Questions

    def open_attempts(self, pool: str, host: str) -> tuple[Attempt, ...]:
        """Which attempts hold GPUs of this pool on this host? Oldest first."""
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
        """Which attempts did each of these runs have, in their order? Empty for a run with none."""
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
        """Which runs held GPUs at any time in [start, end)? With all of each run's attempts.

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

    def cost_slices(self, asked: CostQuestion) -> tuple[list[CostSlice], dict[Keys, int]]:
        """What did each group hold, in slices of one price, and how many runs has it?"""
        with self._reader.begin() as connection:
            return read_cost_slices(connection, asked), read_run_counts(connection, asked)

    def capacity_cost(self, asked: CostQuestion) -> CapacityCost:
        """What did machines cost in the window, and which part of that did runs pay?

        With a pool only the machines that its worker wrote down, with what all pools' runs paid.
        """
        window, now = asked.window, asked.now
        with self._reader.begin() as connection:
            end = min(window.end, now)
            found = read_overlapping(connection, window.start, end, self._damaged)
            intervals = [i for i in found if asked.pool in (None, i.pool)]
            held = read_held(connection, intervals, asked) if intervals else {}
        return capacity_cost(intervals, held, window, now)

    def pools(self) -> tuple[str, ...]:
        """Which pools have a run or a machine in the ledger? In alphabetical order."""
        known = sa.union(sa.select(runs.c.pool), sa.select(capacity_intervals.c.pool))
        with self._reader.begin() as connection:
            return tuple(sorted(connection.scalars(known)))

    def month_work(self, asked: WorkQuestion) -> MonthWork:
        """What ran in a month, as far as savings depend on it?"""
        with self._reader.begin() as connection:
            return read_month_work(connection, asked)

    def cost_slices_by_day(self, asked: CostQuestion) -> list[list[CostSlice]]:
        """What did each group use and cost on each UTC day that begins in the window?"""
        start, end = asked.window.start, asked.window.end
        days = [Window.of_day(start.date() + timedelta(days=n)) for n in range((end - start).days)]
        with self._reader.begin() as connection:
            return [read_cost_slices(connection, replace(asked, window=day)) for day in days]

    def records_of(
        self, flow_run_ids: Iterable[str]
    ) -> tuple[tuple[RunRecord, tuple[Attempt, ...]], ...]:
        """These runs with their attempts; without those that have none."""
        asked = list(dict.fromkeys(flow_run_ids))
        found: list[tuple[RunRecord, tuple[Attempt, ...]]] = []
        with self._reader.begin() as connection:
            for ids in chunks(asked):
                found += self._records(connection, records_of(ids))
        return tuple(found)

    def family_of(self, flow_run_id: str) -> tuple[tuple[RunRecord, tuple[Attempt, ...]], ...]:
        """This run and those that it started, and they in turn; without those that have no attempt.

        Each once. Runs are in it from their first end on.
        """
        with self._reader.begin() as connection:
            below = descendants(connection, flow_run_id)
        return self.records_of([flow_run_id, *sorted(below)])

    def _records(
        self, connection: sa.Connection, statement: sa.Select[Any]
    ) -> tuple[tuple[RunRecord, tuple[Attempt, ...]], ...]:
        """The runs of a statement over both tables, so that both are seen at the same moment."""
        rows = read_rows(connection, statement, (runs, attempts), self._damaged)
        pairs = [(run_of(row), attempt_of(row)) for row in rows]
        by_run = groupby(pairs, key=lambda pair: pair[0].flow_run_id)
        groups = [list(group) for _, group in by_run]
        return tuple((group[0][0], tuple(attempt for _, attempt in group)) for group in groups)

    def _update(self, table: sa.Table, where: sa.ColumnElement[bool], **values: Any) -> bool:
        return self._changes_a_row(sa.update(table).where(where).values(_values(values)))

    def _changes_a_row(self, statement: sa.Update | sa.Delete) -> bool:
        return self._commits.write(lambda connection: connection.execute(statement).rowcount == 1)


@cache
def _recorded(dialect: str) -> Any:
    """How runs are written down. It is made once: that takes longer than to write some runs."""
    insert = upsert(dialect)(runs)
    corrected = {
        column.name: insert.excluded[column.name]
        for column in runs.c
        if column.name not in ("flow_run_id", "submitted_at")
    }
    for known in (runs.c.final_state, runs.c.parent_flow_run_id):
        corrected[known.name] = sa.func.coalesce(insert.excluded[known.name], known)
    return insert.on_conflict_do_update(index_elements=[runs.c.flow_run_id], set_=corrected)


def _values(record: Mapping[str, Any]) -> dict[str, Any]:
    # Checked here and not only in the column type, so that the error names the field.
    return {
        name: require_aware(value, name) if isinstance(value, datetime) else value
        for name, value in record.items()
    }


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
    return {"seen_attempt_id": attempt_id} | _values(
        {
            "new_checkpoint": report and report.checkpoint,
            "new_checkpointed_at": report and report.saved_at,
            "new_restored_from": report and report.restored_from,
            "new_first_step_at": report and report.first_step_at,
            "new_expected_loss_s": report and report.expected_loss_s,
        }
    )
