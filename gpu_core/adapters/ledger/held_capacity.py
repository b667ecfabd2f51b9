"""What runs held on each machine: read attempt by attempt, in few columns.

A join of attempts with intervals takes a database longer than this takes here, and does not find
who shares a GPU.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import sqlalchemy as sa

from gpu_core.adapters.ledger.cost_slices import CostQuestion, StatementShape, freed_at, overlapping
from gpu_core.adapters.ledger.overlaps import GpuHolders, read_held_twice
from gpu_core.adapters.ledger.paid import PAID, REPRICED, Tariffs
from gpu_core.adapters.ledger.schema import attempts, runs
from gpu_core.adapters.ledger.sql_functions import EpochUs
from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityInterval
from gpu_core.decisions.costs.capacity.idle import counted_in, parts_by_node
from gpu_core.decisions.costs.usage.scale import Scale
from gpu_core.decisions.costs.usage.time_use import Tariff, spans_of_prices
from gpu_core.decisions.costs.usage.usage import Usage
from gpu_core.decisions.model.units import epoch_us

_c = attempts.c
_ROWS_PER_PAGE = 10_000
_PAID = slice(len(PAID))


class HeldCapacity(NamedTuple):
    """What runs held on machines, by the interval's id."""

    held: Mapping[str, Usage]
    twice: Mapping[str, Usage]
    """The part of it that is beyond the whole of a GPU: see `twice_on`."""


def read_held(
    connection: sa.Connection, intervals: Sequence[CapacityInterval], asked: CostQuestion
) -> HeldCapacity:
    """What did runs hold on each of these machines in the window?

    Runs of all pools count, as they share machines.
    """
    of_all = replace(asked, pool=None)
    sums, holders = _Sums(_counted_us(intervals, of_all)), GpuHolders()
    for row in _rows(connection, of_all):
        attempt_id, host, node, gpu_ids, shares, start_us, end_us = row[_PAID.stop + 1 :]
        if start_us is None:
            continue  # it is no moment, and when it held anything is unknown
        stay = _Stay(row[_PAID], row[_PAID.stop], host, start_us, end_us)
        held = None if shares is None else sums.tariffs.shares(shares)
        if held is None:
            sums.add(stay, node)
        else:
            for each, part in parts_by_node(held, node).items():
                sums.add(stay, each, part)
        holders.add(attempt_id, host, node, gpu_ids, row[0], held, start_us, end_us)
    return HeldCapacity(
        held=sums.usage(),
        twice=read_held_twice(connection, intervals, of_all, holders.beyond_their_gpus()),
    )


class _Stay(NamedTuple):
    """What an attempt held, from when to when."""

    paid: tuple[Any, ...]
    """The values of `PAID`."""
    later_prices: str | None
    host: str
    start_us: int
    end_us: int


_WHOLE = Fraction(1)


class _Sums:
    """The time of each tariff on each machine.

    Args:
        by_node: The machines of each host and node: an interval's id, and which time of it counts.
    """

    def __init__(self, by_node: Mapping[tuple[str, str], Sequence[tuple[str, int, int]]]) -> None:
        self.tariffs = Tariffs()
        self._by_node = by_node
        self._parts: dict[tuple[Tariff, Fraction], Tariff] = {}
        self._held_us: dict[tuple[str, Tariff], int] = defaultdict(int)

    def add(self, stay: _Stay, node: str, part: Fraction = _WHOLE) -> None:
        """Add a part of what an attempt held to the machines that had this name then."""
        paid, later_prices, host, since_us, until_us = stay
        for interval_id, first_us, last_us in self._by_node.get((host, node), ()):
            start_us, end_us = max(first_us, since_us), min(last_us, until_us)
            if start_us >= end_us:
                continue
            if later_prices is None:
                tariff = self._part_of(self.tariffs.of(paid), part)
                self._held_us[interval_id, tariff] += end_us - start_us
                continue
            later_us, of_prices = self.tariffs.at_each_price(paid, later_prices)
            spans = spans_of_prices(start_us, end_us, later_us)
            for whole, (start, end) in zip(of_prices, spans, strict=True):
                self._held_us[interval_id, self._part_of(whole, part)] += end - start

    def usage(self) -> dict[str, Usage]:
        """The sum for each machine on which something was held."""
        found: dict[str, list[tuple[Tariff, int]]] = defaultdict(list)
        for (interval_id, tariff), us in self._held_us.items():
            found[interval_id].append((tariff, us))
        scale = Scale(tariff for _, tariff in self._held_us)
        return {interval_id: scale.usage(used) for interval_id, used in found.items()}

    def _part_of(self, tariff: Tariff, part: Fraction) -> Tariff:
        """The tariff of a part of what is held: one object for equal ones."""
        if part is _WHOLE or part == 1:
            return tariff
        found = self._parts.get((tariff, part))
        if found is None:
            found = self._parts[tariff, part] = Tariff(tariff.unit.times(part))
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


def _rows(connection: sa.Connection, asked: CostQuestion) -> Iterator[tuple[Any, ...]]:
    """What attempts pay for, where and when."""
    until = sa.func.coalesce(EpochUs(freed_at()), epoch_us(asked.now))
    # What is held on one node is known without what is held of each GPU, which is long to read.
    is_asked = sa.or_(_has_several_nodes(), _c.gpu_quantity.is_(None))
    shares = sa.case((is_asked, sa.cast(_c.shares, sa.String)))
    place = (_c.attempt_id, _c.host, _c.node, sa.cast(_c.gpu_ids, sa.String), shares)
    # The nodes of an attempt that another scheduler has still to place are only planned.
    has_a_place = sa.or_(_c.bound_at.is_not(None), _c.released_at.is_not(None))
    statement = (
        sa.select(*PAID, REPRICED[0], *place, EpochUs(_c.admitted_at), until)
        .join_from(runs, attempts)
        .where(has_a_place)
    )
    found = connection.execute(overlapping(statement, StatementShape.of(asked)), asked.values)
    for page in found.partitions(_ROWS_PER_PAGE):
        yield from map(tuple, page)


def _has_several_nodes() -> sa.ColumnElement[bool]:
    # As text: what is no JSON any more must not fail the whole report.
    text = sa.cast(_c.shares, sa.String)
    return sa.func.coalesce(text.like('%"node"%"node"%'), sa.false())
