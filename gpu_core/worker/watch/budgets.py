"""Runs with a budget: warned at its mark, stopped before it is overspent."""

from collections.abc import Mapping
from datetime import datetime

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.model.attempts import Attempt
from gpu_core.decisions.model.cluster import PastUsage
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.quota.budget_stops import due_stops
from gpu_core.decisions.spot.deadline_feasibility import BudgetStage
from gpu_core.decisions.spot.run_budget import RunBudgetUse, run_budget_use
from gpu_core.worker.attempts.registry import AttemptRegistry
from gpu_core.worker.attempts.run_log import run_log
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.operations.threads import in_thread


class BudgetWatch:
    """Checks in every cycle the attempts whose runs have a budget.

    Args:
        ledger: What their earlier attempts cost.
        attempts: What runs.
    """

    def __init__(self, ledger: Ledger, attempts: AttemptRegistry) -> None:
        self._ledger = ledger
        self._attempts = attempts
        self._earlier: dict[str, tuple[Attempt, ...]] = {}
        self._warned: dict[str, BudgetStage] = {}
        self._stopped_until: dict[str, datetime] = {}

    async def overspent(
        self, policy: Policy, now: datetime
    ) -> list[tuple[AttemptState, RunBudgetUse]]:
        """The attempts that must stop, each with the reason.

        Also warns, once for each attempt and stage.
        """
        watched = [running for running in self._attempts if _is_watched(running)]
        await self._learn(watched)
        stopped = []
        for running in watched:
            with self._attempts.faults.of_run(running, "held to its budget", now):
                found = self._used(running, policy, now)
                if found is not None and found.stage is BudgetStage.STOP:
                    stopped.append((running, found))
        return stopped

    def held(
        self, policy: Policy, usage: PastUsage, now: datetime
    ) -> list[tuple[AttemptState, str]]:
        """The attempts that must stop for a budget of their pool, team or user, with the reason."""
        up = {each.attempt.attempt_id: each for each in self._attempts if each.phase.is_up}
        running = [(each.record, each.attempt) for each in self._attempts.holding()]
        stops = due_stops(policy.budgets, usage, running, policy.preemption.grace_period_s, now)
        self._stopped_until |= {stop.budget.name: stop.ends_at for stop in stops}
        return [(up[stop.attempt_id], stop.reason) for stop in stops if stop.attempt_id in up]

    def stopped(self, now: datetime) -> set[str]:
        """The budgets that have stopped runs in their current period, by name."""
        return {name for name, until in self._stopped_until.items() if now < until}

    def _used(self, running: AttemptState, policy: Policy, now: datetime) -> RunBudgetUse | None:
        """How far has it come with its budget, if it has one? Also warns."""
        attempt, budget = running.attempt, running.workload.budget_micro_usd
        if budget is None:
            return None
        found = run_budget_use(
            (*self._earlier[attempt.attempt_id], attempt),
            budget_micro_usd=budget,
            grace_s=policy.preemption.grace_period_s,
            policy=policy.capacity,
            now=now,
        )
        warned = self._warned.get(attempt.attempt_id, BudgetStage.WITHIN)
        if found.stage is not BudgetStage.STOP and found.stage is not warned:
            self._warned[attempt.attempt_id] = found.stage
            run_log(running).warning("Budget: %s", found.reason)
        return found

    async def _learn(self, watched: list[AttemptState]) -> None:
        """The spending before an attempt never changes, so it is read once."""
        ids = {running.attempt.attempt_id for running in watched}
        self._earlier = {key: found for key, found in self._earlier.items() if key in ids}
        self._warned = {key: stage for key, stage in self._warned.items() if key in ids}
        new = [r.attempt for r in watched if r.attempt.attempt_id not in self._earlier]
        if not new:
            return
        found: Mapping[str, tuple[Attempt, ...]] = await in_thread(
            self._ledger.attempts_of, [attempt.flow_run_id for attempt in new]
        )
        for attempt in new:
            of_run = found.get(attempt.flow_run_id, ())
            self._earlier[attempt.attempt_id] = tuple(
                earlier for earlier in of_run if earlier.number < attempt.number
            )


def _is_watched(running: AttemptState) -> bool:
    return running.workload.budget_micro_usd is not None and running.phase.is_up
