"""What runs held on each machine: summed by the database for attempts on one node at one price."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from gpu_core.adapters.ledger.cost_slices import (
    PAID,
    CostQuestion,
    is_apart,
    overlapping,
    tariff_of,
)
from gpu_core.adapters.ledger.rows import attempt_of, read_rows
from gpu_core.adapters.ledger.schema import attempts, capacity_intervals, runs
from gpu_core.decisions.costs.capacity_intervals import WATCHED, CapacityInterval
from gpu_core.decisions.costs.idle import counted_in, held_on
from gpu_core.decisions.costs.usage import Usage, sum_usage
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
    for interval_id, *paid, held_us in connection.execute(_sums(of_all)):
        found[interval_id].append(tariff_of(paid).usage(int(held_us)))
    by_host = defaultdict(list)
    for interval in intervals:
        by_host[interval.host].append(interval)
    statement = (
        sa.select(attempts)
        .join_from(runs, attempts)
        .where(*overlapping(of_all), _has_a_place(), sa.or_(is_apart(), _has_several_nodes()))
    )
    for row in read_rows(connection, statement, (attempts,), set()):
        attempt = attempt_of(row)
        nodes = {share.node for share in attempt.held} or {attempt.node}
        for interval in by_host[attempt.host]:
            counted = counted_in(interval, asked.window, asked.now)
            if counted is not None and interval.node in nodes:
                usage = held_on(attempt, interval.node, counted, asked.now)
                found[interval.interval_id].append(usage)
    return {interval_id: sum_usage(parts) for interval_id, parts in found.items()}


def _has_a_place() -> sa.ColumnElement[bool]:
    """The nodes of an attempt that another scheduler has still to place are only planned."""
    return sa.or_(attempts.c.bound_at.is_not(None), attempts.c.released_at.is_not(None))


def _has_several_nodes() -> sa.ColumnElement[bool]:
    # As text: what is no JSON any more must not fail the whole report.
    text = sa.cast(attempts.c.shares, sa.String)
    return sa.func.coalesce(text.like('%"node"%"node"%'), sa.false())


def _sums(asked: CostQuestion) -> sa.Select[Any]:
    now = epoch_us(asked.now)
    start, end = epoch_us(asked.window.start), min(epoch_us(asked.window.end), now)
    seen_us = sa.func.epoch_us(_c.seen_at)
    watched_us = int(WATCHED.total_seconds()) * 1_000_000
    gone_us = sa.func.coalesce(
        sa.func.epoch_us(_c.until), sa.case((now - seen_us <= watched_us, now), else_=seen_us)
    )
    first = _greatest(sa.func.epoch_us(attempts.c.admitted_at), sa.func.epoch_us(_c.since), start)
    released_us = sa.func.coalesce(sa.func.epoch_us(attempts.c.released_at), end)
    last = _least(released_us, gone_us, end)
    held_us = sa.func.sum(sa.case((last > first, last - first), else_=0))
    return (
        sa.select(_c.interval_id, *PAID, sa.cast(held_us, sa.BigInteger))
        .join_from(runs, attempts)
        .join(
            capacity_intervals,
            sa.and_(
                _c.host == attempts.c.host,
                _c.node == attempts.c.node,
                # Moments as they are kept are compared before any is made a number.
                attempts.c.admitted_at < sa.func.coalesce(_c.until, asked.now),
                sa.or_(attempts.c.released_at.is_(None), attempts.c.released_at > _c.since),
            ),
        )
        .where(
            *overlapping(asked),
            _has_a_place(),
            ~is_apart(),
            ~_has_several_nodes(),
            _c.since < min(asked.window.end, asked.now),
            sa.or_(_c.until.is_(None), _c.until > asked.window.start),
        )
        .group_by(_c.interval_id, *PAID)
    )


def _greatest(*values: Any) -> Any:
    greatest = values[0]
    for value in values[1:]:
        greatest = sa.case((greatest > value, greatest), else_=value)
    return greatest


def _least(*values: Any) -> Any:
    least = values[0]
    for value in values[1:]:
        least = sa.case((least < value, least), else_=value)
    return least
