"""Records the machines that this worker sees, with their prices, in the ledger."""

import logging
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import uuid4

from gpu_core.adapters.ledger import Ledger, is_ledger_outage
from gpu_core.adapters.ledger.spool import SpooledRecord
from gpu_core.decisions.costs.capacity.capacity_intervals import (
    SEEN_EVERY,
    CapacityChanges,
    CapacityInterval,
    Sighting,
    capacity_changes,
)
from gpu_core.decisions.model.cluster import Node
from gpu_core.decisions.policy.policy import Policy
from gpu_core.worker.operations.threads import in_thread
from gpu_core.worker.operations.throttle import LastSaid
from gpu_core.worker.watch.prices import Prices
from gpu_core.worker.watch.spooled_writes import SpooledWrites

_log = logging.getLogger("prefect.gpu.ledger")


class CapacityWatch:
    """The intervals of one host's machines, kept in the ledger.

    A cycle in which nothing changed writes nothing. Once a minute the machines that are there are
    noted as seen, and what another pool's worker wrote down is read.

    Args:
        ledger: Where the intervals are.
        host: Whose machines they are: this machine, or this cluster.
        pool: Of this worker.
        prices: What machines cost.
        writes: Keeps new records while the ledger is unavailable.
    """

    def __init__(
        self, ledger: Ledger, host: str, pool: str, prices: Prices, writes: SpooledWrites
    ) -> None:
        self._writes = writes
        self._ledger = ledger
        self._host = host
        self._pool = pool
        self._prices = prices
        self._known: dict[str, CapacityInterval] = {}
        self._last_look: datetime | None = None
        self._noted_at: datetime | None = None
        self._seen: set[str] = set()
        self._failure = LastSaid()

    async def observe(self, nodes: Iterable[Node], policy: Policy, now: datetime) -> None:
        """Write down what came, went or has another price.

        Records of machines decide nothing: one that cannot be read stops no cycle.
        """
        try:
            await self._observe(nodes, policy, now)
        except Exception as error:
            if is_ledger_outage(error):
                raise
            if self._failure.is_news(repr(error)):
                _log.exception(
                    "Failed to record the machines of %s. Runs are not affected", self._host
                )
        else:
            self._failure.forget()

    async def _observe(self, nodes: Iterable[Node], policy: Policy, now: datetime) -> None:
        is_due = self._noted_at is None or not timedelta(0) <= now - self._noted_at < SEEN_EVERY
        if is_due:
            await self._read()
        changes = capacity_changes(
            self._known,
            self._sightings(nodes, policy, now),
            host=self._host,
            pool=self._pool,
            last_look=self._last_look,
            now=now,
            new_id=lambda: str(uuid4()),
        )
        self._last_look = now
        if is_due or changes:
            await self._write(changes, now)

    async def _read(self) -> None:
        is_first = self._noted_at is None
        if self._writes.is_behind and not is_first:
            return  # the ledger lacks what waits
        try:
            await self._writes.replay()
            known = await in_thread(self._ledger.known_capacity, self._host)
        except Exception as error:
            if is_first or not is_ledger_outage(error):
                raise
            return
        self._known = dict(known.by_node)
        if self._last_look is None:
            self._last_look = known.last_look

    async def _write(self, changes: CapacityChanges, now: datetime) -> None:
        known = self._known | {i.node: i for i in (*changes.ended, *changes.begun)}
        begun = {interval.interval_id for interval in changes.begun}
        there = [i for i in known.values() if i.until is None and i.node in self._seen]
        seen = [i.interval_id for i in there if i.interval_id not in begun]
        await self._writes.write(SpooledRecord(changes=changes, seen=tuple(seen), seen_at=now))
        self._known = known | {i.node: replace(i, seen_at=now) for i in there}
        self._noted_at = now

    def _sightings(self, nodes: Iterable[Node], policy: Policy, now: datetime) -> list[Sighting]:
        """The machines of these nodes, without nodes that are to come."""
        found: list[Sighting] = [
            (node, node.machine, self._prices.of_machine(node, node.machine, policy, now))
            for node in nodes
            if node.machine is not None and not node.is_planned
        ]
        self._seen = {node.name for node, _, _ in found}
        return found
