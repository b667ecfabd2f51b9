"""The cycle: observe, plan, apply. Every step may be cut off anywhere and done again."""

import logging
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
from gpu_core.decisions.costs.mlflow.mlflow_access import MlflowAccess
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.cluster import Allocation, Node, Snapshot
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.scheduling.cycle.isolation import plan_apart
from gpu_core.decisions.scheduling.plan.plan import Admit, Plan, Preempt
from gpu_core.decisions.spot.capacity_view import CapacityView
from gpu_core.decisions.spot.node_avoidance import zone_of
from gpu_core.worker.attempts.binder import Binder
from gpu_core.worker.attempts.final_states import FinalStates
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
from gpu_core.worker.pending.forecasts import Forecasts
from gpu_core.worker.pending.history import History
from gpu_core.worker.pending.publisher import Publisher
from gpu_core.worker.pending.queue_reader import QueueReader
from gpu_core.worker.pending.refusals import Refusals
from gpu_core.worker.pending.scale_hints import ScaleHints
from gpu_core.worker.pending.waiting_report import WaitingReport
from gpu_core.worker.prefect.starts_first import StartsFirst
from gpu_core.worker.settings import GpuWorkerSettings, file_name
from gpu_core.worker.startup.connections import Connections
from gpu_core.worker.watch.accrued_costs import AccruedCosts
from gpu_core.worker.watch.budget_alerts import BudgetAlerts
from gpu_core.worker.watch.budgets import BudgetWatch
from gpu_core.worker.watch.capacity import CapacityWatch
from gpu_core.worker.watch.decision_log import DecisionLog
from gpu_core.worker.watch.gpu_history import GpuHistory
from gpu_core.worker.watch.hung_runs import HangWatch
from gpu_core.worker.watch.idle_runs import IdleWatch
from gpu_core.worker.watch.outages import OutageWatch
from gpu_core.worker.watch.policy import PolicySource
from gpu_core.worker.watch.pool import PoolWatch
from gpu_core.worker.watch.prices import Prices
from gpu_core.worker.watch.run_costs import RunCosts
from gpu_core.worker.watch.spooled_writes import SpooledWrites
from gpu_core.worker.watch.spot import CapacityChanges
from gpu_core.worker.watch.team_costs import TeamCosts

_log = logging.getLogger("prefect.gpu.scheduler")


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
        self._nodes: tuple[Node, ...] = ()
        # Held while queued runs are written to.
        self._turn = anyio.Lock()
        self._faults = RunFaults(hidden)
        self._reader = DemandReader(client, pool, infrastructure, self._faults)
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
        self._changes = CapacityChanges(ledger, self._attempts)
        self._capacity = CapacityWatch(
            ledger, infrastructure.host, pool, self._prices, self._writes
        )
        self._budgets = BudgetWatch(ledger, self._attempts)
        self._budget_alerts = BudgetAlerts(ledger, pool, tasks)
        self._accrued = AccruedCosts(ledger, connections.mlflow, tasks)
        costs = self._run_costs(connections.mlflow, tasks)
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
            starts=starts,
            hidden=hidden,
            bind=self._bind_last,
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
        self._final_states = FinalStates(client, ledger, pool, self._faults, self.settler.finish)
        self._scale_hints = ScaleHints(pool)
        self._cycle_report = CycleReport(self._attempts, self._metrics, self._idle, self._hangs)
        self._waiting_report = WaitingReport(
            attempts=self._attempts,
            policies=policies,
            forecasts=self._forecasts,
            decisions=self._decisions,
            settler=self.settler,
            metrics=self._metrics,
            team_costs=TeamCosts(ledger, pool, self._metrics),
            gpu_history=self._gpu_history,
            publisher=self._publisher,
            history=self._history,
            budgets=self._budgets,
        )
        # Runs that others were preempted for and that have not started since. A worker that starts
        # anew knows none; then the order alone decides which run gets what is being freed.
        self._preemptors: set[str] = set()
        self._unpublished: tuple[Plan, Mapping[str, Demand]] | None = None
        self.next_due_at: datetime | None = None
        """When the next run that is not due yet will be, or a start that others wait for may be
        over."""

    def _run_costs(self, mlflow: MlflowAccess | None, tasks: TaskGroup) -> RunCosts | None:
        """The writer of the costs of ended attempts, including those of an earlier worker."""
        if mlflow is None:
            return None
        host, show = self._infrastructure.host, self._publisher.attempts
        costs = RunCosts(self._ledger, mlflow, self._pool, host, show)
        tasks.start_soon(costs.run)
        return costs

    def describe(self) -> str:
        """Which GPUs does the pool have? In one line."""
        offers = [
            f"{len(node.gpu_ids)} × {node.gpu_type} on {node.name}" for node in self._nodes[:8]
        ]
        more = len(self._nodes) - len(offers)
        if more:
            offers.append(f"{more} more nodes")
        return ", ".join(offers) or "no GPU: none was found, and the policy declares none"

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
        await self._observe(policy)
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
                await self._note_while_away()
            raise

    async def _note_while_away(self) -> None:
        """Machines come and go during an outage of the ledger: the records wait on disk."""
        policy, holding = self._policies.current(), self._attempts.holding()
        try:
            allocations = self._infrastructure.allocations(holding, policy)
            nodes = await self._infrastructure.observe(policy, allocations)
            await self._capacity.observe(nodes, policy, datetime.now(UTC))
            await self._decisions.flush()
            days, now = policy.telemetry.history_days, datetime.now(UTC)
            await self._gpu_history.write(days, now, anyio.current_time())
        except Exception:
            _log.exception("What happens during the outage of the ledger is not recorded")

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
            await self._terminate(policy, now)
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
            allocations = await self._observe(policy)
            self._accrued.check(self._attempts.holding(), now)
            # Dollars are compared at the prices that runs pay now.
            priced = self._prices.planned_with(policy, self._nodes, now)
            await self._change_capacity(allocations, priced, now)
        with steps.timed("plan"):  # 6
            demands = await self._demands(queue, allocations, priced, now)
            plan = self._plan(self._snapshot(demands, allocations, priced, now), priced, now)
        with steps.timed("preempt"):  # 7
            await self._refusals.invalid(queue)
            if self._is_complete:
                await self._refusals.hopeless(plan, demands)
            await self._preempt(plan, demands, policy, now)
        with steps.timed("admit"):  # 8
            admitted = await self._admit(plan, demands, policy)
        self._expect_starts(demands, admitted)
        self._unpublished = plan, demands
        self._cycle_report.note(self._nodes, plan, demands, admitted, steps, priced)
        return [queue.responses[flow_run_id] for flow_run_id in admitted]

    def _ask_prefect(self) -> None:
        """All that this cycle asks a server that may be slow, at once: it waits for one answer."""
        self.terminator.ask_for_cancelled()
        self._running_poll.ask(self._attempts)
        self._queue.ask()

    async def _find_ended(
        self, template: Mapping[str, Any], submitting: Collection[str], policy: Policy
    ) -> None:
        await self._adopt(template, policy)
        await self._recovery.find_unnoted(submitting)
        self.settler.find_ended(submitting)

    async def _terminate(self, policy: Policy, now: datetime) -> None:
        """End what was cancelled, what is over a limit, and what cannot work where it is."""
        await self._attempts.beat()
        await self.terminator.stop_cancelled(now)
        await self._running_poll.poll(self._attempts, now)
        await self.terminator.stop_overdue(policy, now)
        for running, used in await self._budgets.overspent(policy, now):
            with self._faults.of_run(running, "ended", now):
                why = (
                    f"{used.reason}; with a higher budget_usd it resumes from its newest "
                    "checkpoint."
                )
                await self.terminator.stop(running, EndReason.BUDGET_SPENT, why, policy, now)
        for running, why in self._budgets.held(policy, self._history.usage(now), now):
            with self._faults.of_run(running, "ended", now):
                await self.terminator.stop(running, EndReason.BUDGET_HELD, why, policy, now)
        await self.terminator.stop_troubled(policy, now)
        # After that: what hangs on a GPU that has failed is not charged.
        for running, why in await self._idle.idle(policy.idle, now):
            with self._faults.of_run(running, "ended", now):
                await self.terminator.stop(running, EndReason.IDLE, why, policy, now)
        for running, why in await self._hangs.hanging(policy.hangs, now):
            with self._faults.of_run(running, "ended", now):
                await self.terminator.stop(running, EndReason.HUNG, why, policy, now)

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
        demands = await self._history.of_pending(competing, self._nodes, allocations, policy, now)
        view = self._history.capacity_view(self._nodes, allocations, policy, now)
        return await self._refusals.unpayable(demands, view, now)

    async def _preempt(
        self, plan: Plan, demands: Mapping[str, Demand], policy: Policy, now: datetime
    ) -> None:
        for command in plan.commands:
            if not isinstance(command, Preempt):
                continue
            victim = self._attempts.of_run(command.workload_id)
            preemptor = demands[command.for_workload_id].workload
            if victim is None:
                continue
            self._preemptors.add(preemptor.workload_id)
            with self._faults.of_run(victim, "preempted", now):
                await self.terminator.preempt(victim, preemptor, policy, now)

    async def _admit(
        self, plan: Plan, demands: Mapping[str, Demand], policy: Policy
    ) -> Collection[str]:
        """Open an attempt for each run that the plan admits; those that were opened."""
        placements = {c.workload_id: c.placement for c in plan.commands if isinstance(c, Admit)}
        # Their GPUs may have become free after this cycle started.
        admitted = await self._attempts.open(
            placements,
            demands,
            self._zones(),
            policy,
            datetime.now(UTC),
            is_placed_as_planned=self._infrastructure.is_placed_as_planned(policy),
        )
        self._preemptors.difference_update(admitted)
        self._queue.note_outdated(admitted)
        return admitted

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
        return self._unpublished is not None

    async def publish(self) -> None:
        """Publish why runs wait. Apart from the cycle, so that starting runs comes first."""
        if self._unpublished is None:
            return
        plan, demands = self._unpublished
        self._unpublished = None
        self._scale_hints.publish(plan.commands)
        await self._waiting_report.publish(plan, demands, is_complete=self._is_complete)

    async def refresh_pool(self) -> None:
        """Note which runs Prefect keeps back, for the next cycle, and who else serves the pool."""
        await self._watch_pool.refresh(datetime.now(UTC))

    async def close(self) -> list[str]:
        """Stop watching. Returns the names of the runs that continue, for the next worker."""
        await self._infrastructure.close()
        with suppress(SQLAlchemyError, LedgerError, OSError):  # the worker must end
            await self._decisions.flush()
        return sorted(running.record.name for running in self._attempts.holding())

    def _plan(self, snapshot: Snapshot, policy: Policy, now: datetime) -> Plan:
        """The plan for all with whom planning works; the others are held from the next cycle on."""
        found = plan_apart(snapshot, policy, now)
        for workload, error in found.faults:
            self._faults.note(workload.workload_id, workload.name, "planned", error, now)
        return found.plan

    def _snapshot(
        self,
        demands: Mapping[str, Demand],
        allocations: tuple[Allocation, ...],
        policy: Policy,
        now: datetime,
    ) -> Snapshot:
        self._preemptors.intersection_update(demands)
        return Snapshot(
            nodes=self._nodes,
            allocations=allocations,
            pending=tuple(demand.workload for demand in demands.values()),
            usage=self._history.usage(now),
            preemptors=frozenset(self._preemptors),
            idle_since=self._scale_hints.idle_since(self._nodes, allocations, now),
            measurements=self._infrastructure.measurements(
                self._attempts.holding(), self._nodes, allocations, policy, now
            ),
        )

    async def _change_capacity(
        self, allocations: tuple[Allocation, ...], policy: Policy, now: datetime
    ) -> None:
        """Drain runs that should move to other capacity."""

        def view() -> CapacityView:
            self._history.learn_changeovers(self._attempts, policy)
            return self._history.capacity_view(self._nodes, allocations, policy, now)

        for running, decision in await self._changes.due(view, now):
            with self._faults.of_run(running, "moved", now):
                why = f"Moves to other capacity: {decision.reason}."
                await self.terminator.stop(running, EndReason.PREEMPTED, why, policy, now)

    async def _observe(self, policy: Policy) -> tuple[Allocation, ...]:
        """Refresh the nodes and what is held on them, and note which attempts were bound."""
        allocations = await self._refresh(policy)
        if await self._binder.bind(policy):
            allocations = await self._refresh(policy)
        return allocations

    @property
    def _is_complete(self) -> bool:
        """Are these all nodes that the pool will ever have? None: the driver is at fault."""
        return self._infrastructure.is_fixed and bool(self._nodes)

    async def _bind_last(self, running: AttemptState) -> None:
        """Before its pods go: it may have ended before a cycle saw where it is.

        So may those that were there with it, and a worker that has just started knows no nodes yet.
        """
        with self._faults.of_run(running, "put on its nodes"):
            policy = self._policies.current()
            if not self._nodes:
                await self._refresh(policy)
            await self._binder.bind(policy)

    def _zones(self) -> dict[str, str | None]:
        return {node.name: zone_of(node) for node in self._nodes}

    async def _refresh(self, policy: Policy) -> tuple[Allocation, ...]:
        holding = self._attempts.holding()
        await self._faults.one_by_one(
            holding, by_run, self._infrastructure.refresh, "asked for its checkpoints"
        )
        allocations = self._infrastructure.allocations(holding, policy)
        nodes = await self._infrastructure.observe(policy, allocations)
        # Of an attempt whose record was damaged it is unknown which of the GPUs it holds.
        unknown = {r.attempt.node for r in holding if r.attempt.gpu_type and not r.attempt.held}
        self._nodes = tuple(node for node in nodes if node.name not in unknown)
        self._forecasts.observe(self._nodes)
        now = datetime.now(UTC)
        await self._prices.refresh(self._nodes, now)
        await self._attempts.reprice(policy, now)
        await self._capacity.observe(nodes, policy, now)
        return allocations
