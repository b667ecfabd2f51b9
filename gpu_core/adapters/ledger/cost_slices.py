"""What was held and at which price, summed by the database: few rows for any number of attempts."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles

from gpu_core.adapters.ledger.rows import attempt_of, read_rows, run_of
from gpu_core.adapters.ledger.schema import attempts, runs
from gpu_core.decisions.costs.cost_report import COLUMNS_OF_RUNS, CostSlice, GroupCount
from gpu_core.decisions.costs.usage import Usage
from gpu_core.decisions.costs.usage_cost import Held, Window, attempt_usage, usage_for
from gpu_core.decisions.model.attempts import EndReason, Provenance
from gpu_core.decisions.model.prices import Rates
from gpu_core.decisions.model.units import require_aware


class _EpochUs(sa.sql.functions.GenericFunction[int]):
    """A moment in whole microseconds since 1970."""

    type = sa.BigInteger()
    inherit_cache = True
    name = "epoch_us"


@compiles(_EpochUs, "sqlite")
def _epoch_us_sqlite(element: Any, compiler: Any, **kw: Any) -> str:
    # `2026-03-04 12:00:00.000000`, as SQLAlchemy keeps it.
    text = compiler.process(next(iter(element.clauses)), **kw)
    return (
        f"(CAST(strftime('%s', substr({text}, 1, 19)) AS INTEGER) * 1000000"
        f" + CAST(substr({text}, 21, 6) AS INTEGER))"
    )


@compiles(_EpochUs, "postgresql")
def _epoch_us_postgresql(element: Any, compiler: Any, **kw: Any) -> str:
    moment = compiler.process(next(iter(element.clauses)), **kw)
    return f"CAST(EXTRACT(EPOCH FROM {moment}) * 1000000 AS BIGINT)"


@dataclass(frozen=True, slots=True, kw_only=True)
class CostQuestion:
    """Which attempts count, and how they are grouped."""

    window: Window
    keys: tuple[str, ...]
    """Names of `COST_KEYS`."""
    now: datetime
    """Attempts that hold their GPUs are costed up to here."""
    pool: str | None = None
    provenance: Provenance | None = Provenance.MEASURED


def read_cost_slices(connection: sa.Connection, asked: CostQuestion) -> list[CostSlice]:
    """What did each group hold in the window, by what it paid for and at which price?

    The database sums the time of attempts with one price. Those whose price has changed, and those
    of an older version, are few or old: they are read and costed one by one.
    """
    together = [_summed(row, asked) for row in connection.execute(_sums(asked))]
    return together + _one_by_one(connection, asked)


def read_group_counts(connection: sa.Connection, asked: CostQuestion) -> list[GroupCount]:
    """How many runs and attempts has each group?"""
    keys = _key_columns(asked.keys)
    statement = (
        sa.select(*keys, sa.func.count(sa.distinct(runs.c.flow_run_id)), sa.func.count())
        .join_from(runs, attempts)
        .where(*overlapping(asked))
        .group_by(*keys)
    )
    return [
        GroupCount(keys=tuple(row[: len(keys)]), runs=row[-2], attempts=row[-1])
        for row in connection.execute(statement)
    ]


# What an attempt pays for, and its prices.
PAID = (
    attempts.c.gpu_quantity,
    attempts.c.cpu_milli,
    attempts.c.memory_mib,
    attempts.c.price_micro_usd_per_gpu_hour,
    attempts.c.price_micro_usd_per_cpu_hour,
    attempts.c.price_micro_usd_per_gib_hour,
)


def _sums(asked: CostQuestion) -> sa.Select[Any]:
    start, end = epoch_us(asked.window.start), epoch_us(min(asked.window.end, asked.now))
    from_us = sa.func.epoch_us(attempts.c.admitted_at)
    to_us = sa.func.coalesce(sa.func.epoch_us(attempts.c.released_at), end)
    first = sa.case((from_us > start, from_us), else_=start)
    last = sa.case((to_us < end, to_us), else_=end)
    held_us = sa.func.sum(sa.case((last > first, last - first), else_=0))
    keys = _key_columns(asked.keys)
    return (
        sa.select(*keys, *PAID, sa.cast(held_us, sa.BigInteger))
        .join_from(runs, attempts)
        .where(*overlapping(asked), ~is_apart())
        .group_by(*keys, *PAID)
    )


def is_apart() -> sa.ColumnElement[bool]:
    """Is it an attempt that has to be costed by itself?"""
    c = attempts.c
    is_old_price = sa.and_(c.price_source.is_(None), c.price_micro_usd_per_gpu_hour.is_not(None))
    return sa.or_(c.gpu_quantity.is_(None), c.later_prices.is_not(None), is_old_price)


def _summed(row: sa.Row[Any], asked: CostQuestion) -> CostSlice:
    keys, held_us = tuple(row[: len(asked.keys)]), int(row[-1])
    return CostSlice(keys=keys, usage=paid_usage(row[len(asked.keys) : -1], held_us))


def paid_usage(paid: Sequence[Any], held_us: int) -> Usage:
    """What does it use and cost to hold this for so much time?

    Args:
        paid: The values of `PAID`.
        held_us: Microseconds.
    """
    gpus, cpu_milli, memory_mib, gpu, cpu, gib = paid
    held = Held(
        gpus=gpus or Fraction(0),
        priced_gpus=gpus or Fraction(0),
        cpu_milli=cpu_milli,
        memory_mib=memory_mib,
    )
    rates = Rates(
        gpu_micro_usd_per_hour=gpu,
        cpu_micro_usd_per_hour=cpu,
        gib_micro_usd_per_hour=gib,
        source="",
    )
    return usage_for(held, held_us, rates)


def _one_by_one(connection: sa.Connection, asked: CostQuestion) -> list[CostSlice]:
    statement = (
        sa.select(runs, attempts).join_from(runs, attempts).where(*overlapping(asked), is_apart())
    )
    found = []
    for row in read_rows(connection, statement, (runs, attempts), set()):
        run, attempt = run_of(row), attempt_of(row)
        of_run = COLUMNS_OF_RUNS
        keys = tuple(getattr(run, of_run[k]) if k in of_run else getattr(attempt, k)
                     for k in asked.keys)  # fmt: skip
        usage = attempt_usage(attempt, asked.now, asked.window)
        found.append(CostSlice(keys=keys, usage=usage))
    return found


def _key_columns(keys: Sequence[str]) -> list[sa.Column[Any]]:
    return [
        runs.c[COLUMNS_OF_RUNS[key]] if key in COLUMNS_OF_RUNS else attempts.c[key] for key in keys
    ]


def overlapping(asked: CostQuestion) -> list[sa.ColumnElement[bool]]:
    """Which attempts have a time in the window, and count?"""
    c, window = attempts.c, asked.window
    # Two ranges of indexes: with one `or` over released_at, SQLite reads the whole past.
    before_end = sa.select(c.attempt_id).where(c.admitted_at < min(window.end, asked.now))
    ids = sa.union_all(
        before_end.where(c.released_at > window.start), before_end.where(c.released_at.is_(None))
    )
    wanted: list[sa.ColumnElement[bool]] = [
        c.attempt_id.in_(ids),
        sa.or_(c.end_reason.is_(None), c.end_reason != EndReason.POSTPONED),
    ]
    if asked.pool is not None:
        wanted.append(runs.c.pool == asked.pool)
    if asked.provenance is not None:
        wanted.append(runs.c.provenance == asked.provenance)
    return wanted


def epoch_us(moment: datetime) -> int:
    """Whole microseconds since 1970."""
    whole = require_aware(moment, "moment")
    return int(whole.timestamp()) * 1_000_000 + whole.microsecond
