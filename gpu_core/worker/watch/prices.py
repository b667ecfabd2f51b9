"""The prices that attempts pay: those of the policy and of the catalog, as both change."""

import logging
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.catalog.offerings import Catalog
from gpu_core.decisions.costs.prices.planning_prices import with_prices_of_now
from gpu_core.decisions.costs.prices.price_book import MachinePrice, PriceBook, PricedCapacity
from gpu_core.decisions.model.cluster import Machine, Node, Placement
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.prices import Rates
from gpu_core.decisions.model.virtual_nodes import planned_kind
from gpu_core.decisions.policy.policy import Policy
from gpu_core.worker.operations.threads import in_thread
from gpu_core.worker.watch.price_sheet import PriceSheetFile

_log = logging.getLogger("prefect.gpu.prices")

_REFRESH_S = 60


class _Version(NamedTuple):
    """The inputs of prices."""

    policy: Policy
    sheet: Catalog
    refreshed_at: datetime | None

    def is_same(self, other: "_Version") -> bool:
        """Are they the same objects? Faster than a comparison of what they hold."""
        return (
            self.policy is other.policy
            and self.sheet is other.sheet
            and self.refreshed_at == other.refreshed_at
        )


class Prices:
    """The price book of one worker, and the machines of its nodes.

    Args:
        ledger: Where `refresh-catalog` keeps the catalog.
        sheet: Your own price sheet, which counts before the catalog; None: there is none.
    """

    def __init__(self, ledger: Ledger, sheet: Path | None = None) -> None:
        self._ledger = ledger
        self._sheet = PriceSheetFile(sheet)
        self._catalog = Catalog()
        self._refreshed_at: datetime | None = None
        self._read_at: datetime | None = None
        self._capacity: dict[str, PricedCapacity] = {}
        self._applied: _Version | None = None
        # Machines of one kind have one price, until the policy or the catalog changes.
        self._machine_prices: dict[tuple[object, ...], MachinePrice | None] = {}
        self._machines_by: _Version | None = None

    async def refresh(self, nodes: Iterable[Node], now: datetime) -> None:
        """Keep the machines of these nodes, and the catalog if another one was written."""
        self._capacity = {node.name: PricedCapacity.of_node(node) for node in nodes}
        if self._read_at is not None and (now - self._read_at).total_seconds() < _REFRESH_S:
            return
        await in_thread(self._sheet.refresh)
        refreshed_at = await in_thread(self._ledger.catalog_refreshed_at)
        if refreshed_at != self._refreshed_at:
            try:
                self._catalog = await in_thread(self._ledger.catalog)
            except InvalidInput as error:
                _log.error("Failed to load catalog from the ledger: %s", error)
        # A ledger that was unavailable is asked again in the next cycle.
        self._read_at, self._refreshed_at = now, refreshed_at

    def are_new(self, policy: Policy) -> bool:
        """May a price differ from what running attempts were last priced with?"""
        return self._version(policy) != self._applied

    def note_applied(self, policy: Policy) -> None:
        """All running attempts have the prices of now."""
        self._applied = self._version(policy)

    def _version(self, policy: Policy) -> "_Version":
        return _Version(policy, self._sheet.catalog, self._refreshed_at)

    def knows(self, node: str) -> bool:
        """Is it known which machine this node is?"""
        return node in self._capacity

    def book(self, policy: Policy) -> PriceBook:
        """The current source of prices."""
        return PriceBook(policy=policy, sheet=self._sheet.catalog, catalog=self._catalog)

    def planned_with(self, policy: Policy, nodes: Iterable[Node], now: datetime) -> Policy:
        """The policy with the prices of now: those that runs on these nodes pay."""

        def price_of(node: Node, machine: Machine) -> MachinePrice | None:
            return self.of_machine(node, machine, policy, now)

        return with_prices_of_now(policy, nodes, price_of)

    def of_machine(
        self, node: Node, machine: Machine, policy: Policy, now: datetime
    ) -> MachinePrice | None:
        """The price of a node's machine for an hour; None: unpriced."""
        by = self._version(policy)
        if self._machines_by is None or not by.is_same(self._machines_by):
            self._machine_prices, self._machines_by = {}, by
        capacity = self._capacity.get(node.name) or PricedCapacity.of_node(node)
        key = capacity, machine.gpus, machine.cpu_milli, machine.memory_mib
        if key not in self._machine_prices:
            self._machine_prices[key] = self.book(policy).machine_price(capacity, machine, now)
        return self._machine_prices[key]

    def rates(
        self, placement: Placement, policy: Policy, now: datetime, seen: Node | None = None
    ) -> Rates | None:
        """The rates of an attempt with this placement for an hour; None: unpriced.

        Args:
            seen: The first of its nodes, which may be gone by now; None: as it is now.
        """
        if any(planned_kind(share.node) is not None for share in placement.shares):
            return NOT_THERE_YET
        fallback = PricedCapacity(
            gpu_type=placement.gpu_type, capacity_type=placement.capacity_type
        )
        if seen is not None:
            return self.book(policy).rates(PricedCapacity.of_node(seen), now)
        node = placement.shares[0].node if placement.shares else None
        capacity = fallback if node is None else self._capacity.get(node, fallback)
        return self.book(policy).rates(capacity, now)


NOT_THERE_YET = Rates(gpu_micro_usd_per_hour=0, source="a node that has not joined has no cost")
NOT_PLACED = Rates(
    gpu_micro_usd_per_hour=0, source="a run that no scheduler has placed costs nothing"
)
SOURCES_OF_NOTHING_YET = (NOT_THERE_YET.source, NOT_PLACED.source)
