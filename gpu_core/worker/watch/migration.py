"""Runs that should move to other capacity: evaluated once a minute, then drained."""

from collections.abc import Callable
from datetime import datetime

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.requests.variables.variable_values import AUTO
from gpu_core.decisions.spot.capacity_view import LOOK_S, CapacityView
from gpu_core.decisions.spot.migration import capacity_change
from gpu_core.decisions.spot.run_budget import budget_left_micro_usd
from gpu_core.decisions.spot.state import CapacityDecision
from gpu_core.worker.attempts.registry import AttemptRegistry
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.operations.threads import in_thread
from gpu_core.worker.operations.throttle import Throttle


class MigrationWatch:
    """Evaluates running attempts again and again: prices change, spot comes back.

    Args:
        ledger: Their earlier attempts.
        attempts: What runs.
    """

    def __init__(self, ledger: Ledger, attempts: AttemptRegistry) -> None:
        self._ledger = ledger
        self._attempts = attempts
        self._checks = Throttle(LOOK_S)

    async def due(
        self, view: Callable[[], CapacityView], now: datetime
    ) -> list[tuple[AttemptState, CapacityDecision]]:
        """The attempts that should move, each with the decision.

        None of them between two evaluations.

        Args:
            view: Makes what there is of spot and on-demand, with all that is held.
            now: Aware.
        """
        if not self._checks.allows(now.timestamp()):
            return []
        asked = [running for running in self._attempts if _may_change(running)]
        if not asked:
            return []
        there = view()
        if not there.is_mixed:
            return []
        earlier = await in_thread(
            self._ledger.attempts_of, [running.attempt.flow_run_id for running in asked]
        )
        found = []
        for running in sorted(asked, key=lambda running: running.attempt.attempt_id):
            with self._attempts.faults.of_run(running, "moved", now):
                attempts = earlier.get(running.attempt.flow_run_id, ())
                before = [a for a in attempts if a.number < running.attempt.number]
                left = budget_left_micro_usd(running.workload, [*before, running.attempt], now)
                decision = capacity_change(running.allocation(), before, there, left)
                if decision is not None:
                    found.append((running, decision))
        return found


def _may_change(running: AttemptState) -> bool:
    """Does the attempt run, with the capacity type `auto`?"""
    return (
        running.phase.is_up
        and running.attempt.bound_at is not None
        and running.request.capacity_type == AUTO
    )
