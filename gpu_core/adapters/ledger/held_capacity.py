"""What runs held on each machine: summed by the database for attempts on one node at one price."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from typing import Any

import sqlalchemy as sa

from gpu_core.adapters.ledger.cost_slices import CostQuestion, freed_at, overlapping
from gpu_core.adapters.ledger.paid import PAID, REPRICED, Tariffs
from gpu_core.adapters.ledger.schema import attempts, capacity_intervals, runs
from gpu_core.adapters.ledger.sql_functions import EpochUs, Greater, Lesser
from gpu_core.decisions.costs.capacity.capacity_intervals import WATCHED, CapacityInterval
from gpu_core.decisions.costs.capacity.idle import counted_in, parts_by_node
from gpu_core.decisions.costs.usage.scale import Scale
from gpu_core.decisions.costs.usage.time_use import Tariff, spans_of_prices
from gpu_core.decisions.costs.usage.usage import Usage
from gpu_core.decisions.model.units import epoch_us

_c = capacity_intervals.c

_Held = tuple[tuple[str, Tariff], int]
"""An interval's id and what is held there; and for how many microseconds."""


def read_held(
    connection: sa.Connection, intervals: Sequence[CapacityInterval], asked: CostQuestion
) -> dict[str, Usage]:
    """What did runs hold on each of these machines in the window? By the interval's id.

    Runs of all pools count, as they share machines.
    """
    of_all = replace(asked, pool=None)
    tariffs = Tariffs()
    held_us: dict[tuple[str, Tariff], int] = defaultdict(int)
    for place, us in chain(
        _on_one_node(connection, of_all, tariffs),
        _on_several_nodes(connection, intervals, of_all, tariffs),
    ):
        held_us[place] += us
    found: dict[str, list[tuple[Tariff, int]]] = defaultdict(list)
    for (interval_id, tariff), us in held_us.items():
        found[interval_id].append((tariff, us))
    scale = Scale(tariff for _, tariff in held_us)
    return {interval_id: scale.usage(used) for interval_id, used in found.items()}


def _on_one_node(
    connection: sa.Connection, asked: CostQuestion, tariffs: Tariffs
) -> Iterator[_Held]:
    """What attempts hold that are on one node."""
    for interval_id, *values, held_us, first_us, last_us in connection.execute(_sums(asked)):
        paid, (later_prices, _) = tuple(values[: len(PAID)]), values[len(PAID) :]
        if later_prices is None:
            yield (interval_id, tariffs.of(paid)), held_us
            continue
        since_us, of_prices = tariffs.at_each_price(paid, later_prices)
        spans = spans_of_prices(first_us, last_us, since_us)
        for tariff, (start_us, end_us) in zip(of_prices, spans, strict=True):
            yield (interval_id, tariff), end_us - start_us


def _on_several_nodes(
    connection: sa.Connection,
    intervals: Sequence[CapacityInterval],
    asked: CostQuestion,
    tariffs: Tariffs,
) -> Iterator[_Held]:
    """What gangs hold on each machine, attempt by attempt."""
    by_node, parts = _counted_us(intervals, asked), dict[tuple[Tariff, Fraction], Tariff]()
    a, now_us = attempts.c, epoch_us(asked.now)
    until = sa.func.coalesce(EpochUs(freed_at()), now_us)
    there = (a.host, a.node, sa.cast(a.shares, sa.String), EpochUs(a.admitted_at), until)
    statement = (
        sa.select(*PAID, *REPRICED, *there)
        .join_from(runs, attempts)
        .where(*overlapping(asked), has_a_place(), has_several_nodes())
    )
    for *values, later_prices, _, host, first, text, since_us, until_us in connection.execute(
        statement
    ):
        if since_us is None:
            continue  # it is no moment, and when it held anything is unknown
        paid = tuple(values)
        later_us, of_prices = tariffs.at_each_price(paid, later_prices)
        for node, part in parts_by_node(tariffs.shares(text), first).items():
            for interval_id, start_us, end_us in by_node[host, node]:
                spans = spans_of_prices(max(start_us, since_us), min(end_us, until_us), later_us)
                for tariff, (start, end) in zip(of_prices, spans, strict=True):
                    yield (interval_id, _part_of(tariff, part, parts)), end - start


def _part_of(
    tariff: Tariff, part: Fraction, known: dict[tuple[Tariff, Fraction], Tariff]
) -> Tariff:
    """The tariff of a part of what is held: one object for equal ones."""
    if part == 1:
        return tariff
    found = known.get((tariff, part))
    if found is None:
        found = known[tariff, part] = Tariff(tariff.unit.times(part))
    return found


def _counted_us(
    intervals: Sequence[CapacityInterval], asked: CostQuestion
) -> dict[tuple[str, str], list[tuple[str, int, int]]]:
    """The machines of each host and node: an interval's id, and which time of it counts."""
    by_node: dict[tuple[str, str], list[tuple[str, int, int]]] = defaultdict(list)
    for interval in intervals:
        counted = counted_in(interval, asked.window, asked.now)
        if counted is not None:
            span = epoch_us(counted.start), epoch_us(counted.end)
            by_node[interval.host, interval.node].append((interval.interval_id, *span))
    return by_node


def has_a_place() -> sa.ColumnElement[bool]:
    """The nodes of an attempt that another scheduler has still to place are only planned."""
    return sa.or_(attempts.c.bound_at.is_not(None), attempts.c.released_at.is_not(None))


def has_several_nodes() -> sa.ColumnElement[bool]:
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
    freed_us = sa.func.coalesce(EpochUs(freed_at()), end)
    return (
        sa.select(
            _c.interval_id,
            *PAID,
            *REPRICED,
            Greater(EpochUs(a.admitted_at), EpochUs(_c.since), start).label("first"),
            Lesser(freed_us, gone_us, end).label("last"),
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
            has_a_place(),
            ~has_several_nodes(),
            _c.since < min(asked.window.end, asked.now),
            sa.or_(_c.until.is_(None), _c.until > asked.window.start),
        )
        .cte("stays")
        .prefix_with("MATERIALIZED")
    )
