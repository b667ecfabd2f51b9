"""What runs held on each machine: summed by the database for attempts on one node at one price."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from gpu_core.adapters.ledger.cost_slices import CostQuestion, overlapping
from gpu_core.adapters.ledger.paid import PAID, REPRICED, Tariffs
from gpu_core.adapters.ledger.rows import attempt_of, read_rows
from gpu_core.adapters.ledger.schema import attempts, capacity_intervals, runs
from gpu_core.adapters.ledger.sql_functions import EpochUs, Greater, Lesser
from gpu_core.decisions.costs.capacity_intervals import WATCHED, CapacityInterval
from gpu_core.decisions.costs.idle import counted_in, held_on
from gpu_core.decisions.costs.time_use import spans_of_prices
from gpu_core.decisions.costs.usage import Usage, sum_usage
from gpu_core.decisions.costs.usage_cost import Window
from gpu_core.decisions.model.attempts import Attempt
from gpu_core.decisions.model.units import epoch_us

_c = capacity_intervals.c


def read_held(
    connection: sa.Connection, intervals: Sequence[CapacityInterval], asked: CostQuestion
) -> dict[str, Usage]:
    """What did runs hold on each of these machines in the window? By the interval's id.

    Runs of all pools count, as they share machines.
    """
    of_all = replace(asked, pool=None)
    found: dict[str, list[Usage]] = defaultdict(list)
    tariffs = Tariffs()
    for interval_id, *paid, later_prices, _, held_us, first_us, last_us in connection.execute(
        _sums(of_all)
    ):
        if later_prices is None:
            found[interval_id].append(tariffs.of(tuple(paid)).usage(int(held_us)))
            continue
        since_us, of_prices = tariffs.at_each_price(tuple(paid), later_prices)
        spans = spans_of_prices(first_us, last_us, since_us)
        found[interval_id] += [
            tariff.usage(end - start) for tariff, (start, end) in zip(of_prices, spans, strict=True)
        ]
    for interval_id, usage in _of_several_nodes(connection, intervals, of_all):
        found[interval_id].append(usage)
    return {interval_id: sum_usage(parts) for interval_id, parts in found.items()}


def _of_several_nodes(
    connection: sa.Connection, intervals: Sequence[CapacityInterval], asked: CostQuestion
) -> Iterator[tuple[str, Usage]]:
    """What gangs hold on each machine, attempt by attempt."""
    by_node: dict[tuple[str, str], list[tuple[str, Window]]] = defaultdict(list)
    for interval in intervals:
        counted = counted_in(interval, asked.window, asked.now)
        if counted is not None:
            by_node[interval.host, interval.node].append((interval.interval_id, counted))
    statement = (
        sa.select(attempts)
        .join_from(runs, attempts)
        .where(*overlapping(asked), _has_a_place(), _has_several_nodes())
    )
    for row in read_rows(connection, statement, (attempts,), set()):
        attempt = attempt_of(row)
        for node in {share.node for share in attempt.held} or {attempt.node}:
            for interval_id, counted in by_node[attempt.host, node]:
                if _was_there(attempt, counted):
                    yield interval_id, held_on(attempt, node, counted, asked.now)


def _was_there(attempt: Attempt, counted: Window) -> bool:
    """Did it hold anything then? A machine whose price changes has an interval for each price."""
    end = attempt.released_at
    return attempt.admitted_at < counted.end and (end is None or end > counted.start)


def _has_a_place() -> sa.ColumnElement[bool]:
    """The nodes of an attempt that another scheduler has still to place are only planned."""
    return sa.or_(attempts.c.bound_at.is_not(None), attempts.c.released_at.is_not(None))


def _has_several_nodes() -> sa.ColumnElement[bool]:
    # As text: what is no JSON any more must not fail the whole report.
    text = sa.cast(attempts.c.shares, sa.String)
    return sa.func.coalesce(text.like('%"node"%"node"%'), sa.false())


def _sums(asked: CostQuestion) -> sa.Select[Any]:
    """The time of attempts of one tariff on each machine; those on several nodes are not in it.

    Behind the sum is from when to when an attempt whose price changed was there.
    """
    c = _stays(asked).c
    group = [c.interval_id, *(c[column.name] for column in (*PAID, *REPRICED))]
    held_us = sa.func.sum(sa.case((c.last > c.first, c.last - c.first), else_=0))
    moments = (sa.func.max(c.first), sa.func.max(c.last))
    return sa.select(*group, sa.cast(held_us, sa.BigInteger), *moments).group_by(*group)


def _stays(asked: CostQuestion) -> sa.CTE:
    """From when to when each attempt was on each machine, in the window, in microseconds.

    It is materialized: SQLite would otherwise read each moment again for each mention.
    """
    a, now = attempts.c, epoch_us(asked.now)
    start, end = epoch_us(asked.window.start), min(epoch_us(asked.window.end), now)
    seen_us, watched_us = EpochUs(_c.seen_at), int(WATCHED.total_seconds()) * 1_000_000
    still_there = sa.case((now - seen_us <= watched_us, now), else_=seen_us)
    gone_us = sa.case((_c.until.is_(None), still_there), else_=EpochUs(_c.until))
    released_us = sa.func.coalesce(EpochUs(a.released_at), end)
    return (
        sa.select(
            _c.interval_id,
            *PAID,
            *REPRICED,
            Greater(EpochUs(a.admitted_at), EpochUs(_c.since), start).label("first"),
            Lesser(released_us, gone_us, end).label("last"),
        )
        .join_from(runs, attempts)
        .join(
            capacity_intervals,
            sa.and_(
                _c.host == a.host,
                _c.node == a.node,
                # Moments as they are kept are compared before any is made a number.
                a.admitted_at < sa.func.coalesce(_c.until, asked.now),
                sa.or_(a.released_at.is_(None), a.released_at > _c.since),
            ),
        )
        .where(
            *overlapping(asked),
            _has_a_place(),
            ~_has_several_nodes(),
            _c.since < min(asked.window.end, asked.now),
            sa.or_(_c.until.is_(None), _c.until > asked.window.start),
        )
        .cte("stays")
        .prefix_with("MATERIALIZED")
    )
