"""Plans with what a cycle has seen, and carries the plan out: preemptions, then admissions."""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime

from gpu_core.decisions.model.cluster import Allocation, Snapshot
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.scheduling.cycle.isolation import plan_apart
from gpu_core.decisions.scheduling.cycle.planner import SnapshotPlanner
from gpu_core.decisions.scheduling.plan.plan import Admit, Plan, Preempt
from gpu_core.worker.attempts.registry import AttemptRegistry
from gpu_core.worker.attempts.run_faults import RunFaults
from gpu_core.worker.attempts.terminator import Terminator
from gpu_core.worker.infrastructure import Infrastructure
from gpu_core.worker.pending.demand import Demand
from gpu_core.worker.pending.history import History
from gpu_core.worker.pending.scale_hints import ScaleHints
from gpu_core.worker.watch.nodes import PoolNodes


class Planning:
    """The plans of one pool, and the runs that others were preempted for.

    A worker that starts anew knows none of these; then the order alone decides which run gets what
    is being freed.

    Args:
        infrastructure: Measures nodes and runs; knows who places attempts.
        nodes: The nodes that are planned with.
        attempts: What runs; opens attempts.
        terminator: Preempts.
        history: The usage so far.
        scale_hints: Since when nodes are idle.
        faults: Holds a run that cannot be planned with.
        note_outdated: Called with the runs that were admitted: they do not wait any more.
    """

    def __init__(
        self,
        *,
        infrastructure: Infrastructure,
        nodes: PoolNodes,
        attempts: AttemptRegistry,
        terminator: Terminator,
        history: History,
        scale_hints: ScaleHints,
        faults: RunFaults,
        note_outdated: Callable[[Iterable[str]], None],
    ) -> None:
        self._infrastructure = infrastructure
        self._nodes = nodes
        self._attempts = attempts
        self._terminator = terminator
        self._history = history
        self._scale_hints = scale_hints
        self._faults = faults
        self._note_outdated = note_outdated
        self._planner = SnapshotPlanner()
        self._preemptors: set[str] = set()

    def plan(
        self,
        demands: Mapping[str, Demand],
        allocations: tuple[Allocation, ...],
        policy: Policy,
        now: datetime,
    ) -> Plan:
        """The plan for all with whom planning works; the others are held from the next cycle on.

        Args:
            demands: The pending runs, by id.
            allocations: What is held.
            policy: With the prices that runs pay now.
            now: Aware.
        """
        self._preemptors.intersection_update(demands)
        nodes = self._nodes.seen
        snapshot = Snapshot(
            nodes=nodes,
            allocations=allocations,
            pending=tuple(demand.workload for demand in demands.values()),
            usage=self._history.usage(now),
            preemptors=frozenset(self._preemptors),
            idle_since=self._scale_hints.idle_since(nodes, allocations, now),
            measurements=self._infrastructure.measurements(
                self._attempts.holding(), nodes, allocations, policy, now
            ),
        )
        found = plan_apart(snapshot, policy, now, self._planner)
        for workload, error in found.faults:
            self._faults.note(workload.workload_id, workload.name, "planned", error, now)
        return found.plan

    async def preempt(
        self, plan: Plan, demands: Mapping[str, Demand], policy: Policy, now: datetime
    ) -> None:
        """Stop the runs whose GPUs the plan takes for others."""
        for command in plan.commands:
            if not isinstance(command, Preempt):
                continue
            victim = self._attempts.of_run(command.workload_id)
            preemptor = demands[command.for_workload_id].workload
            if victim is None:
                continue
            self._preemptors.add(preemptor.workload_id)
            with self._faults.of_run(victim, "preempted", now):
                await self._terminator.preempt(victim, preemptor, policy, now)

    async def admit(
        self, plan: Plan, demands: Mapping[str, Demand], policy: Policy
    ) -> Collection[str]:
        """Open an attempt for each run that the plan admits; those that were opened."""
        placements = {c.workload_id: c.placement for c in plan.commands if isinstance(c, Admit)}
        # Their GPUs may have become free after this cycle started.
        admitted = await self._attempts.open(
            placements,
            demands,
            self._nodes.zones(),
            policy,
            datetime.now(UTC),
            is_placed_as_planned=self._infrastructure.is_placed_as_planned(policy),
        )
        self._preemptors.difference_update(admitted)
        self._note_outdated(admitted)
        return admitted
