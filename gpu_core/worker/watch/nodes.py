"""The nodes of a pool, and what is held on them, as they were seen last."""

from datetime import UTC, datetime

from gpu_core.decisions.model.cluster import Allocation, Node
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.spot.node_avoidance import zone_of
from gpu_core.worker.attempts.binder import Binder
from gpu_core.worker.attempts.registry import AttemptRegistry
from gpu_core.worker.attempts.run_faults import RunFaults, by_run
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.infrastructure import Infrastructure
from gpu_core.worker.pending.forecasts import Forecasts
from gpu_core.worker.watch.capacity import CapacityWatch
from gpu_core.worker.watch.policy import PolicySource
from gpu_core.worker.watch.prices import Prices

_MOST_DESCRIBED = 8


class PoolNodes:
    """Observes the nodes of one pool, with their prices, for the ledger and for the next plan.

    Args:
        infrastructure: Where attempts run.
        attempts: The open attempts.
        binder: Binds attempts to the nodes where they are.
        faults: Keeps the fault of one run from the others.
        policies: The policy in force.
        forecasts: Learns how many GPUs there are.
        prices: What the nodes cost.
        capacity: Records the machines in the ledger.
    """

    def __init__(
        self,
        *,
        infrastructure: Infrastructure,
        attempts: AttemptRegistry,
        binder: Binder,
        faults: RunFaults,
        policies: PolicySource,
        forecasts: Forecasts,
        prices: Prices,
        capacity: CapacityWatch,
    ) -> None:
        self._infrastructure = infrastructure
        self._attempts = attempts
        self._binder = binder
        self._faults = faults
        self._policies = policies
        self._forecasts = forecasts
        self._prices = prices
        self._capacity = capacity
        self.seen: tuple[Node, ...] = ()
        """Without those on which it is unknown what an attempt holds; empty before the first look.
        """

    @property
    def is_complete(self) -> bool:
        """Are these all nodes that the pool will ever have? None: the driver is at fault."""
        return self._infrastructure.is_fixed and bool(self.seen)

    def zones(self) -> dict[str, str | None]:
        """The zone of each node; None: it states none."""
        return {node.name: zone_of(node) for node in self.seen}

    def describe(self) -> str:
        """Which GPUs does the pool have? In one line."""
        offers = [
            f"{len(node.gpu_ids)} × {node.gpu_type} on {node.name}"
            for node in self.seen[:_MOST_DESCRIBED]
        ]
        more = len(self.seen) - len(offers)
        if more:
            offers.append(f"{more} more nodes")
        return ", ".join(offers) or "no GPUs: none were found or declared in the policy"

    async def observe(self, policy: Policy) -> tuple[Allocation, ...]:
        """Refresh the nodes and what is held on them, and note which attempts were bound."""
        allocations = await self._refresh(policy)
        if await self._binder.bind(policy):
            allocations = await self._refresh(policy)
        return allocations

    async def bind_ended(self, running: AttemptState) -> None:
        """Before its pods go: it may have ended before a cycle saw where it is.

        So may those that were there with it, and a worker that has just started knows no nodes yet.
        """
        with self._faults.of_run(running, "put on its nodes"):
            policy = self._policies.current()
            if not self.seen:
                await self._refresh(policy)
            await self._binder.bind(policy)

    async def _refresh(self, policy: Policy) -> tuple[Allocation, ...]:
        holding = self._attempts.holding()
        await self._faults.one_by_one(
            holding, by_run, self._infrastructure.refresh, "asked for its checkpoints"
        )
        allocations = self._infrastructure.allocations(holding, policy)
        nodes = await self._infrastructure.observe(policy, allocations)
        # Of an attempt whose record was damaged it is unknown which of the GPUs it holds.
        unknown = {r.attempt.node for r in holding if r.attempt.gpu_type and not r.attempt.held}
        self.seen = tuple(node for node in nodes if node.name not in unknown)
        self._forecasts.observe(self.seen)
        now = datetime.now(UTC)
        await self._prices.refresh(self.seen, now)
        await self._attempts.reprice(policy, now)
        await self._capacity.observe(nodes, policy, now)
        return allocations
