"""Attempts that hold more than the whole of a GPU together, as the clocks of workers differed."""

import json
from collections import defaultdict
from collections.abc import Collection, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import sqlalchemy as sa

from gpu_core.adapters.ledger.cost_slices import CostQuestion
from gpu_core.adapters.ledger.engine import chunks
from gpu_core.adapters.ledger.rows import UNREADABLE, attempt_of, read_rows
from gpu_core.adapters.ledger.schema import attempts
from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityInterval
from gpu_core.decisions.costs.capacity.idle import counted_in
from gpu_core.decisions.costs.capacity.overlap import twice_on
from gpu_core.decisions.costs.usage.usage import Usage
from gpu_core.decisions.model.attempts import Attempt
from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI

_c = attempts.c
_WHOLE = Fraction(1)


def read_held_twice(
    connection: sa.Connection,
    intervals: Sequence[CapacityInterval],
    asked: CostQuestion,
    attempt_ids: Collection[str],
) -> dict[str, Usage]:
    """What do these attempts hold of each machine beyond the whole of a GPU? By interval's id.

    Args:
        attempt_ids: Those of `GpuHolders`. Only they are read whole.
    """
    by_node: dict[tuple[str, str], list[Attempt]] = defaultdict(list)
    for ids in chunks(sorted(attempt_ids)):
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


class _Holder(NamedTuple):
    """An attempt that holds a part of a GPU from one moment to another."""

    start_us: int
    end_us: int
    part: Fraction
    attempt_id: str


class GpuHolders:
    """Finds the attempts on a GPU while the parts of all attempts on it are more than the GPU.

    Where the clocks of workers agree there are none.
    """

    def __init__(self) -> None:
        self._there: dict[tuple[str, str, str], list[_Holder]] = defaultdict(list)
        self._of_one_node: dict[tuple[str, str | None], tuple[Sequence[str], Fraction]] = {}

    def add(
        self,
        attempt_id: str,
        host: str,
        node: str,
        gpu_ids: str,
        quantity: str | None,
        held: Sequence[NodeShare] | None,
        start_us: int,
        end_us: int,
    ) -> None:
        """Take note of an attempt.

        Args:
            gpu_ids: The column's text.
            quantity: The GPUs that it holds, as text; None: unknown.
            held: Its GPUs on each node; None: it is on `node` alone.
            start_us: When it was admitted, in microseconds since 1970.
            end_us: When its GPUs were free.
        """
        if start_us >= end_us:
            return
        if held is not None:
            for share, part in zip(held, _of_shares(held, quantity), strict=False):
                holder = _Holder(start_us, end_us, part, attempt_id)
                self._hold(host, share.node, share.gpu_ids, holder)
            return
        known = self._of_one_node.get((gpu_ids, quantity))
        if known is None:
            known = self._of_one_node[gpu_ids, quantity] = _of_one_node(gpu_ids, quantity)
        ids, part = known
        self._hold(host, node, ids, _Holder(start_us, end_us, part, attempt_id))

    def _hold(self, host: str, node: str, gpu_ids: Sequence[str], holder: _Holder) -> None:
        for gpu_id in gpu_ids:
            self._there[host, node, gpu_id].append(holder)

    def beyond_their_gpus(self) -> set[str]:
        """The ids of these attempts."""
        found: set[str] = set()
        for holders in self._there.values():
            on_gpu, free_us = list[_Holder](), 0
            for holder in sorted(holders):
                if holder.start_us >= free_us:  # so it is almost always
                    on_gpu, free_us = [holder], holder.end_us
                    continue
                on_gpu = [each for each in on_gpu if each.end_us > holder.start_us]
                on_gpu.append(holder)
                free_us = max(free_us, holder.end_us)
                if sum(each.part for each in on_gpu) > 1:
                    found.update(each.attempt_id for each in on_gpu)
        return found


def _of_shares(held: Sequence[NodeShare], quantity: str | None) -> Sequence[Fraction]:
    """The part of each GPU that is held on each node; nothing where it cannot be read."""
    amounts = tuple((len(s.gpu_ids), s.share_milli, s.exact_part) for s in held)
    return _parts_of_gpus(amounts, quantity)


@lru_cache(maxsize=256)
def _parts_of_gpus(
    shares: tuple[tuple[int, int, tuple[int, int] | None], ...], quantity: str | None
) -> Sequence[Fraction]:
    try:
        parts = [Fraction(*(exact or (milli, WHOLE_GPU_MILLI))) for _, milli, exact in shares]
        counted = sum(count * part for (count, *_), part in zip(shares, parts, strict=True))
        scale = _WHOLE if quantity is None else Fraction(quantity) / counted
    except UNREADABLE:  # the sums of what is held name it
        return ()
    return tuple(min(_WHOLE, scale * part) for part in parts)


def _of_one_node(gpu_ids: str, quantity: str | None) -> tuple[Sequence[str], Fraction]:
    try:
        ids = _c.gpu_ids.type.process_result_value(json.loads(gpu_ids), None)  # type: ignore[attr-defined]  # a decorator of ours
        part = _WHOLE if quantity is None else Fraction(quantity) / len(ids)
    except UNREADABLE:
        return (), _WHOLE
    return ids, min(_WHOLE, part)
