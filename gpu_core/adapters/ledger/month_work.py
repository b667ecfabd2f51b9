"""The runs of a month, in the columns that savings depend on."""

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from gpu_core.adapters.ledger.paid import PAID, REPRICED, Tariffs
from gpu_core.adapters.ledger.rows import UNREADABLE, attempt_of, read_rows
from gpu_core.adapters.ledger.schema import attempts, runs
from gpu_core.adapters.ledger.sql_functions import EpochUs
from gpu_core.decisions.costs.savings.gpu_type_choice import PaidAttempt, most_memory_mib
from gpu_core.decisions.costs.savings.month_savings import MonthWork
from gpu_core.decisions.costs.usage.time_use import Tariff, spans_of_prices
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.model.attempts import EndReason, Provenance
from gpu_core.decisions.model.cluster import SPOT

_log = logging.getLogger("prefect.gpu.ledger")
_c = attempts.c
_ROWS_PER_PAGE = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkQuestion:
    """The filter of runs: those with an attempt in the window."""

    window: Window
    pool: str | None = None
    """None: all."""
    provenance: Provenance | None = Provenance.MEASURED
    """None: all."""


def read_month_work(connection: sa.Connection, asked: WorkQuestion) -> MonthWork:
    """The work of this month, and its interruptions on spot."""
    interrupted = (
        sa.select(attempts)
        .join_from(runs, attempts)
        .where(
            *_wanted(asked),
            _c.capacity_type == SPOT,
            _c.end_reason == EndReason.INTERRUPTED,
            _c.released_at >= asked.window.start,
            _c.released_at < asked.window.end,
        )
    )
    found = map(attempt_of, read_rows(connection, interrupted, (attempts,), set()))
    return MonthWork(
        attempts=tuple(_paid_attempts(connection, asked)),
        interrupted=tuple(attempt for attempt in found if attempt.lost_capacity),
    )


def runs_held_in(start: datetime, end: datetime) -> sa.ColumnElement[bool]:
    """Has the run an attempt that held GPUs at any time in [start, end)?"""
    # Two questions of the index over released_at: with `or`, SQLite reads the whole past.
    before_end = sa.select(_c.flow_run_id).where(_c.admitted_at < end)
    overlapping = sa.union(
        before_end.where(_c.released_at > start),
        before_end.where(_c.released_at.is_(None)),
    )
    return runs.c.flow_run_id.in_(overlapping)


def _wanted(asked: WorkQuestion) -> list[sa.ColumnElement[bool]]:
    wanted = [runs_held_in(asked.window.start, asked.window.end)]
    if asked.pool is not None:
        wanted.append(runs.c.pool == asked.pool)
    if asked.provenance is not None:
        wanted.append(runs.c.provenance == asked.provenance)
    return wanted


def _paid_attempts(connection: sa.Connection, asked: WorkQuestion) -> Iterator[PaidAttempt]:
    statement = (
        sa.select(
            _c.flow_run_id,
            runs.c.deployment,
            _c.number,
            _c.gpu_type,
            _c.end_reason == EndReason.COMPLETED,
            EpochUs(_c.admitted_at),
            EpochUs(_c.released_at),
            sa.cast(_c.gpu_summaries, sa.String),
            REPRICED[0],
            *PAID,
        )
        .join_from(runs, attempts)
        .where(
            *_wanted(asked),
            sa.or_(_c.end_reason.is_(None), _c.end_reason != EndReason.POSTPONED),
        )
    )
    tariffs = Tariffs()
    for page in connection.execute(statement).partitions(_ROWS_PER_PAGE):
        for run, deployment, number, gpu_type, is_completed, *rest in page:
            admitted_us, released_us, summaries, later_prices, *paid = rest
            yield PaidAttempt(
                flow_run_id=run,
                deployment=deployment,
                number=number,
                gpu_type=gpu_type,
                released_us=released_us,
                is_completed=bool(is_completed),
                paid=_paid(tariffs, tuple(paid), later_prices, admitted_us, released_us),
                memory_mib=None if summaries is None else _memory_mib(run, summaries),
            )


def _paid(
    tariffs: Tariffs,
    paid: tuple[Any, ...],
    later_prices: str | None,
    admitted_us: int | None,
    released_us: int | None,
) -> list[tuple[Tariff, int]]:
    if admitted_us is None or released_us is None:
        return []
    if later_prices is None:
        return [(tariffs.of(paid), max(0, released_us - admitted_us))]
    since_us, of_prices = tariffs.at_each_price(paid, later_prices)
    spans = spans_of_prices(admitted_us, released_us, since_us)
    return [(tariff, end - start) for tariff, (start, end) in zip(of_prices, spans, strict=True)]


def _memory_mib(flow_run_id: str, text: str) -> int | None:
    # Of 100,000 attempts whole summaries would take longer to make than all the rest is read.
    try:
        return most_memory_mib(
            [
                None if of_gpu.get("is_simulated") else of_gpu.get("memory_used_max_bytes")
                for of_gpu in json.loads(text) or ()
            ]
        )
    except UNREADABLE:
        _log.error("Failed to read the summary of %s from the ledger", flow_run_id)
        return None
