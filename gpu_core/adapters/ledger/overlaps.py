"""Attempts that hold more than the whole of a GPU together, as the clocks of workers differed."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import sqlalchemy as sa

from gpu_core.adapters.ledger.cost_slices import CostQuestion, freed_at, overlapping
from gpu_core.adapters.ledger.engine import chunks
from gpu_core.adapters.ledger.held_capacity import has_a_place, has_several_nodes
from gpu_core.adapters.ledger.rows import UNREADABLE, attempt_of, read_rows
from gpu_core.adapters.ledger.schema import attempts, runs
from gpu_core.adapters.ledger.sql_functions import EpochUs
from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityInterval
from gpu_core.decisions.costs.capacity.idle import counted_in
from gpu_core.decisions.costs.capacity.overlap import twice_on
from gpu_core.decisions.costs.usage.usage import Usage
from gpu_core.decisions.model.attempts import Attempt, held_gpus
from gpu_core.decisions.model.units import epoch_us

_c = attempts.c
_MOST_KNOWN = 10_000
_WHOLE = Fraction(1)


def read_held_twice(
    connection: sa.Connection, intervals: Sequence[CapacityInterval], asked: CostQuestion
) -> dict[str, Usage]:
    """What do attempts hold of each machine beyond the whole of a GPU? By the interval's id.

    Only attempts that do are read whole: where clocks agree there are none.
    """
    of_all = replace(asked, pool=None)
    by_node: dict[tuple[str, str], list[Attempt]] = defaultdict(list)
    for ids in chunks(sorted(_beyond_their_gpus(connection, of_all))):
        statement = sa.select(attempts).where(_c.attempt_id.in_(ids))
        for attempt in map(attempt_of, read_rows(connection, statement, (attempts,), set())):
            for node in {share.node for share in attempt.held}:
                by_node[attempt.host, node].append(attempt)
    found = {}
    for interval in intervals:
        there = by_node.get((interval.host, interval.node))
        counted = counted_in(interval, asked.window, asked.now) if there else None
        if there and counted is not None:
            found[interval.interval_id] = twice_on(interval, there, counted, asked.now)
    return found


class _OnGpu(NamedTuple):
    """An attempt that holds a part of a GPU until a moment."""

    end_us: int
    part: Fraction
    attempt_id: str


def _beyond_their_gpus(connection: sa.Connection, asked: CostQuestion) -> set[str]:
    """The attempts on a GPU while the parts of all attempts on it are more than the GPU."""
    there: dict[tuple[str, str, str], list[_OnGpu]] = defaultdict(list)
    found: set[str] = set()
    for attempt_id, host, start_us, end_us, *place in connection.execute(_stays(asked)):
        if start_us is None or start_us >= end_us:
            continue
        for node, gpu_id, part in _gpus(*place):
            on_gpu = there[host, node, gpu_id]
            if on_gpu:
                on_gpu[:] = [each for each in on_gpu if each.end_us > start_us]
            on_gpu.append(_OnGpu(end_us, part, attempt_id))
            if len(on_gpu) > 1 and sum(each.part for each in on_gpu) > 1:
                found.update(each.attempt_id for each in on_gpu)
    return found


def _stays(asked: CostQuestion) -> sa.Select[Any]:
    """When which GPUs are held, in the order of time."""
    end = sa.func.coalesce(EpochUs(freed_at()), epoch_us(asked.now))
    # One node's GPUs are read in less time than what is held of them on each node.
    is_asked = sa.or_(has_several_nodes(), _c.gpu_quantity.is_(None))
    shares = sa.case((is_asked, sa.cast(_c.shares, sa.String)))
    return (
        sa.select(
            _c.attempt_id,
            _c.host,
            EpochUs(_c.admitted_at),
            end,
            _c.node,
            sa.cast(_c.gpu_ids, sa.String),
            sa.type_coerce(_c.gpu_quantity, sa.String),
            shares,
        )
        .join_from(runs, attempts)
        .where(*overlapping(asked), has_a_place())
        .order_by(_c.admitted_at)
    )


def _gpus(
    node: str, gpu_ids: str, quantity: str | None, shares: str | None
) -> Iterator[tuple[str, str, Fraction]]:
    """On which node is each GPU of an attempt, and which part of it is held?"""
    if shares is not None:
        return iter(_of_shares(shares, quantity))
    ids, part = _of_one_node(gpu_ids, quantity)
    return ((node, gpu_id, part) for gpu_id in ids)


@lru_cache(maxsize=_MOST_KNOWN)
def _of_shares(text: str, quantity: str | None) -> Sequence[tuple[str, str, Fraction]]:
    try:
        held = _c.shares.type.process_result_value(json.loads(text), None)  # type: ignore[attr-defined]  # a decorator of ours
        scale = Fraction(1) if quantity is None else Fraction(quantity) / held_gpus(held)
    except UNREADABLE:  # the sums of what is held name it
        return ()
    parts = ((each, min(_WHOLE, scale * each.part_of_gpu)) for each in held)
    return [(each.node, gpu_id, part) for each, part in parts for gpu_id in each.gpu_ids]


@lru_cache(maxsize=_MOST_KNOWN)
def _of_one_node(gpu_ids: str, quantity: str | None) -> tuple[Sequence[str], Fraction]:
    try:
        ids = _c.gpu_ids.type.process_result_value(json.loads(gpu_ids), None)  # type: ignore[attr-defined]  # a decorator of ours
        part = _WHOLE if quantity is None else Fraction(quantity) / len(ids)
    except UNREADABLE:
        return (), Fraction(0)
    return ids, min(_WHOLE, part)
