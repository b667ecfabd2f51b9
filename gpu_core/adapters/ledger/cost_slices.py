"""What was held and at which price, summed by the database: few rows for any number of attempts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from itertools import pairwise
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles

from gpu_core.adapters.ledger.rows import attempt_of, read_rows, run_of
from gpu_core.adapters.ledger.schema import attempts, runs
from gpu_core.decisions.costs.cost_report import (
    COLUMNS_OF_ATTEMPTS,
    COLUMNS_OF_RUNS,
    CostSlice,
    Keys,
)
from gpu_core.decisions.costs.time_use import Tariff, uses_of_attempt
from gpu_core.decisions.costs.usage_cost import Held, Window
from gpu_core.decisions.model.attempts import EndReason, Provenance
from gpu_core.decisions.model.prices import Rates
from gpu_core.decisions.model.units import epoch_us


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


class _Greater(sa.sql.functions.GenericFunction[int]):
    """The greater of two numbers."""

    type = sa.BigInteger()
    inherit_cache = True
    name = "greater"


class _Lesser(sa.sql.functions.GenericFunction[int]):
    """The lesser of two numbers."""

    type = sa.BigInteger()
    inherit_cache = True
    name = "lesser"


_SCALAR = {"greater": ("max", "greatest"), "lesser": ("min", "least")}


@compiles(_Greater)
@compiles(_Lesser)
def _of_two(element: Any, compiler: Any, **kw: Any) -> str:
    names = _SCALAR[element.name]
    name = names[0] if compiler.dialect.name == "sqlite" else names[1]
    return f"{name}({', '.join(compiler.process(each, **kw) for each in element.clauses)})"


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
    of an older version, are few or old: they are read one by one.
    """
    tariffs: dict[tuple[Any, ...], Tariff] = {}
    together = [_summed(row, asked, tariffs) for row in connection.execute(_sums(asked))]
    return together + _one_by_one(connection, asked)


def read_run_counts(connection: sa.Connection, asked: CostQuestion) -> dict[Keys, int]:
    """How many runs has each group, and all of them together under `()`?

    Grouped by run, each group has one: nothing is read then.
    """
    keyed = ((),) if "run" in asked.keys else (asked.keys, ())
    return {key: runs for keys in keyed for key, runs in _run_counts(connection, asked, keys)}


def _run_counts(
    connection: sa.Connection, asked: CostQuestion, names: tuple[str, ...]
) -> Iterator[tuple[Keys, int]]:
    keys = key_columns(names)
    statement = (
        sa.select(*keys, sa.func.count(sa.distinct(attempts.c.flow_run_id)))
        .join_from(runs, attempts)
        .where(*overlapping(asked))
        .group_by(*keys)
    )
    return ((tuple(row[:-1]), row[-1]) for row in connection.execute(statement))


# What an attempt pays for, and its prices. The quantity is its text: a fraction is made once for
# each that differs, and not for each row.
PAID = (
    sa.type_coerce(attempts.c.gpu_quantity, sa.String).label("gpus"),
    attempts.c.cpu_milli,
    attempts.c.memory_mib,
    attempts.c.price_micro_usd_per_gpu_hour,
    attempts.c.price_micro_usd_per_cpu_hour,
    attempts.c.price_micro_usd_per_gib_hour,
)


def _sums(asked: CostQuestion) -> sa.Select[Any]:
    """The time of each use, as `uses_of_attempt` has it, summed over attempts of one tariff."""
    turns = _turns(asked)
    c, names = turns.c, [column.name for column in PAID]
    by_keys = [c[f"key_{place}"] for place in range(len(asked.keys))]
    lost = sa.func.lesser(sa.func.greater(c.lost, c.start), c.end)
    begun = sa.func.lesser(sa.func.greater(c.begun, c.start), lost)
    working = sa.func.lesser(sa.func.greater(c.working, begun), lost)
    in_window = [
        sa.func.lesser(sa.func.greater(turn, c.first), c.last) for turn in (begun, working, lost)
    ]
    pairs = pairwise((c.first, *in_window, c.last))
    uses = [sa.cast(sa.func.sum(later - earlier), sa.BigInteger) for earlier, later in pairs]
    paid = [c[name] for name in names]
    return sa.select(*by_keys, *paid, *uses, sa.func.count()).group_by(*by_keys, *paid)


def _turns(asked: CostQuestion) -> sa.CTE:
    """When each attempt's uses begin, and what of it is in the window, in microseconds.

    It is materialized: SQLite would otherwise read each moment again for each mention.
    """
    from_us, now_us = epoch_us(asked.window.start), epoch_us(asked.now)
    until_us = min(epoch_us(asked.window.end), now_us)
    a, us = attempts.c, sa.func.epoch_us
    is_over = a.released_at.is_not(None)
    start, begun = us(a.admitted_at), us(a.started_at)
    end = sa.func.greater(sa.func.coalesce(us(a.released_at), now_us), start)
    first = sa.func.greater(start, from_us)
    is_lost = sa.and_(is_over, sa.or_(a.end_reason.is_(None), a.end_reason != EndReason.COMPLETED))
    lost = sa.case((is_lost, sa.func.coalesce(us(a.checkpointed_at), start)), else_=end)
    working = sa.case((a.number > 1, sa.func.coalesce(us(a.first_step_at), 0)), else_=0)
    keys = [column.label(f"key_{place}") for place, column in enumerate(key_columns(asked.keys))]
    return (
        sa.select(
            *keys,
            *PAID,
            start.label("start"),
            end.label("end"),
            first.label("first"),
            sa.func.greater(first, sa.func.lesser(end, until_us)).label("last"),
            lost.label("lost"),
            sa.func.coalesce(begun, sa.case((is_over, start), else_=end)).label("begun"),
            working.label("working"),
        )
        .join_from(runs, attempts)
        .where(*overlapping(asked), ~is_apart())
        .cte("turns")
        .prefix_with("MATERIALIZED")
    )


def is_apart() -> sa.ColumnElement[bool]:
    """Is it an attempt that has to be costed by itself?"""
    c = attempts.c
    is_old_price = sa.and_(c.price_source.is_(None), c.price_micro_usd_per_gpu_hour.is_not(None))
    return sa.or_(c.gpu_quantity.is_(None), c.later_prices.is_not(None), is_old_price)


def _summed(
    row: sa.Row[Any], asked: CostQuestion, tariffs: dict[tuple[Any, ...], Tariff]
) -> CostSlice:
    values, keys = tuple(row), len(asked.keys)
    paid, uses_us = values[keys:-5], values[-5:-1]
    if paid not in tariffs:
        tariffs[paid] = tariff_of(paid)
    return CostSlice(keys=values[:keys], tariff=tariffs[paid], uses_us=uses_us, attempts=values[-1])


def tariff_of(paid: Sequence[Any]) -> Tariff:
    """What does a microsecond of this use and cost?

    Args:
        paid: The values of `PAID`.
    """
    gpus, cpu_milli, memory_mib, gpu, cpu, gib = paid
    quantity = Fraction(gpus or 0)
    return Tariff.of(
        Held(gpus=quantity, priced_gpus=quantity, cpu_milli=cpu_milli, memory_mib=memory_mib),
        Rates(
            gpu_micro_usd_per_hour=gpu,
            cpu_micro_usd_per_hour=cpu,
            gib_micro_usd_per_hour=gib,
            source="",
        ),
    )


def _one_by_one(connection: sa.Connection, asked: CostQuestion) -> list[CostSlice]:
    statement = (
        sa.select(runs, attempts).join_from(runs, attempts).where(*overlapping(asked), is_apart())
    )
    found = []
    for row in read_rows(connection, statement, (runs, attempts), set()):
        run, attempt = run_of(row), attempt_of(row)
        keys = tuple(
            getattr(run, COLUMNS_OF_RUNS[key])
            if key in COLUMNS_OF_RUNS
            else getattr(attempt, COLUMNS_OF_ATTEMPTS[key])
            for key in asked.keys
        )
        held = [part for part in uses_of_attempt(attempt, asked.now, asked.window) if any(part[1])]
        found += [
            CostSlice(keys=keys, tariff=tariff, uses_us=uses_us, attempts=int(place == 0))
            for place, (tariff, uses_us) in enumerate(held)
        ]
    return found


def key_columns(keys: Sequence[str]) -> list[sa.Column[Any]]:
    """The columns of these keys of costs."""
    return [
        runs.c[COLUMNS_OF_RUNS[key]]
        if key in COLUMNS_OF_RUNS
        else attempts.c[COLUMNS_OF_ATTEMPTS[key]]
        for key in keys
    ]


def overlapping(asked: CostQuestion) -> list[sa.ColumnElement[bool]]:
    """Which attempts have a time in the window, and count?"""
    c, start, end = attempts.c, asked.window.start, min(asked.window.end, asked.now)
    if end <= start:
        return [sa.false()]
    # Two ranges of indexes: with one `or` over released_at, SQLite reads the whole past.
    before_end = sa.select(c.attempt_id).where(c.admitted_at < end)
    ids = sa.union_all(
        before_end.where(c.released_at > start, c.released_at > c.admitted_at),
        before_end.where(c.released_at.is_(None)),
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
