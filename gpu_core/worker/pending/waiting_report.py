"""The publication of why runs wait and which hold GPUs: after each cycle, apart from the starts."""

from collections.abc import Mapping
from datetime import UTC, datetime

import anyio

from gpu_core.decisions.costs.reports.holders_table import HoldersTableEntry, holder_entry
from gpu_core.decisions.model.reasons import Explanation, Reason
from gpu_core.decisions.quota.budget_alerts import due_alerts
from gpu_core.decisions.scheduling.plan.plan import Plan
from gpu_core.worker.attempts.last_ends import LastEnds
from gpu_core.worker.attempts.registry import AttemptRegistry
from gpu_core.worker.operations.metrics import WorkerMetrics
from gpu_core.worker.operations.threads import in_thread
from gpu_core.worker.pending.demand import Demand
from gpu_core.worker.pending.forecasts import Forecasts
from gpu_core.worker.pending.history import History
from gpu_core.worker.pending.publisher import Publisher
from gpu_core.worker.pending.refusals import readable
from gpu_core.worker.pending.scale_hints import ScaleHints
from gpu_core.worker.watch.budgets import BudgetWatch
from gpu_core.worker.watch.decision_log import DecisionLog
from gpu_core.worker.watch.gpu_history import GpuHistory
from gpu_core.worker.watch.policy import PolicySource
from gpu_core.worker.watch.team_costs import TeamCosts


class WaitingReport:
    """Publishes in Prefect, in the ledger and among the metrics why the runs of a pool wait."""

    def __init__(
        self,
        *,
        attempts: AttemptRegistry,
        policies: PolicySource,
        forecasts: Forecasts,
        decisions: DecisionLog,
        last_ends: LastEnds,
        metrics: WorkerMetrics,
        team_costs: TeamCosts,
        gpu_history: GpuHistory,
        publisher: Publisher,
        history: History,
        budgets: BudgetWatch,
        scale_hints: ScaleHints,
    ) -> None:
        self._attempts = attempts
        self._policies = policies
        self._forecasts = forecasts
        self._decisions = decisions
        self._last_ends = last_ends
        self._metrics = metrics
        self._team_costs = team_costs
        self._gpu_history = gpu_history
        self._publisher = publisher
        self._history = history
        self._budgets = budgets
        self._scale_hints = scale_hints
        self._unpublished: tuple[Plan, Mapping[str, Demand]] | None = None

    def note(self, plan: Plan, demands: Mapping[str, Demand]) -> None:
        """A cycle is over: its plan is published in place of an earlier one.

        Args:
            plan: Its plan.
            demands: The runs that were pending, by id.
        """
        self._unpublished = plan, demands

    @property
    def has_news(self) -> bool:
        """Has a plan been made of which nothing is published yet?"""
        return self._unpublished is not None

    async def publish(self, *, is_complete: bool) -> None:
        """Publish why the runs of the newest plan wait, if that is not published yet.

        Args:
            is_complete: Has the pool all nodes that it will ever have? What exceeds them has ended.
        """
        if self._unpublished is None:
            return
        plan, demands = self._unpublished
        self._unpublished = None
        self._scale_hints.publish(plan.commands)
        now = datetime.now(UTC)
        waiting = self._waiting(plan, demands, now, is_complete=is_complete)
        self._decisions.waiting(waiting, now)
        await self._decisions.flush()
        await self._last_ends.learn(
            [
                explanation.workload_id
                for explanation in waiting
                if demands[explanation.workload_id].flow_run.run_count > 0
            ]
        )
        since = [demands[explanation.workload_id].workload.submitted_at for explanation in waiting]
        self._metrics.note_waiting(
            [explanation.reason for explanation in waiting],
            max(0.0, (now - min(since)).total_seconds()) if since else 0.0,
        )
        await self._team_costs.refresh(now, anyio.current_time())
        days = self._policies.current().telemetry.history_days
        await self._gpu_history.write(days, now, anyio.current_time())
        await self._publisher.waiting(
            waiting,
            demands,
            self._last_ends.messages,
            now,
            limit=self._policies.current().waiting.publish_per_cycle,
            is_held=lambda run: self._attempts.of_run(run) is not None,
        )
        await self._publisher.queue(waiting, demands, now, self._notices(now), self._holders(now))
        await in_thread(self._forecasts.save)

    def _waiting(
        self, plan: Plan, demands: Mapping[str, Demand], now: datetime, *, is_complete: bool
    ) -> tuple[Explanation, ...]:
        ended = {Reason.EXCEEDS_CLUSTER} if is_complete else set()
        return self._forecasts.with_expected_starts(
            [
                explanation
                for explanation in readable(plan.explanations)
                if explanation.reason not in {Reason.STARTING, *ended}
            ],
            {workload_id: demand.workload for workload_id, demand in demands.items()},
            now,
        )

    def _notices(self, now: datetime) -> tuple[str, ...]:
        notice = self._policies.notice
        of_budgets = due_alerts(
            self._policies.current(),
            self._history.usage(now),
            (),
            now,
            self._budgets.stopped(now),
        )
        return (
            *(() if notice is None else (notice,)),
            *(f"{alert.subject}. {alert.body}" for alert in of_budgets),
        )

    def _holders(self, now: datetime) -> list[HoldersTableEntry]:
        return sorted(
            (
                holder_entry(running.attempt, running.record, running.limits.max_duration_s, now)
                for running in self._attempts.holding()
            ),
            key=lambda entry: (entry.held_since, entry.run_id),
        )
