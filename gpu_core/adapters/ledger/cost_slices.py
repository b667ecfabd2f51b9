"""The usage at each price, summed by the database: few rows for any number of attempts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import sqlalchemy as sa

from gpu_core.adapters.ledger.paid import PAID, REPRICED, Tariffs
from gpu_core.adapters.ledger.schema import UtcTimestamp, attempts, runs
from gpu_core.adapters.ledger.sql_functions import EpochUs, Greater, Lesser
from gpu_core.decisions.costs.reports.cost_report import (
    COLUMNS_OF_ATTEMPTS,
    COLUMNS_OF_RUNS,
    CostSlice,
    Keys,
)
from gpu_core.decisions.costs.usage.time_use import uses_by_price
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.model.attempts import EndReason, Provenance
from gpu_core.decisions.model.units import epoch_us

_ROWS_PER_PAGE = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CostQuestion:
    """The attempts that count, and the keys by which they are grouped."""

    window: Window
    keys: tuple[str, ...]
    """Names of `COST_KEYS`."""
    now: datetime
    """Attempts that hold their GPUs are costed up to here."""
    pool: str | None = None
    provenance: Provenance | None = Provenance.MEASURED

    @property
    def end(self) -> datetime:
        """Up to where an attempt of the window counts."""
        return min(self.window.end, self.now)

    @property
    def values(self) -> dict[str, Any]:
        """What a statement over attempts is executed with."""
        return {
            "start": self.window.start,
            "end": self.end,
            "from_us": epoch_us(self.window.start),
            "until_us": epoch_us(self.end),
            "now_us": epoch_us(self.now),
            "pool": self.pool,
            "provenance": self.provenance,
        }


class _Parameters(NamedTuple):
    """The values of a question, by the names that a statement has for them.

    A history of costs asks the same of each day: to build and render a statement takes Python ten
    times as long as SQLite takes to run it over a day, so that days share one.
    """

    start: Any = sa.bindparam("start", type_=UtcTimestamp)
    end: Any = sa.bindparam("end", type_=UtcTimestamp)
    from_us: Any = sa.bindparam("from_us", type_=sa.BigInteger)
    until_us: Any = sa.bindparam("until_us", type_=sa.BigInteger)
    now_us: Any = sa.bindparam("now_us", type_=sa.BigInteger)
    pool: Any = sa.bindparam("pool", type_=runs.c.pool.type)
    provenance: Any = sa.bindparam("provenance", type_=runs.c.provenance.type)


class StatementShape(NamedTuple):
    """The parts of a question that its statement depends on. Those of equal shapes are equal."""

    keys: tuple[str, ...]
    is_of_pool: bool
    is_of_provenance: bool
    is_empty: bool

    @classmethod
    def of(cls, asked: CostQuestion) -> "StatementShape":
        pool, provenance = asked.pool is not None, asked.provenance is not None
        return cls(asked.keys, pool, provenance, asked.window.start >= asked.end)


_P = _Parameters()


class HeldByGroup(NamedTuple):
    """What groups held, and how many runs they have."""

    slices: list[CostSlice]
    runs: dict[Keys, int]
    """Of each group, and all of them together under `()`. Grouped by run, only that."""


def read_cost_slices(connection: sa.Connection, asked: CostQuestion) -> HeldByGroup:
    """The usage of each group in the window, by what it paid for and at which price.

    The database sums the time of attempts with one price; that of those whose price has changed is
    cut here, at each change.
    """
    tariffs, found, counts = Tariffs(), list[CostSlice](), dict[Keys, int]()
    keys = len(asked.keys)
    paid, in_all = slice(keys, keys + len(PAID)), 0
    rows = connection.execute(_sums(StatementShape.of(asked)), asked.values)
    for page in rows.partitions(_ROWS_PER_PAGE):
        for row in map(tuple, page):
            group = row[:keys]
            later_prices, _, of_group, of_all, *numbers = row[paid.stop :]
            in_all += of_all
            counts[group] = counts.get(group, 0) + of_group
            if later_prices is None:
                tariff, uses_us = tariffs.of(row[paid]), tuple(numbers[:4])
                found.append(CostSlice(group, tariff, uses_us, numbers[4]))
            else:
                found += _at_each_price(group, row[paid], later_prices, numbers, tariffs)
    if "run" in asked.keys:
        place = asked.keys.index("run")
        return HeldByGroup(found, {(): len({part.keys[place] for part in found})})
    return HeldByGroup(found, counts | {(): in_all} if found else {})


@lru_cache(maxsize=64)
def _sums(shape: StatementShape) -> sa.Select[Any]:
    """The time of each use, as `uses_of_attempt` has it, summed over attempts of one tariff.

    Before the sums are the runs that are counted with them, behind them the moments of an attempt
    whose price changed. Grouped by run there are about as many groups as attempts: sorting them
    would take longer than reading them.
    """
    c = _turns(shape).c
    in_window = [Lesser(Greater(turn, c.first), c.last) for turn in (c.begun, c.working, c.lost)]
    pairs = pairwise((c.first, *in_window, c.last))
    uses = [later - earlier for earlier, later in pairs]
    moments = (c.start, c.begun, c.working, c.lost, c.end, c.first, c.last)
    group = [c[name] for name in _group(shape)]
    if "run" in shape.keys:
        zero: sa.ColumnElement[int] = sa.literal_column("0")
        one: sa.ColumnElement[int] = sa.literal_column("1")
        return sa.select(*group, zero, zero, *uses, one, *moments)
    summed = (c.of_group, c.of_all, *uses)
    sums = [sa.cast(sa.func.sum(each), sa.BigInteger) for each in summed]
    together = (*sums, sa.func.count(), *map(sa.func.max, moments))
    return sa.select(*group, *together).group_by(*group)


def _group(shape: StatementShape) -> list[str]:
    keys = [f"key_{place}" for place in range(len(shape.keys))]
    return [*keys, *(column.name for column in (*PAID, *REPRICED))]


def _turns(shape: StatementShape) -> sa.CTE:
    """The start of each use of an attempt, and the part of it in the window, in microseconds."""
    m = _moments(shape).c
    end = Greater(sa.func.coalesce(m.freed, _P.now_us), m.start)
    first = Greater(m.start, _P.from_us)
    lost = Lesser(Greater(sa.func.coalesce(m.lost, end), m.start), end)
    begun = Lesser(Greater(sa.func.coalesce(m.started, end), m.start), lost)
    return _materialized(
        sa.select(
            *(m[name] for name in _group(shape)),
            m.of_group,
            m.of_all,
            m.start,
            begun.label("begun"),
            Lesser(Greater(m.working, begun), lost).label("working"),
            lost.label("lost"),
            end.label("end"),
            first.label("first"),
            Greater(first, Lesser(end, _P.until_us)).label("last"),
        ),
        "turns",
    )


def _moments(shape: StatementShape) -> sa.CTE:
    """The attempts that count, and their moments in microseconds, where they have them."""
    a, us = attempts.c, EpochUs
    has_failed = sa.or_(a.end_reason.is_(None), a.end_reason != EndReason.COMPLETED)
    is_over = a.released_at.is_not(None)
    lost = sa.func.coalesce(us(a.checkpointed_at), us(a.admitted_at))
    not_begun = sa.case((is_over, us(a.admitted_at)))
    working = sa.case((a.number > 1, sa.func.coalesce(us(a.first_step_at), 0)), else_=0)
    keys = [column.label(f"key_{place}") for place, column in enumerate(key_columns(shape.keys))]
    of_attempts = sa.select(
        *keys,
        *PAID,
        *REPRICED,
        _counts_its_run(shape.keys).label("of_group"),
        _counts_its_run(()).label("of_all"),
        us(a.admitted_at).label("start"),
        sa.func.coalesce(us(a.started_at), not_begun).label("started"),
        working.label("working"),
        sa.case((sa.and_(is_over, has_failed), lost)).label("lost"),
        us(freed_at()).label("freed"),
    ).join_from(runs, attempts)
    return _materialized(overlapping(of_attempts, shape), "moments")


def _counts_its_run(keys: Sequence[str]) -> sa.ColumnElement[int]:
    """1 for the first attempt of its run in its group, of those that count; 0 for later ones."""
    a, earlier = attempts.c, attempts.alias().c
    names = [COLUMNS_OF_ATTEMPTS[key] for key in keys if key in COLUMNS_OF_ATTEMPTS]
    is_there = sa.exists().where(
        earlier.flow_run_id == a.flow_run_id,
        earlier.number < a.number,
        *_holds(earlier),
        *(earlier[name].is_not_distinct_from(a[name]) for name in names),
    )
    return sa.case((a.number == 1, 1), (is_there, 0), else_=1)


def _holds(c: Any) -> list[sa.ColumnElement[bool]]:
    """Does an attempt with these columns hold something in the window, and count?"""
    freed = sa.func.coalesce(c.released_at, c.gone_at)
    was_held = sa.and_(freed > _P.start, freed > c.admitted_at)
    return [
        c.admitted_at < _P.end,
        sa.or_(freed.is_(None), was_held),
        sa.or_(c.end_reason.is_(None), c.end_reason != EndReason.POSTPONED),
    ]


def freed_at() -> sa.ColumnElement[Any]:
    """The moment since when an attempt's GPUs are free, as `Attempt.freed_at` has it."""
    return sa.func.coalesce(attempts.c.released_at, attempts.c.gone_at)


def _materialized(statement: sa.SelectBase, name: str) -> sa.CTE:
    """A step of a statement. SQLite would make each value again for each mention of it."""
    return statement.cte(name).prefix_with("MATERIALIZED")


def _at_each_price(
    keys: Keys, paid: tuple[Any, ...], later_prices: str, numbers: Sequence[int], tariffs: Tariffs
) -> Iterator[CostSlice]:
    """The slices of an attempt whose price has changed."""
    *_, count, start, begun, working, lost, end, first_us, last_us = numbers
    since_us, of_prices = tariffs.at_each_price(paid, later_prices)
    uses = uses_by_price((start, begun, working, lost, end), first_us, last_us, since_us)
    for tariff, uses_us in zip(of_prices, uses, strict=True):
        if any(uses_us):
            yield CostSlice(keys, tariff, uses_us, count)
            count = 0


def key_columns(keys: Sequence[str]) -> list[sa.Column[Any]]:
    """The columns of these keys of costs."""
    return [
        runs.c[COLUMNS_OF_RUNS[key]]
        if key in COLUMNS_OF_RUNS
        else attempts.c[COLUMNS_OF_ATTEMPTS[key]]
        for key in keys
    ]


def overlapping(statement: sa.Select[Any], shape: StatementShape) -> sa.CompoundSelect[Any]:
    """This statement over the attempts that have a time in the window, and count.

    Args:
        statement: Over runs and their attempts. It is executed with the values of the question.
        shape: Of the question.
    """
    c, start = attempts.c, _P.start
    wanted: list[sa.ColumnElement[bool]] = [
        c.admitted_at < _P.end,
        sa.or_(c.end_reason.is_(None), c.end_reason != EndReason.POSTPONED),
        sa.false() if shape.is_empty else sa.true(),
    ]
    if shape.is_of_pool:
        wanted.append(runs.c.pool == _P.pool)
    if shape.is_of_provenance:
        wanted.append(runs.c.provenance == _P.provenance)
    # Two ranges of an index: with one `or` over released_at, SQLite reads the whole past. Not as
    # ids that are looked up again: in PostgreSQL that took as long as all the rest.
    was_held = sa.and_(c.gone_at > start, c.gone_at > c.admitted_at)
    of_these = statement.where(*wanted)
    return sa.union_all(
        of_these.where(c.released_at > start, c.released_at > c.admitted_at),
        of_these.where(c.released_at.is_(None), sa.or_(c.gone_at.is_(None), was_held)),
    )
