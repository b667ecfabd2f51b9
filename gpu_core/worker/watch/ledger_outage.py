"""What a worker records while the ledger is away: it waits on disk, and nothing is decided."""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

import anyio

from gpu_core.decisions.policy.policy import Policy
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.infrastructure import Infrastructure
from gpu_core.worker.watch.capacity import CapacityWatch
from gpu_core.worker.watch.decision_log import DecisionLog
from gpu_core.worker.watch.gpu_history import GpuHistory

_log = logging.getLogger("prefect.gpu.scheduler")


class LedgerOutage:
    """Records what happens without a decision: machines come and go, and their GPUs work.

    Args:
        infrastructure: The machines.
        capacity: Since when they are there.
        decisions: Decisions that are not written yet.
        gpu_history: What the GPUs did.
    """

    def __init__(
        self,
        infrastructure: Infrastructure,
        capacity: CapacityWatch,
        decisions: DecisionLog,
        gpu_history: GpuHistory,
    ) -> None:
        self._infrastructure = infrastructure
        self._capacity = capacity
        self._decisions = decisions
        self._gpu_history = gpu_history

    async def note(self, holding: Sequence[AttemptState], policy: Policy) -> None:
        """Record once what is there now. A failure is logged: the outage itself is raised."""
        try:
            allocations = self._infrastructure.allocations(holding, policy)
            nodes = await self._infrastructure.observe(policy, allocations)
            await self._capacity.observe(nodes, policy, datetime.now(UTC))
            await self._decisions.flush()
            days, now = policy.telemetry.history_days, datetime.now(UTC)
            await self._gpu_history.write(days, now, anyio.current_time())
        except Exception:
            _log.exception("Events during the ledger outage are not recorded")
