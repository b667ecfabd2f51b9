"""The cycle: observe, plan, apply. Every step may be cut off anywhere and done again."""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import anyio
from anyio.abc import TaskGroup
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import WorkerFlowRunResponse
from prefect.workers.base import BaseJobConfiguration
from sqlalchemy.exc import SQLAlchemyError

from gpu_core.adapters.ledger import Ledger, LedgerError, is_ledger_outage
from gpu_core.decisions.model.cluster import Allocation
from gpu_core.decisions.policy.policy import Policy
from gpu_core.worker.attempts.binder import Binder
from gpu_core.worker.attempts.final_states import FinalStates
from gpu_core.worker.attempts.last_ends import LastEnds
from gpu_core.worker.attempts.launch import Launching
from gpu_core.worker.attempts.recovery import Recovery
from gpu_core.worker.attempts.registry import AttemptRegistry
from gpu_core.worker.attempts.run_faults import RunFaults, by_run
from gpu_core.worker.attempts.running_poll import RunningPoll
from gpu_core.worker.attempts.settler import Settler
from gpu_core.worker.attempts.state import AttemptState, StartFailure
from gpu_core.worker.attempts.terminator import Terminator
from gpu_core.worker.attempts.zombie_states import ZombieStateGuard
from gpu_core.worker.infrastructure import Infrastructure
from gpu_core.worker.operations.cycle_log import StepTimes
from gpu_core.worker.operations.cycle_report import CycleReport
from gpu_core.worker.operations.metrics import WorkerMetrics
from gpu_core.worker.operations.own_cpu import OwnCpu
from gpu_core.worker.pending.demand import Demand, DemandReader, PendingRuns
from gpu_core.worker.pending.deployment_reader import DeploymentReader
from gpu_core.worker.pending.forecasts import Forecasts
from gpu_core.worker.pending.history import History
from gpu_core.worker.pending.planning import Planning
from gpu_core.worker.pending.publisher import Publisher
from gpu_core.worker.pending.queue_reader import QueueReader
from gpu_core.worker.pending.refusals import Refusals
from gpu_core.worker.pending.scale_hints import ScaleHints
from gpu_core.worker.pending.waiting_report import WaitingReport
from gpu_core.worker.prefect.starts_first import StartsFirst
from gpu_core.worker.startup.connections import Connections
from gpu_core.worker.startup.settings import GpuWorkerSettings, file_name
from gpu_core.worker.watch.accrued_costs import AccruedCosts
from gpu_core.worker.watch.budget_alerts import BudgetAlerts
from gpu_core.worker.watch.budgets import BudgetWatch
from gpu_core.worker.watch.capacity import CapacityWatch
from gpu_core.worker.watch.decision_log import DecisionLog
from gpu_core.worker.watch.gpu_history import GpuHistory
from gpu_core.worker.watch.hung_runs import HangWatch
from gpu_core.worker.watch.idle_runs import IdleWatch
from gpu_core.worker.watch.ledger_outage import LedgerOutage
from gpu_core.worker.watch.nodes import PoolNodes
from gpu_core.worker.watch.outages import OutageWatch
from gpu_core.worker.watch.policy import PolicySource
from gpu_core.worker.watch.pool_status import PoolWatch
from gpu_core.worker.watch.prices import Prices
from gpu_core.worker.watch.run_costs import start_run_costs
from gpu_core.worker.watch.spooled_writes import SpooledWrites
from gpu_core.worker.watch.stops import RunningStops
from gpu_core.worker.watch.team_costs import TeamCosts


class GpuScheduler:
    """The scheduler of one pool. Only the acting worker may use it.

    Args:
        client: Prefect's client.
        pool: The pool's name.
        queues: The queues to serve; empty: all.
        settings: The worker's settings.
        connections: Ledger, MLflow and checkpoint store.
        ledger: The usage ledger, open.
        policies: The policy in force.
        infrastructure: Where attempts run.
        tasks: Where settling and draining run, concurrently with cycles.
        wake: Called when something changed that the next cycle should see.
        starts: Which starts are under way; the ends of runs let them pass.
        hidden: A text without secrets, for the pages of runs.
        metrics: What is exported to Prometheus; None: nothing is.
    """

    def __init__(
        self,
        *,
        client: PrefectClient,
        pool: str,
        queues: set[str],
        settings: GpuWorkerSettings,
        connections: Connections,
        ledger: Ledger,
        policies: PolicySource,
        infrastructure: Infrastructure,
        tasks: TaskGroup,
        wake: Callable[[], None],
        starts: StartsFirst,
        hidden: Callable[[str], str] = str,
        metrics: WorkerMetrics | None = None,
    ) -> None:
        self._metrics = metrics or WorkerMetrics(pool)
        self._metrics.with_devices = infrastructure.with_devices
        self._client = client
        self._pool = pool
        self._ledger = ledger
        self._policies = policies
        self._infrastructure = infrastructure
        # Held while queued runs are written to.
        self._turn = anyio.Lock()
        self._faults = RunFaults(hidden)
        self._deployments = DeploymentReader(client, tasks, wake)
        self._reader = DemandReader(client, pool, infrastructure, self._deployments, self._faults)
        self._watch_pool = PoolWatch(client, pool, queues, wake)
        self._history = History(ledger, pool, self._faults)
        self._forecasts = Forecasts(
            settings.resolved_state_dir() / f"{file_name(pool)}.forecasts.json"
        )
        self._publisher = Publisher(
            client, pool, settings.waiting_state_name, self._turn, self._faults
        )
        self._prices = Prices(ledger, settings.prices_path)
        self._writes = SpooledWrites(
            ledger, settings.resolved_state_dir() / f"{file_name(pool)}.ledger.spool"
        )
        self._decisions = DecisionLog(ledger, pool, infrastructure.host, self._writes)
        self._gpu_history = GpuHistory(self._writes, infrastructure.take_gpu_windows)
        self._attempts = AttemptRegistry(
            pool,
            infrastructure.host,
            settings.resolved_state_dir(),
            ledger,
            self._faults,
            self._prices,
            self._decisions,
        )
        self._binder = Binder(
            self._attempts, infrastructure, policies, self._faults, self._history.moved
        )
        self._queue = QueueReader(
            client=client,
            pool=pool,
            queues=queues,
            turn=self._turn,
            faults=self._faults,
            held=lambda: {running.flow_run_id for running in self._attempts},
            tasks=tasks,
            wake=wake,
        )
        self._refusals = Refusals(
            client, ledger, self._decisions, self._faults, self._queue.note_outdated
        )
        self._recovery = Recovery(self._attempts, ledger, client, self._reader, infrastructure)
        self._launching = Launching(
            client,
            pool,
            settings,
            connections,
            ledger,
            infrastructure,
            self._history,
        )
        self._capacity = CapacityWatch(
            ledger, infrastructure.host, pool, self._prices, self._writes
        )
        self._ledger_outage = LedgerOutage(
            infrastructure, self._capacity, self._decisions, self._gpu_history
        )
        self._nodes = PoolNodes(
            infrastructure=infrastructure,
            attempts=self._attempts,
            binder=self._binder,
            faults=self._faults,
            policies=policies,
            forecasts=self._forecasts,
            prices=self._prices,
            capacity=self._capacity,
        )
        self._budgets = BudgetWatch(ledger, self._attempts)
        self._budget_alerts = BudgetAlerts(ledger, pool, tasks)
        self._accrued = AccruedCosts(ledger, connections.mlflow, tasks)
        host, show = infrastructure.host, self._publisher.attempts
        costs = start_run_costs(ledger, connections.mlflow, pool, host, show, tasks)
        self._idle = IdleWatch(client, self._attempts, infrastructure, tasks)
        self._hangs = HangWatch(client, self._attempts, infrastructure, tasks, hidden)
        self._zombies = ZombieStateGuard(client, self._faults)
        self._outages = OutageWatch(
            client,
            settings.resolved_state_dir() / f"{file_name(pool)}.outages.json",
            infrastructure.disk,
            wake,
        )
        tasks.start_soon(self._outages.watch)
        self._running_poll = RunningPoll(client, tasks, wake)
        last_ends = LastEnds(ledger)
        self.settler = Settler(
            client=client,
            ledger=ledger,
            attempts=self._attempts,
            infrastructure=infrastructure,
            publisher=self._publisher,
            tasks=tasks,
            wake=wake,
            costs=costs,
            zombies=self._zombies,
            outages=self._outages,
            last_ends=last_ends,
            starts=starts,
            hidden=hidden,
            bind=self._nodes.bind_ended,
            bind_finally=self._binder.bind_finally,
            note_end=self._metrics.note_end,
        )
        self.terminator = Terminator(
            client=client,
            ledger=ledger,
            attempts=self._attempts,
            infrastructure=infrastructure,
            tasks=tasks,
            wake=wake,
            settler=self.settler,
            decisions=self._decisions,
            hidden=hidden,
        )
        self._stops = RunningStops(
            ledger=ledger,
            attempts=self._attempts,
            terminator=self.terminator,
            running_poll=self._running_poll,
            budgets=self._budgets,
            history=self._history,
            idle=self._idle,
            hangs=self._hangs,
        )
        self._final_states = FinalStates(client, ledger, pool, self._faults, self.settler.finish)
        scale_hints = ScaleHints(pool)
        self._planning = Planning(
            infrastructure=infrastructure,
            nodes=self._nodes,
            attempts=self._attempts,
            terminator=self.terminator,
            history=self._history,
            scale_hints=scale_hints,
            faults=self._faults,
            note_outdated=self._queue.note_outdated,
        )
        self._cycle_report = CycleReport(self._attempts, self._metrics, self._idle, self._hangs)
        self._waiting_report = WaitingReport(
            attempts=self._attempts,
            policies=policies,
            forecasts=self._forecasts,
            decisions=self._decisions,
            last_ends=last_ends,
            metrics=self._metrics,
            team_costs=TeamCosts(ledger, pool, self._metrics),
            gpu_history=self._gpu_history,
            publisher=self._publisher,
            history=self._history,
            budgets=self._budgets,
            scale_hints=scale_hints,
        )
        self.next_due_at: datetime | None = None
        """When the next run that is not due yet will be, or a start that others wait for may be
        over."""

    def describe(self) -> str:
        """Which GPUs does the pool have? In one line."""
        return self._nodes.describe()

    @property
    def is_api_away(self) -> bool:
        """Did Prefect's API not answer when it was polled last?"""
        return self._outages.is_api_away

    async def recover(self, template: Mapping[str, Any]) -> None:
        """Take over what an earlier worker left."""
        policy = self._policies.current()
        await self._recovery.recover(policy, template)
        await self._history.refresh(policy, datetime.now(UTC))
        await self._history.of_running(self._attempts, policy)
        await self._zombies.recover(self._ledger, self._pool, datetime.now(UTC))
        self._watch(self._attempts)
        await self._nodes.observe(policy)
        self.terminator.resume_draining(self._attempts)

    async def _adopt(self, template: Mapping[str, Any], policy: Policy) -> None:
        """Answer for what another worker opened late, too."""
        adopted = await self._recovery.adopt(policy, template)
        if not adopted:
            return
        await self._history.of_running(adopted, policy)
        self._watch(adopted)
        self.terminator.resume_draining(adopted)

    def _watch(self, attempts: Iterable[AttemptState]) -> None:
        for running in attempts:
            with self._faults.of_run(running, "watched"):
                self._infrastructure.watch(running)

    async def cycle(
        self, template: Mapping[str, Any], submitting: Collection[str]
    ) -> list[WorkerFlowRunResponse]:
        """Which waiting runs start now? Also ends, settles and preempts what has to be.

        Args:
            template: The pool's base job template.
            submitting: Runs that Prefect's worker is handing to `launch` at this moment.
        """
        own = OwnCpu()
        try:
            return await own.of(self._cycle(template, submitting, own))
        except Exception as error:
            if is_ledger_outage(error):
                await self._ledger_outage.note(self._attempts.holding(), self._policies.current())
            raise

    async def _cycle(
        self, template: Mapping[str, Any], submitting: Collection[str], own: OwnCpu
    ) -> list[WorkerFlowRunResponse]:
        steps, policy, policy_text = StepTimes(own), self._policies.current(), self._policies.text
        self.next_due_at = None  # a cycle that fails is not repeated at once
        self._ask_prefect()
        with steps.timed("find_ended"):  # 1
            await self._find_ended(template, submitting, policy)
        # Not before that step: an attempt that gets GPUs now gets them after the last holder's end.
        now = datetime.now(UTC)
        await self._decisions.policy(policy, policy_text, now)
        with steps.timed("terminate"):  # 2
            await self._attempts.beat()
            await self._stops.stop_due(policy, now)
        with steps.timed("reconcile"):  # 3
            await self._reconcile(policy)
        with steps.timed("read_queue"):  # 4
            queue = await self._read_queue(template, policy, now)
        with steps.timed("observe"):  # 5
            await self._writes.replay()
            await self._history.refresh(policy, now)
            await self._budget_alerts.check(
                policy, self._history.usage(now), now, self._budgets.stopped(now)
            )
            allocations = await self._nodes.observe(policy)
            self._accrued.check(self._attempts.holding(), now)
            # Dollars are compared at the prices that runs pay now.
            priced = self._prices.planned_with(policy, self._nodes.seen, now)
            await self._stops.migrate(self._nodes.seen, allocations, priced, now)
        with steps.timed("plan"):  # 6
            demands = await self._demands(queue, allocations, priced, now)
            plan = self._planning.plan(demands, allocations, priced, now)
        with steps.timed("preempt"):  # 7
            await self._refusals.invalid(queue)
            if self._nodes.is_complete:
                await self._refusals.hopeless(plan, demands)
            await self._planning.preempt(plan, demands, policy, now)
        with steps.timed("admit"):  # 8
            admitted = await self._planning.admit(plan, demands, policy)
        self._expect_starts(demands, admitted)
        self._waiting_report.note(plan, demands)
        self._cycle_report.note(self._nodes.seen, plan, demands, admitted, steps, priced)
        return [queue.responses[flow_run_id] for flow_run_id in admitted]

    def _ask_prefect(self) -> None:
        """All that this cycle asks a server that may be slow, at once: it waits for one answer."""
        self.terminator.ask_for_cancelled()
        self._running_poll.ask(self._attempts)
        self._queue.ask()
        self._deployments.ask()

    async def _find_ended(
        self, template: Mapping[str, Any], submitting: Collection[str], policy: Policy
    ) -> None:
        await self._adopt(template, policy)
        await self._recovery.find_unnoted(submitting)
        self.settler.find_ended(submitting)

    async def _reconcile(self, policy: Policy) -> None:
        await self._faults.one_by_one(
            list(self._attempts),
            by_run,
            lambda these: self._infrastructure.reconcile(these, policy),
            "reconciled",
        )

    async def _read_queue(
        self, template: Mapping[str, Any], policy: Policy, now: datetime
    ) -> PendingRuns:
        # A run competes again when its last attempt is settled, not before.
        reading = await self._queue.newest()
        queue = await self._reader.pending(reading, policy, template, now, self._watch_pool)
        waiting = {str(demand.flow_run.id) for demand in queue.demands}
        self._faults.keep(reading.outdated | waiting | queue.responses.keys(), now)
        await self._zombies.requeue_missing(queue.responses.keys())
        settling = reading.outdated | queue.responses.keys() | self._zombies.watched
        await self._final_states.write_missing(settling)
        self.next_due_at = queue.next_due_at
        return queue

    async def _demands(
        self, queue: PendingRuns, allocations: tuple[Allocation, ...], policy: Policy, now: datetime
    ) -> Mapping[str, Demand]:
        """The pending runs with what their past says, without those that no budget can pay."""
        competing = {demand.workload.workload_id: demand for demand in queue.demands}
        await self._decisions.moved_up([demand.workload for demand in queue.demands], now)
        await self._refusals.over_bounds(competing, policy.waiting, now)
        nodes = self._nodes.seen
        demands = await self._history.of_pending(competing, nodes, allocations, policy, now)
        view = self._history.capacity_view(nodes, allocations, policy, now)
        return await self._refusals.unpayable(demands, view, now)

    def _expect_starts(self, demands: Mapping[str, Demand], admitted: Collection[str]) -> None:
        """Let the next cycle come soon where a more urgent run waits for a start to be over."""
        pending = (d.workload for run_id, d in demands.items() if run_id not in admitted)
        poll_at = self._running_poll.next_poll_at(self._attempts, pending, datetime.now(UTC))
        moments = [moment for moment in (self.next_due_at, poll_at) if moment is not None]
        self.next_due_at = min(moments, default=None)

    def release_ended(self, submitting: Collection[str]) -> None:
        """Free the GPUs of attempts that end while a cycle waits for an answer."""
        self.settler.find_ended(submitting, is_during_cycle=True)

    def claim(self, flow_run_id: str) -> None:
        """Prefect has given this run to us, and to no other machine's worker."""
        self._zombies.forget([flow_run_id])
        running = self._attempts.of_run(flow_run_id)
        if running is not None:
            running.claim(datetime.now(UTC))

    def begin_note(self, flow_run_id: str) -> bool:
        """May Prefect note what runs this run? Its end clears the note: a later one would stay."""
        running = self._attempts.of_run(flow_run_id)
        if running is None or running.phase.has_ended:
            return False
        running.is_noted = True
        return True

    def admitted(self, flow_run_id: str) -> AttemptState:
        """The attempt that was opened for this run and has not been started yet.

        Raises:
            LookupError: There is none.
        """
        running = self._attempts.of_run(flow_run_id)
        if running is None or running.attempt.started_at is not None:
            raise LookupError(f"flow run {flow_run_id} was not admitted by this scheduler")
        return running

    async def launch(self, flow_run: FlowRun, configuration: BaseJobConfiguration) -> str:
        """Start an admitted run on its GPUs. Returns what Prefect keeps as its infrastructure."""
        running = self.admitted(str(flow_run.id))
        identity = await self._launching.launch(running, configuration, self._policies.current())
        self._forecasts.started([running.workload], datetime.now(UTC))
        return identity

    def end_unstarted(self, flow_run_id: str, failure: StartFailure) -> None:
        """The admitted run could not be started: free its GPUs and settle its attempt."""
        running = self._attempts.of_run(flow_run_id)
        if running is not None:
            self.settler.end_unstarted(running, failure)

    async def wait_until_published(self) -> None:
        """Wait until no reason of a waiting run is being published."""
        async with self._turn:
            pass

    @property
    def has_news(self) -> bool:
        """Has a plan been made of which nothing is published yet?"""
        return self._waiting_report.has_news

    async def publish(self) -> None:
        """Publish why runs wait. Apart from the cycle, so that starting runs comes first."""
        await self._waiting_report.publish(is_complete=self._nodes.is_complete)

    async def refresh_pool(self) -> None:
        """Note which runs Prefect keeps back, for the next cycle, and who else serves the pool."""
        await self._watch_pool.refresh(datetime.now(UTC))

    async def close(self) -> list[str]:
        """Stop watching. Returns the names of the runs that continue, for the next worker."""
        await self._infrastructure.close()
        with suppress(SQLAlchemyError, LedgerError, OSError):  # the worker must end
            await self._decisions.flush()
        return sorted(running.record.name for running in self._attempts.holding())
