"""Which running attempts must stop? All reasons but preemption, one after the other."""

from collections.abc import Sequence
from datetime import datetime

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.cluster import Allocation, Node
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.spot.capacity_view import CapacityView
from gpu_core.worker.attempts.registry import AttemptRegistry
from gpu_core.worker.attempts.running_poll import RunningPoll
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.attempts.terminator import Terminator
from gpu_core.worker.pending.history import History
from gpu_core.worker.watch.budgets import BudgetWatch
from gpu_core.worker.watch.hung_runs import HangWatch
from gpu_core.worker.watch.idle_runs import IdleWatch
from gpu_core.worker.watch.migration import MigrationWatch


class RunningStops:
    """Stops the attempts of one pool that were cancelled, are over a limit, or cannot work.

    Args:
        ledger: The earlier attempts of what runs.
        attempts: What runs.
        terminator: Stops them.
        running_poll: Polls which runs have started.
        budgets: The budgets of runs, teams and users.
        history: The usage so far, and what capacity there is.
        idle: Which runs leave their GPUs idle.
        hangs: Which runs are hung.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        attempts: AttemptRegistry,
        terminator: Terminator,
        running_poll: RunningPoll,
        budgets: BudgetWatch,
        history: History,
        idle: IdleWatch,
        hangs: HangWatch,
    ) -> None:
        self._attempts = attempts
        self._terminator = terminator
        self._running_poll = running_poll
        self._budgets = budgets
        self._history = history
        self._idle = idle
        self._hangs = hangs
        self._migrations = MigrationWatch(ledger, attempts)

    async def stop_due(self, policy: Policy, now: datetime) -> None:
        """Stop what was cancelled, what is over a limit, and what cannot work where it is."""
        await self._terminator.stop_cancelled(now)
        await self._running_poll.poll(self._attempts, now)
        await self._terminator.stop_overdue(policy, now)
        for running, used in await self._budgets.overspent(policy, now):
            why = f"{used.reason}. To resume from the latest checkpoint, increase budget_usd."
            await self._stop(running, EndReason.BUDGET_SPENT, why, policy, now)
        for running, why in self._budgets.held(policy, self._history.usage(now), now):
            await self._stop(running, EndReason.BUDGET_HELD, why, policy, now)
        await self._terminator.stop_troubled(policy, now)
        # After that: what hangs on a GPU that has failed is not charged.
        for running, why in await self._idle.idle(policy.idle, now):
            await self._stop(running, EndReason.IDLE, why, policy, now)
        for running, why in await self._hangs.hanging(policy.hangs, now):
            await self._stop(running, EndReason.HUNG, why, policy, now)

    async def migrate(
        self,
        nodes: Sequence[Node],
        allocations: tuple[Allocation, ...],
        policy: Policy,
        now: datetime,
    ) -> None:
        """Stop runs that should move to other capacity.

        Args:
            nodes: Of the pool.
            allocations: What is held on them.
            policy: With the prices that runs pay now.
            now: Aware.
        """

        def view() -> CapacityView:
            self._history.learn_restarts(self._attempts, policy)
            return self._history.capacity_view(nodes, allocations, policy, now)

        for running, decision in await self._migrations.due(view, now):
            why = f"Moving to other capacity: {decision.reason}."
            await self._stop(running, EndReason.PREEMPTED, why, policy, now, doing="moved")

    async def _stop(
        self,
        running: AttemptState,
        reason: EndReason,
        why: str,
        policy: Policy,
        now: datetime,
        *,
        doing: str = "ended",
    ) -> None:
        with self._attempts.faults.of_run(running, doing, now):
            await self._terminator.stop(running, reason, why, policy, now)
