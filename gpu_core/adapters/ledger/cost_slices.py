"""What was held and at which price, summed by the database: few rows for any number of attempts."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

import sqlalchemy as sa

from gpu_core.adapters.ledger.paid import PAID, REPRICED, Tariffs
from gpu_core.adapters.ledger.schema import attempts, runs
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

    The database sums the time of attempts with one price; that of those whose price has changed is
    cut here, at each change.
    """
    tariffs, found = Tariffs(), list[CostSlice]()
    keys = len(asked.keys)
    paid = slice(keys, keys + len(PAID))
    for page in connection.execute(_sums(asked)).partitions(_ROWS_PER_PAGE):
        for row in map(tuple, page):
            later_prices, _, *numbers = row[paid.stop :]
            if later_prices is None:
                tariff, uses_us = tariffs.of(row[paid]), row[paid.stop + 2 : paid.stop + 6]
                found.append(CostSlice(row[:keys], tariff, uses_us, row[paid.stop + 6]))
            else:
                found += _at_each_price(row[:keys], row[paid], later_prices, numbers, tariffs)
    return found


def read_run_counts(
    connection: sa.Connection, asked: CostQuestion, slices: Iterable[CostSlice]
) -> dict[Keys, int]:
    """How many runs has each group, and all of them together under `()`?

    Grouped by run, each group has one: only all of them are counted then.

    Args:
        slices: The answer of `read_cost_slices` to the same question.
    """
    if "run" in asked.keys:
        place = asked.keys.index("run")
        return {(): len({part.keys[place] for part in slices})}
    counts = dict(_run_counts(connection, asked, asked.keys))
    if counts and asked.keys and COLUMNS_OF_RUNS.keys() >= set(asked.keys):
        return counts | {(): sum(counts.values())}  # each run is in one group
    return counts | dict(_run_counts(connection, asked, ()))


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


def _sums(asked: CostQuestion) -> sa.Select[Any]:
    """The time of each use, as `uses_of_attempt` has it, summed over attempts of one tariff.

    Behind the sums are the moments of an attempt whose price changed. Grouped by run there are
    about as many groups as attempts: sorting them would take longer than reading them.
    """
    c = _turns(asked).c
    in_window = [Lesser(Greater(turn, c.first), c.last) for turn in (c.begun, c.working, c.lost)]
    pairs = pairwise((c.first, *in_window, c.last))
    uses = [later - earlier for earlier, later in pairs]
    moments = (c.start, c.begun, c.working, c.lost, c.end, c.first, c.last)
    group = [c[name] for name in _group(asked)]
    if "run" in asked.keys:
        return sa.select(*group, *uses, sa.literal_column("1"), *moments)
    sums = [sa.cast(sa.func.sum(use), sa.BigInteger) for use in uses]
    together = (*sums, sa.func.count(), *map(sa.func.max, moments))
    return sa.select(*group, *together).group_by(*group)


def _group(asked: CostQuestion) -> list[str]:
    keys = [f"key_{place}" for place in range(len(asked.keys))]
    return [*keys, *(column.name for column in (*PAID, *REPRICED))]


def _turns(asked: CostQuestion) -> sa.CTE:
    """When each attempt's uses begin, and what of it is in the window, in microseconds."""
    m = _moments(asked).c
    from_us, now_us = epoch_us(asked.window.start), epoch_us(asked.now)
    until_us = min(epoch_us(asked.window.end), now_us)
    end = Greater(sa.func.coalesce(m.freed, now_us), m.start)
    first = Greater(m.start, from_us)
    lost = Lesser(Greater(sa.func.coalesce(m.lost, end), m.start), end)
    begun = Lesser(Greater(sa.func.coalesce(m.started, end), m.start), lost)
    return _materialized(
        sa.select(
            *(m[name] for name in _group(asked)),
            m.start,
            begun.label("begun"),
            Lesser(Greater(m.working, begun), lost).label("working"),
            lost.label("lost"),
            end.label("end"),
            first.label("first"),
            Greater(first, Lesser(end, until_us)).label("last"),
        ),
        "turns",
    )


def _moments(asked: CostQuestion) -> sa.CTE:
    """The attempts that count, and their moments in microseconds, where they have them."""
    a, us = attempts.c, EpochUs
    has_failed = sa.or_(a.end_reason.is_(None), a.end_reason != EndReason.COMPLETED)
    is_over = a.released_at.is_not(None)
    lost = sa.func.coalesce(us(a.checkpointed_at), us(a.admitted_at))
    not_begun = sa.case((is_over, us(a.admitted_at)))
    working = sa.case((a.number > 1, sa.func.coalesce(us(a.first_step_at), 0)), else_=0)
    keys = [column.label(f"key_{place}") for place, column in enumerate(key_columns(asked.keys))]
    return _materialized(
        sa.select(
            *keys,
            *PAID,
            *REPRICED,
            us(a.admitted_at).label("start"),
            sa.func.coalesce(us(a.started_at), not_begun).label("started"),
            working.label("working"),
            sa.case((sa.and_(is_over, has_failed), lost)).label("lost"),
            us(freed_at()).label("freed"),
        )
        .join_from(runs, attempts)
        .where(*overlapping(asked)),
        "moments",
    )


def freed_at() -> sa.ColumnElement[Any]:
    """Since when are an attempt's GPUs free, as `Attempt.freed_at` has it?"""
    return sa.func.coalesce(attempts.c.released_at, attempts.c.gone_at)


def _materialized(statement: sa.Select[Any], name: str) -> sa.CTE:
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


def overlapping(asked: CostQuestion) -> list[sa.ColumnElement[bool]]:
    """Which attempts have a time in the window, and count?"""
    c, start, end = attempts.c, asked.window.start, min(asked.window.end, asked.now)
    if end <= start:
        return [sa.false()]
    # Two ranges of indexes: with one `or` over released_at, SQLite reads the whole past.
    before_end = sa.select(c.attempt_id).where(c.admitted_at < end)
    was_held = sa.and_(c.gone_at > start, c.gone_at > c.admitted_at)
    ids = sa.union_all(
        before_end.where(c.released_at > start, c.released_at > c.admitted_at),
        before_end.where(c.released_at.is_(None), sa.or_(c.gone_at.is_(None), was_held)),
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
