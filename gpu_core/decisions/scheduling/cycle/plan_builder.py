"""The plan under construction: what this cycle has allocated, and what is left."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from gpu_core.decisions.model.cluster import Flavor, Node, Placement
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.units import SECONDS_PER_HOUR
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI, Shape, Workload, planned_s
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.placement.diagnostics import never_fits
from gpu_core.decisions.policy.backfill import Backfill
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.quota.budgets import BudgetCheck, Budgets
from gpu_core.decisions.quota.fair_share import Shares
from gpu_core.decisions.scheduling.cycle.expected_releases import ExpectedReleases
from gpu_core.decisions.scheduling.eviction.cost import Candidates, PreemptionCandidate
from gpu_core.decisions.scheduling.eviction.preemption import Allows, Preemption, any_node
from gpu_core.decisions.scheduling.plan.plan import Admit, Command
from gpu_core.decisions.scheduling.queue.queue import QueueEntry, WorkloadGroup
from gpu_core.decisions.scheduling.reservations.kept_nodes import (
    Rest,
    likely_rests,
    likely_wait_s,
)
from gpu_core.decisions.scheduling.reservations.node_closures import NodeClosure
from gpu_core.decisions.scheduling.reservations.reservations import Reservations, amount_of
from gpu_core.decisions.scheduling.state.allocations import SharedUse
from gpu_core.decisions.scheduling.state.cluster_state import SchedulerState, View
from gpu_core.decisions.scheduling.state.pending_releases import (
    awaited_from,
    free_first,
    free_parts,
)
from gpu_core.decisions.scheduling.state.quota_usage import owner_of

_ASSUMED_S = 24 * SECONDS_PER_HOUR
"""The run time assumed for a run of unknown length where the calendar closes nodes."""


class PlanBuilder:
    """Builds a plan. Changes the scheduler state on the way, and undoes every change.

    Args:
        state: The scheduler state.
        policy: The rules.
        shares: Fair shares; None: they do not count.
        budgets: Remaining budgets; None: there are none.
        closures: Times at which nodes are closed.
        utilization: What was measured, by workload; as `Measurements.utilization`.
        possible: All nodes that could be there under `scale.max_gpus`; none: all are planned with.
        now_s: The time of the plan.
    """

    def __init__(
        self,
        state: SchedulerState,
        policy: Policy,
        *,
        shares: Shares | None,
        budgets: Budgets | None,
        closures: Sequence[NodeClosure],
        now_s: float,
        utilization: Mapping[str, float] = MappingProxyType({}),
        possible: Sequence[Node] = (),
    ) -> None:
        self._possible = possible
        self._utilization = utilization
        self.state = state
        self.policy = policy
        self.shares = shares
        self.budgets = budgets
        self.now_s = now_s
        self.commands: list[Command] = []
        self.kept: set[str] = set()
        """Nodes kept for a workload ahead whose start is unknown."""
        self.keeps_for_entitled = False
        """Nodes are reserved or kept for a workload within its team's nominal quota."""
        self.draining: dict[str, float | None] = {
            workload_id: _drained_s(state, workload_id) for workload_id in state.draining
        }
        """Draining workloads, with their deadline; None: unknown."""
        self._releases = ExpectedReleases(state, self.draining, now_s)
        self.reservations = Reservations(self._releases.free_after_draining, self._releases.of)
        for closure in closures:
            self.reservations.close(*closure)
        self._known_waits: dict[str, dict[int, float]] = {}
        """By node and number of additional GPUs: the likely time until they are free."""
        self._started_rests: dict[str, list[Rest]] = {}
        """Of the workloads that this plan starts, by node."""
        self._short_of_spare: set[Flavor | None] = set()
        """The flavors of which a workload ahead waits for more than the spare GPUs."""
        self._undo: list[Callable[[], None]] = []
        self._preemption: Preemption | None = None

    def undo(self) -> None:
        """Restores the state from before the first change."""
        while self._undo:
            self._undo.pop()()
        for view in (self.state.current, self.state.after_draining):
            view.entitlements.clear_reservations()

    # What a workload may use.

    def place(self, view: View, group: WorkloadGroup, allows: Allows | None) -> Placement | None:
        """The placement that suits the workload best. Nominal quota comes before borrowed quota.

        A preference of GPU types comes before both: a team may borrow for it.
        """
        shape = group.shape
        if not view.entitlements.has_quotas or not shape.gpu_count:
            return view.cluster.find(shape, allows=allows)
        allowance = view.entitlements.allowance(group.team, shape)
        tiers = (allowance.open,) if shape.gpu_types else (allowance.own, allowance.borrowed)
        for flavors in tiers:
            placement = (
                view.cluster.find(shape, flavors=flavors, allows=allows) if flavors else None
            )
            if placement is not None:
                return placement
        return None

    def place_to_start(
        self, group: WorkloadGroup, entry: QueueEntry
    ) -> tuple[Placement | None, frozenset[Flavor | None]]:
        """The placement on which the workload starts now; None: nowhere.

        With the flavors on which it would start if the policy did not leave GPUs to runs of the
        highest priority: another one is tried first.
        """
        allows, short = self.allows(group, entry), frozenset[Flavor | None]()
        while (best := self._best_to_start(group, entry, allows)) is not None:
            if not self._takes_spare(group, best):
                return best, frozenset()
            short |= {best.flavor}
            allows = self._without_flavor(best.flavor, allows)
        # A smaller one behind it would take what it waits for.
        self._short_of_spare |= short
        return None, short

    def _without_flavor(self, flavor: Flavor | None, allows: Allows | None) -> Allows:
        cluster = self.state.current.cluster
        return lambda node: cluster[node].node.flavor != flavor and (allows is None or allows(node))

    def _best_to_start(
        self, group: WorkloadGroup, entry: QueueEntry, allows: Allows | None
    ) -> Placement | None:
        """The placement that suits it best now, on nodes that it is allowed.

        Conservative backfill has reserved for each: of the GPU type and capacity type that suit it
        best, a workload starts on the nodes that were reserved for it, the first by name, also
        where another one would suit it better. Else it could take those of a workload behind it.
        """
        best = self.place(self.state.current, group, allows)
        if best is None or self.policy.backfill.mode is not Backfill.CONSERVATIVE:
            return best
        reserved = self._first_nodes(group, entry, allows, best.flavor)
        return self.place(self.state.current, group, reserved.__contains__) or best

    def _takes_spare(self, group: WorkloadGroup, placement: Placement) -> bool:
        """Would it take GPUs that the policy leaves to runs of the highest priority?

        Some may, as they would wait for ever otherwise, or idle nodes for longer: one that fills
        its nodes with several GPUs, which were kept for it, and one that could not leave the spare
        in an empty pool. One without a free GPU takes nothing of it.
        """
        spare = self.policy.preemption.spare_gpus
        if not spare or group.priority >= max(self.policy.priorities.values()):
            return False
        cluster = self.state.current.cluster
        gpus = len(placement.gpu_ids)
        taken = sum(len({*s.gpu_ids} & {*cluster[s.node].free_ids}) for s in placement.shares)
        if not taken or gpus == sum(cluster[s.node].usable_gpus for s in placement.shares) > 1:
            return False
        nodes = [cluster[name] for name in cluster.eligible(group.shape)]
        of_flavor = [node for node in nodes if node.node.flavor == placement.flavor]
        if sum(node.usable_gpus for node in of_flavor) - gpus < spare:
            return False
        free = sum(node.free_gpus for node in of_flavor)
        return placement.flavor in self._short_of_spare or free - taken < spare

    def _first_nodes(
        self, group: WorkloadGroup, entry: QueueEntry, allows: Allows | None, flavor: Flavor | None
    ) -> frozenset[str]:
        """The first nodes of a flavor on which it could start now; empty: it could not."""
        nodes = (
            [node for node in each.nodes if allows is None or allows(node)]
            for each in self.state.current.cluster.groups(group.shape)
            if each.flavor == flavor
        )
        found = self.reservations.earliest(
            group.shape,
            group.team,
            nodes,
            self.now_s,
            or_forever(entry.planned_s),
            assumed_s(entry),
        )
        return frozenset(() if found is None or found[0] > self.now_s else found[1])

    def allows(self, group: WorkloadGroup, entry: QueueEntry) -> Allows | None:
        """The nodes that it may use; None: all.

        A workload within nominal quota precedes those ahead that have to borrow.
        """
        if not self.kept and not self.reservations and self.budgets is None:
            return None
        entitlements = self.state.after_draining.entitlements
        if (
            entitlements.has_quotas
            and not self.keeps_for_entitled
            and entitlements.allowance(group.team, group.shape).reclaimable
        ):
            return self.is_open(group, entry)
        return self._leaves(group, entry)

    def _leaves(self, group: WorkloadGroup, entry: QueueEntry) -> Allows:
        """The nodes that workloads ahead leave to it."""
        is_open, kept, reservations = self.is_open(group, entry), self.kept, self.reservations
        wanted, until_s = amount_of(group.shape), self.now_s + or_forever(entry.planned_s)
        return lambda node: (
            node not in kept and reservations.allows(node, wanted, until_s) and is_open(node)
        )

    def is_open(self, group: WorkloadGroup, entry: QueueEntry) -> Allows:
        """The nodes that the calendar and the budgets leave open to it."""
        is_payable = self.is_payable(group, entry)
        if not self.reservations.has_closures:
            return is_payable
        now_s, until_s = self.now_s, self.now_s + assumed_s(entry)
        return lambda node: (
            is_payable(node) and self.reservations.is_open(node, group.team, now_s, until_s)
        )

    def is_payable(self, group: WorkloadGroup, entry: QueueEntry) -> Allows:
        """The nodes that the budgets leave open to it."""
        if self.budgets is None:
            return any_node
        cluster = self.state.current.cluster
        payable = {
            flavor
            for flavor in self.state.current.entitlements.wanted(group.shape)
            if self.budget_refusal(entry, flavor) is None
        }
        return lambda node: cluster[node].node.flavor in payable

    def budget_refusal(self, entry: QueueEntry, flavor: Flavor) -> BudgetCheck | None:
        """The budget that refuses it on this flavor; None: none does."""
        if self.budgets is None:
            return None
        price = self.policy.price_micro_usd_per_gpu_hour(*flavor)
        gpus = entry.workload.shape.total_gpu_milli / WHOLE_GPU_MILLI
        return self.budgets.refusal(entry.workload, gpus, price, entry.planned_s)

    def exceeds_max_gpus(self, shape: Shape) -> bool:
        """Does a shape that fits none of the nodes wait for `scale.max_gpus` to let some come?"""
        return bool(self._possible) and never_fits(shape, self._possible) is None

    # Allocation.

    def start(self, entry: QueueEntry, placement: Placement) -> bool:
        """Starts the workload. False: part of the placement is assigned to another one."""
        state, workload = self.state, entry.workload
        shape = workload.shape
        try:
            self._take(state.after_draining.cluster, shape, placement)
        except InvalidInput:
            # The rest of a shared GPU is free now, but assigned with the part still to be released.
            return False
        self._take(state.current.cluster, shape, placement)
        self._charge(workload, placement)
        until_s = self.now_s + or_forever(entry.planned_s)
        for share in placement.shares:
            self.reservations.start(share.node, amount_of(shape), until_s, is_whole=shape.is_whole)
            if not shape.is_whole:
                self._releases.start_shared(
                    share.node,
                    (SharedUse(gpu, until_s, workload.workload_id) for gpu in share.gpu_ids),
                )
            # As in the next cycle, in which it has run for no time.
            rest = Rest(entry.planned_s or 0.0, len(share.gpu_ids))
            self._started_rests.setdefault(share.node, []).append(rest)
            self._known_waits.pop(share.node, None)
        self.commands.append(Admit(workload_id=workload.workload_id, placement=placement))
        return True

    def assign_pending_release(
        self, workload: Workload, placement: Placement
    ) -> list[tuple[str, int]]:
        """Assigns GPUs that are free or draining. Returns the draining holders, with their GPUs."""
        state, shape = self.state, workload.shape
        assigned = free_first(state, shape, placement)
        awaited = awaited_from(state, self.draining, assigned)
        self._take(state.after_draining.cluster, shape, assigned)
        # No other workload may start on the assigned GPUs that are free already.
        for part in free_parts(state, assigned):
            self._take(state.current.cluster, Shape(gpu_count=len(part.gpu_ids)), part)
        self._charge(workload, assigned)
        return awaited

    def reserve_quota(self, group: WorkloadGroup) -> bool:
        """Keeps quota for a workload that waits for it. False: that would not help."""
        helps = [
            view.entitlements.reserve(group.team, group.shape)
            for view in (self.state.current, self.state.after_draining)
        ]
        return helps[-1]

    def preempt(self, victims: Iterable[PreemptionCandidate], preemptor: Workload) -> None:
        """Preempts these workloads: they drain until the end of the grace period."""
        deadline_s = self.now_s + self.policy.preemption.grace_period_s
        for victim in victims:
            self.preemption.evict(victim)
            self._undo.append(partial(self.state.after_draining.allocate, victim.holding))
            self.draining[victim.workload_id] = deadline_s
            for share in victim.holding.allocation.placement.shares:
                self._releases.forget(share.node)
            self.commands.append(victim.command(preemptor))

    def move(self, victim: PreemptionCandidate, to: Placement, preemptor: Workload) -> None:
        """Preempts this workload and keeps its new placement for it."""
        self.preempt([victim], preemptor)
        self.commands[-1] = replace(victim.command(preemptor), moves_to=to)
        owner, holding = owner_of(victim.holding.workload), victim.holding
        after_draining = self.state.after_draining.entitlements
        after_draining.allocate(owner, holding.flavor, holding.gpu_milli)
        self._undo.append(partial(after_draining.release, owner, holding.flavor, holding.gpu_milli))
        for view in (self.state.after_draining, self.state.current):
            self._take(view.cluster, holding.shape, to)

    @property
    def preemption(self) -> Preemption:
        """Made on first use: it reads all allocations."""
        if self._preemption is None:
            self._preemption = Preemption(
                self.state,
                Candidates(self.state.holdings, self.policy, self.now_s, self._utilization),
                self.policy.preemption,
                self.now_s,
            )
        return self._preemption

    def _take(self, cluster: ClusterInfo, shape: Shape, placement: Placement) -> None:
        cluster.allocate(shape, placement)
        self._undo.append(partial(cluster.release, shape, placement))
        if self._preemption is not None:
            self._preemption.invalidate(share.node for share in placement.shares)

    def _charge(self, workload: Workload, placement: Placement) -> None:
        owner, flavor = owner_of(workload), placement.flavor
        milli = workload.shape.total_gpu_milli
        for view in (self.state.current, self.state.after_draining):
            view.entitlements.allocate(owner, flavor, milli)
            self._undo.append(partial(view.entitlements.release, owner, flavor, milli))
        gpus, run_s = milli / WHOLE_GPU_MILLI, planned_s(workload)
        if self.shares is not None:
            self.shares.admit(workload.team, workload.user, workload.group, gpus, run_s)
        if self.budgets is not None and flavor is not None:
            price = self.policy.price_micro_usd_per_gpu_hour(*flavor)
            self.budgets.commit(workload, gpus, price, run_s)

    def likely_wait_s(self, node: str, gpus: int) -> float:
        """The likely time until the node has this number of free GPUs, as its workloads end."""
        missing = gpus - self.state.after_draining.cluster[node].free_gpus
        if missing <= 0:
            return 0.0
        waits = self._known_waits.setdefault(node, {})
        wait_s = waits.get(missing)
        if wait_s is None:
            wait_s = waits[missing] = likely_wait_s(missing, self._likely_rests(node))
        return wait_s

    def _likely_rests(self, node: str) -> Sequence[Rest]:
        """The likely time until each holding releases its GPUs of the node, the first first."""
        held = likely_rests(node, self.state.holdings.on(node), self.now_s)
        return sorted((*held, *self._started_rests.get(node, ())))


def assumed_s(entry: QueueEntry) -> float:
    """How long must the calendar leave nodes open for it?"""
    return _ASSUMED_S if entry.planned_s is None else entry.planned_s


def or_forever(duration_s: float | None) -> float:
    """The duration; infinity where it is unknown."""
    return math.inf if duration_s is None else duration_s


def _drained_s(state: SchedulerState, workload_id: str) -> float | None:
    holding = state.holdings.get(workload_id)
    if holding is None or holding.allocation.drain_deadline_at is None:
        return None
    return holding.allocation.drain_deadline_at.timestamp()
