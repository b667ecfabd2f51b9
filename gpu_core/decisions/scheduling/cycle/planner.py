"""Plans one cycle, or cycle after cycle, from the state of a pool."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import NamedTuple

from gpu_core.decisions.model.cluster import (
    Allocation,
    Flavor,
    Machine,
    Node,
    PastUsage,
    Snapshot,
)
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.measurements import Measurements
from gpu_core.decisions.model.units import SECONDS_PER_HOUR, epoch_s, require_aware
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI, Workload
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.placement.workload_mix import rounded_mix
from gpu_core.decisions.policy.placement import Strategy
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.quota.budgets import Budgets
from gpu_core.decisions.quota.cohort_borrowing_and_lending import QuotaTree
from gpu_core.decisions.quota.fair_share import Shares
from gpu_core.decisions.scheduling.cycle.cycle import Cycle
from gpu_core.decisions.scheduling.cycle.explanations import Explanations
from gpu_core.decisions.scheduling.cycle.plan_builder import PlanBuilder
from gpu_core.decisions.scheduling.plan.plan import Plan
from gpu_core.decisions.scheduling.queue.ordering import WorkloadOrder
from gpu_core.decisions.scheduling.queue.queue import PendingQueue
from gpu_core.decisions.scheduling.reservations.node_closures import node_closures
from gpu_core.decisions.scheduling.scaling.planned_capacity import PlannedCapacity
from gpu_core.decisions.scheduling.scaling.scaling import plan_scale
from gpu_core.decisions.scheduling.state.allocations import AllocationIndex
from gpu_core.decisions.scheduling.state.cluster_state import SchedulerState, View
from gpu_core.decisions.scheduling.state.quota_usage import Entitlements

_PLANS_KEPT = 1_000
"""A tenth of a percent of the plans reads all anew."""


def plan_cycle(snapshot: Snapshot, policy: Policy, now: datetime) -> Plan:
    """The plan for now, with the reason why each other workload waits.

    The rule is in `DESIGN.md` of this folder. The plan is the same for any order of the
    snapshot's tuples.

    Args:
        snapshot: All nodes, allocations and pending workloads.
        policy: The rules and prices.
        now: The time to plan for, aware.

    Raises:
        InvalidInput: The snapshot contradicts itself (an id twice, a GPU held twice), or `now`
            has no time zone.
    """
    return SnapshotPlanner().plan(snapshot, policy, now)


class SnapshotPlanner:
    """Plans snapshot after snapshot, and reads of each only what has changed since the last one.

    Its plan always equals that of `plan_cycle`. It begins anew with another policy, an earlier time
    and after an error, and now and then, as it knows each shape and place that it ever saw.
    """

    def __init__(self) -> None:
        self._kept: _Kept | None = None

    def plan(self, snapshot: Snapshot, policy: Policy, now: datetime) -> Plan:
        """The plan for now; as `plan_cycle`."""
        require_aware(now, "now")
        _refuse_contradictions(snapshot)
        kept, self._kept = self._kept, None
        if kept is None or not kept.is_valid(policy, now):
            kept = _Kept(Planner(policy, snapshot.nodes), policy, now)
        kept.planner.follow(snapshot)
        plan = kept.planner.plan(
            now,
            usage=snapshot.usage,
            preemptors=snapshot.preemptors,
            idle_since=snapshot.idle_since,
            measurements=snapshot.measurements,
        )
        self._kept = kept._replace(planned_at=now, plans=kept.plans + 1)
        return plan


class _Kept(NamedTuple):
    """A planner, and what its state is made for."""

    planner: "Planner"
    policy: Policy
    planned_at: datetime
    plans: int = 0

    def is_valid(self, policy: Policy, now: datetime) -> bool:
        """May it plan for this policy and time?"""
        # Who has waited too long is first for good.
        return self.plans < _PLANS_KEPT and policy == self.policy and self.planned_at <= now


class Planner:
    """Plans cycle after cycle for one cluster, from changes only.

    Its plan always equals that of `plan_cycle` for the same state.

    Args:
        policy: The rules.
        nodes: The cluster.
    """

    def __init__(self, policy: Policy, nodes: Sequence[Node]) -> None:
        self._policy = policy
        self._order = WorkloadOrder(policy.ordering)
        self._pending = PendingQueue(self._order)
        self._all_nodes = tuple(nodes)
        self._state = self._new_state(nodes)

    def set_nodes(self, nodes: Sequence[Node]) -> None:
        """Replaces the nodes."""
        self._all_nodes = tuple(nodes)
        self._plan_with(self._all_nodes)

    def _plan_with(self, nodes: tuple[Node, ...]) -> None:
        """Lets plans see these nodes only."""
        if _with_machines(nodes) == _with_machines(self._nodes):
            return
        held = [holding.allocation for holding in self._state.holdings]
        self._state = self._new_state(nodes)
        self._state.add_all(held)

    def follow(self, snapshot: Snapshot) -> None:
        """Plans with what the snapshot has of nodes, allocations and pending workloads.

        What equals what the planner had is not read again.
        """
        self._all_nodes = snapshot.nodes
        holdings, pending = self._state.holdings, self._pending
        held = {a.workload.workload_id: a for a in snapshot.allocations}
        waiting = {workload.workload_id: workload for workload in snapshot.pending}
        for workload_id in holdings.ids - held.keys():
            self.release(workload_id)
        for workload_id in pending.ids - waiting.keys():
            self.withdraw(workload_id)
        new = []
        for workload_id, allocation in held.items():
            holding = holdings.get(workload_id)
            if holding is not None and holding.allocation == allocation:
                continue
            if holding is not None:
                self.release(workload_id)
            new.append(allocation)
        self.load(new)
        for workload_id, workload in waiting.items():
            if workload_id not in pending or pending.entry(workload_id).workload != workload:
                self.submit(workload)

    def submit(self, workload: Workload) -> None:
        """Adds or replaces a pending workload."""
        self._pending.join(workload)

    def withdraw(self, workload_id: str) -> None:
        """Removes a pending workload."""
        self._pending.leave(workload_id)

    def load(self, allocations: Iterable[Allocation]) -> None:
        """Adds allocations of different workloads that have none, faster than one by one."""
        self._state.add_all(allocations)

    def allocate(self, allocation: Allocation) -> None:
        """Adds or replaces an allocation, for example after a checkpoint or when it drains."""
        self._state.add(allocation)

    def release(self, workload_id: str) -> None:
        """Removes the allocation of a workload."""
        self._state.remove(workload_id)

    def plan(
        self,
        now: datetime,
        *,
        usage: PastUsage | None = None,
        preemptors: frozenset[str] = frozenset(),
        idle_since: Mapping[str, datetime] | None = None,
        measurements: Measurements | None = None,
        explain: bool = True,
    ) -> Plan:
        """The plan for now. The planner applies nothing: report what was done.

        Args:
            now: The time to plan for, aware.
            usage: What was used before now; as `Snapshot.usage`.
            preemptors: As `Snapshot.preemptors`.
            idle_since: As `Snapshot.idle_since`.
            measurements: As `Snapshot.measurements`.
            explain: False: the plan has commands only, without hints about scale, and its cost does
                not grow with the length of the queue.
        """
        require_aware(now, "now")
        capacity = self._capacity()
        self._plan_with(capacity.open)
        once = partial(
            self._plan,
            now,
            usage or PastUsage(),
            preemptors,
            idle_since or {},
            measurements or Measurements(),
            capacity,
            explain=explain,
        )
        plan = once()
        granted = capacity.granted(plan.commands)
        if granted is None:
            return plan
        self._plan_with(granted)
        return once()

    def _capacity(self) -> PlannedCapacity:
        max_gpus = self._policy.scale.max_gpus
        if max_gpus is None:
            return PlannedCapacity(self._all_nodes, (), None)
        held = {s.node for h in self._state.holdings for s in h.allocation.placement.shares}
        return PlannedCapacity(self._all_nodes, held, max_gpus)

    def _plan(
        self,
        now: datetime,
        usage: PastUsage,
        preemptors: frozenset[str],
        idle_since: Mapping[str, datetime],
        measurements: Measurements,
        capacity: PlannedCapacity,
        *,
        explain: bool,
    ) -> Plan:
        now_s = epoch_s(now)
        self._set_workload_mix()
        self._set_loads(measurements)
        shares = None
        if self._order.fair_share_at is not None:
            shares = self._shares(usage)
        builder = PlanBuilder(
            self._state,
            self._policy,
            shares=shares,
            budgets=self._budgets(usage, now_s),
            closures=node_closures(self._policy.calendar, self._nodes, now),
            possible=() if self._nodes == self._all_nodes else capacity.possible,
            utilization=measurements.utilization,
            now_s=now_s,
        )
        outcome = Cycle(builder, preemptors=preemptors, with_explanations=explain).run()
        plan = Plan(
            commands=tuple(outcome.commands),
            explanations=Explanations(self._state, outcome) if explain else (),
        )
        if not explain or not self._policy.scale.offers:
            return plan
        hints = plan_scale(self._snapshot(idle_since), plan, self._policy, now)
        return replace(plan, commands=(*plan.commands, *hints))

    def _snapshot(self, idle_since: Mapping[str, datetime]) -> Snapshot:
        return Snapshot(
            nodes=self._nodes,
            allocations=tuple(holding.allocation for holding in self._state.holdings),
            pending=tuple(entry.workload for entry in self._pending),
            idle_since=idle_since,
        )

    def _set_workload_mix(self) -> None:
        """Sets the mix of pending and running shapes that the strategy optimizes for."""
        if self._policy.placement.strategy is Strategy.FRAGMENTATION_AWARE:
            mix = rounded_mix(self._state.shapes())
            self._state.current.cluster.set_workload_mix(mix)
            self._state.after_draining.cluster.set_workload_mix(mix)

    def _set_loads(self, measurements: Measurements) -> None:
        if self._policy.placement.strategy is Strategy.LEAST_LOADED:
            self._state.current.cluster.set_loads(measurements.loads)
            self._state.after_draining.cluster.set_loads(measurements.loads)

    def _shares(self, usage: PastUsage) -> Shares:
        policy, worth_per_gpu_s = self._policy, 1.0
        if policy.fair_share.measure == "dollars":
            flavors = [h.flavor for h in self._state.holdings if h.flavor is not None]
            prices = [policy.price_micro_usd_per_gpu_hour(*flavor) for flavor in flavors]
            known = [price for price in prices if price is not None]
            worth_per_gpu_s = sum(known) / len(known) / SECONDS_PER_HOUR if known else 1.0
        held = self._state.gpu_milli_by_group
        gpus_by_group = {group: milli / WHOLE_GPU_MILLI for group, milli in held.items()}
        return Shares(policy.fair_share, usage, gpus_by_group, worth_per_gpu_s)

    def _budgets(self, usage: PastUsage, now_s: float) -> Budgets | None:
        policy = self._policy
        if not policy.budgets:
            return None
        budgets = Budgets(policy.budgets, usage, grace_s=policy.preemption.grace_period_s)
        for holding in self._state.holdings:
            if holding.flavor is not None:
                end_s = holding.expected_end_s(now_s)
                budgets.commit(
                    holding.workload,
                    holding.gpu_milli / WHOLE_GPU_MILLI,
                    policy.price_micro_usd_per_gpu_hour(*holding.flavor),
                    None if end_s is None else end_s - now_s,
                )
        return budgets

    def _new_state(self, nodes: Sequence[Node]) -> SchedulerState:
        policy = self._policy
        self._nodes = tuple(nodes)
        capacity = _capacity_milli(nodes)
        tree = None if policy.quotas is None else QuotaTree(policy.quotas, capacity)

        def view() -> View:
            return View(
                cluster=ClusterInfo(nodes, policy.placement.strategy),
                entitlements=Entitlements(tree, capacity, policy.max_gpus_per_user),
            )

        return SchedulerState(
            order=self._order,
            pending=self._pending,
            holdings=AllocationIndex(),
            current=view(),
            after_draining=view(),
            draining=set(),
            gpu_milli_by_group={},
        )


def _with_machines(nodes: Iterable[Node]) -> list[tuple[Node, Machine | None]]:
    """Nodes are equal without their machines, which explanations name."""
    return [(node, node.machine) for node in nodes]


def _capacity_milli(nodes: Iterable[Node]) -> dict[Flavor, int]:
    """How many thousandths of GPUs of each flavor are there?"""
    capacity: dict[Flavor, int] = {}
    for node in nodes:
        milli = len(node.gpu_ids) * WHOLE_GPU_MILLI
        capacity[node.flavor] = capacity.get(node.flavor, 0) + milli
    return capacity


def _refuse_contradictions(snapshot: Snapshot) -> None:
    _refuse_twice("nodes", (node.name for node in snapshot.nodes))
    for node in snapshot.nodes:
        _refuse_twice(f"nodes.{node.name}.gpu_ids", node.gpu_ids)
    _refuse_twice("pending", (workload.workload_id for workload in snapshot.pending))
    _refuse_twice("allocations", (a.workload.workload_id for a in snapshot.allocations))
    _refuse_twice(
        "allocations.placement",
        (
            (share.node, gpu_id)
            for allocation in snapshot.allocations
            if allocation.workload.shape.is_whole
            for share in allocation.placement.shares
            for gpu_id in share.gpu_ids
        ),
    )


def _refuse_twice(field: str, ids: Iterable[object]) -> None:
    listed = tuple(ids)
    if len(set(listed)) == len(listed):
        return
    twice = [item for item, count in Counter(listed).items() if count > 1]
    raise InvalidInput(f"snapshot.{field}", "names the same thing twice", got=twice[0])
