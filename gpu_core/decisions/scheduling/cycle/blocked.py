"""The steps of a plan for a workload that cannot start now, the least disruptive first."""

from functools import partial

from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI, Shape
from gpu_core.decisions.policy.backfill import Backfill
from gpu_core.decisions.scheduling.cycle.consolidation import movers_for
from gpu_core.decisions.scheduling.cycle.plan_builder import PlanBuilder, assumed_s, or_forever
from gpu_core.decisions.scheduling.eviction.victims import PossibleFrom
from gpu_core.decisions.scheduling.plan import messages, quota_messages
from gpu_core.decisions.scheduling.plan.decision import (
    Explain,
    SharedExplain,
    WorkloadDecision,
    for_whole_group,
)
from gpu_core.decisions.scheduling.plan.plan import Preempt
from gpu_core.decisions.scheduling.queue.queue import QueueEntry, WorkloadGroup
from gpu_core.decisions.scheduling.reservations.kept_nodes import likely_nodes
from gpu_core.decisions.scheduling.reservations.reservations import amount_of
from gpu_core.decisions.scheduling.state.allocations import Holding
from gpu_core.decisions.scheduling.state.quota_usage import OpenFlavors


class BlockedWorkloads:
    """Decides for the workloads of one cycle that cannot start now.

    Args:
        builder: The plan so far; pending releases, victims and reservations are added to it.
        with_explanations: Whether to keep what explanations are made from, which takes time.
    """

    def __init__(self, builder: PlanBuilder, *, with_explanations: bool) -> None:
        self._builder = builder
        self._state = builder.state
        self._policy = builder.policy
        self._with_explanations = with_explanations
        self._reserved = 0
        self._is_search_unfinished = False
        self._shapes: dict[Shape, None] = {}
        self._victims_of: dict[str | None, list[Holding]] = {}
        self._read = -1
        self._unassigned: dict[Shape, None] = {}
        """Shapes that wait with nothing assigned to them: the next cycle may reserve for them."""

    def decide(
        self, group: WorkloadGroup, entry: QueueEntry, *, is_preemptor: bool = False
    ) -> WorkloadDecision:
        """The decision of the plan for this workload."""
        is_first = self._is_first(group.shape)
        self._shapes[group.shape] = None
        self._is_search_unfinished = False
        decision = self._wait_for_pending_release(
            group, entry, is_preemptor=is_preemptor
        ) or self._preempt(group, entry)
        if decision is None and is_first and not group.takes_free_only:
            decision = self._consolidate(group, entry)
        if decision is not None:
            return decision
        self._unassigned[group.shape] = None
        decision = self._wait(group, entry, is_first=is_first)
        if not self._is_search_unfinished or decision.explain is None:
            return decision
        explain = partial(messages.with_unfinished_search, explain=decision.explain)
        if decision.is_for_whole_group:
            return decision._replace(explain=SharedExplain(explain))
        return decision._replace(explain=explain)

    def _wait(self, group: WorkloadGroup, entry: QueueEntry, *, is_first: bool) -> WorkloadDecision:
        allowance = self._state.after_draining.entitlements.allowance(group.team, group.shape)
        if not allowance.open:
            return self._wait_for_quota(group, entry)
        return self._wait_for_gpus(group, entry, allowance, is_first=is_first)

    def _is_first(self, shape: Shape) -> bool:
        """Is it the first in the queue for every node that it could use?"""
        cluster = self._state.current.cluster
        return not any(cluster.overlaps(shape, ahead) for ahead in self._shapes)

    def _wait_for_pending_release(
        self, group: WorkloadGroup, entry: QueueEntry, *, is_preemptor: bool = False
    ) -> WorkloadDecision | None:
        """Assigns GPUs of draining workloads, and free ones with them, to the workload."""
        builder, draining = self._builder, self._builder.draining
        if not draining:
            return None
        placement = builder.place(self._state.after_draining, group, builder.allows(group, entry))
        if placement is None:
            return None
        awaited = builder.assign_pending_release(entry.workload, placement)
        # Its own victims may free quota only, on any node.
        held = dict(awaited)
        awaited += [
            (victim.workload_id, victim.gpu_milli // WHOLE_GPU_MILLI)
            for victim in self._own_victims(entry.workload.workload_id)
            if victim.workload_id not in held
        ]
        if not awaited:
            # It waits for the quota of draining workloads, not for their GPUs.
            awaited = [
                (holding.workload_id, holding.gpu_milli // WHOLE_GPU_MILLI)
                for holding in map(self._state.holdings.get, sorted(draining))
                if holding is not None
            ]
        ends = [draining[holder_id] for holder_id, _ in awaited]
        overlaps = self._state.current.cluster.overlaps
        explain = partial(
            messages.waiting_for_victims,
            awaited=[(self._name(holder_id), gpus) for holder_id, gpus in awaited],
            latest_s=None
            if None in ends
            else max((e for e in ends if e is not None), default=None),
            now_s=builder.now_s,
            # What is not its own, those that wait ahead may take; a preemptor comes first.
            is_certain=is_preemptor
            or not any(overlaps(group.shape, ahead) for ahead in self._unassigned),
        )
        return WorkloadDecision(explain, True)

    def _own_victims(self, workload_id: str) -> list[Holding]:
        """The draining workloads that are preempted for it, in this cycle or an earlier one."""
        commands, victims = self._builder.commands, self._victims_of
        if self._read < 0:
            self._read = 0
            for draining_id in sorted(self._state.draining):
                draining = self._state.holdings.get(draining_id)
                if draining is not None:
                    victims.setdefault(draining.allocation.draining_for, []).append(draining)
        for command in commands[self._read :]:
            if isinstance(command, Preempt):
                victim = self._state.holdings.get(command.workload_id)
                if victim is not None:
                    victims.setdefault(command.for_workload_id, []).append(victim)
        self._read = len(commands)
        return victims.get(workload_id, [])

    def _preempt(self, group: WorkloadGroup, entry: QueueEntry) -> WorkloadDecision | None:
        """Preempts for the workload, if it may preempt and that frees enough."""
        builder = self._builder
        if not self._may_preempt(group) or not group.shape.gpu_count:
            return None
        found = builder.preemption.victims(group, entry, builder.allows(group, entry))
        self._is_search_unfinished = found.is_unfinished
        if not found.victims:
            return None
        builder.preempt(found.victims, entry.workload)
        return self._wait_for_pending_release(group, entry, is_preemptor=True)

    def _may_preempt(self, group: WorkloadGroup) -> bool:
        return self._policy.preemption.enabled and not group.takes_free_only

    def _consolidate(self, group: WorkloadGroup, entry: QueueEntry) -> WorkloadDecision | None:
        """Moves a few workloads, if the policy allows it and that frees enough."""
        movers = movers_for(self._builder, group, entry)
        for victim, to in movers:
            self._builder.move(victim, to, entry.workload)
        if not movers:
            return None
        return self._wait_for_pending_release(group, entry, is_preemptor=True)

    def _wait_for_quota(self, group: WorkloadGroup, entry: QueueEntry) -> WorkloadDecision:
        """Keeps quota for the first workload that waits for it, and for each that starves."""
        entitlements = self._state.after_draining.entitlements
        is_first = not entitlements.is_reserved(group.shape)
        is_kept = self._policy.backfill.mode is not Backfill.GREEDY and is_first
        is_kept_for_others, helps = entitlements.has_unreserved(group.team, group.shape), True
        if is_kept or self._state.order.is_starving(entry.key):
            helps = self._builder.reserve_quota(group)
        numbers = self._state.current.entitlements.quota_numbers(group.team, group.shape)
        return for_whole_group(
            partial(
                quota_messages.waiting_for_quota,
                numbers=numbers,
                is_kept_for_others=is_kept_for_others,
                is_owed=helps,
            )
        )

    def _wait_for_gpus(
        self, group: WorkloadGroup, entry: QueueEntry, allowance: OpenFlavors, *, is_first: bool
    ) -> WorkloadDecision:
        shape = group.shape
        too_long = self._too_long(group, entry, allowance)
        preempts_from = self._preempts_from(group, entry) if is_first else None
        starts_s = self._keep(entry, shape, allowance, preempts_from, is_first=is_first)
        if too_long is not None:
            return WorkloadDecision(too_long, True, shorter_than_s=or_forever(entry.planned_s))
        # Each workload has its own reservation then, also within one group.
        considers_next = self._policy.backfill.mode is Backfill.CONSERVATIVE
        if not is_first or not self._with_explanations:
            return WorkloadDecision(None, considers_next)
        if preempts_from is not None:
            explain = self._protected(group, entry, preempts_from.moment_s, starts_s)
            return WorkloadDecision(explain, considers_next)
        return WorkloadDecision(self._first_in_queue(shape, starts_s), considers_next)

    def _too_long(
        self, group: WorkloadGroup, entry: QueueEntry, allowance: OpenFlavors
    ) -> Explain | None:
        """The explanation of what closes free GPUs to it that a shorter run could use.

        None: nothing.
        """
        if not self._builder.reservations:
            return None
        cluster, is_open = self._state.current.cluster, self._builder.is_open(group, entry)
        is_payable = self._builder.is_payable(group, entry)
        flavors = allowance.open if self._state.current.entitlements.has_quotas else None

        def is_wanted(node: str) -> bool:
            return self._is_not_kept(node) and is_payable(node)

        if cluster.find(group.shape, flavors=flavors, allows=is_wanted) is None:
            return None

        def is_open_now(node: str) -> bool:
            return self._is_not_kept(node) and is_open(node)

        is_only_reserved = (
            cluster.find(group.shape, flavors=flavors, allows=is_open_now) is not None
        )
        return messages.backfill_would_delay if is_only_reserved else messages.capacity_closed

    def _is_not_kept(self, node: str) -> bool:
        return node not in self._builder.kept

    def _keep(
        self,
        entry: QueueEntry,
        shape: Shape,
        allowance: OpenFlavors,
        preempts_from: PossibleFrom | None,
        *,
        is_first: bool,
    ) -> float | None:
        """Reserves GPUs as the backfill mode says. Returns the expected start, if known."""
        builder, mode = self._builder, self._policy.backfill.mode
        if not self._may_keep(shape, is_first=is_first):
            return None
        builder.keeps_for_entitled = builder.keeps_for_entitled or bool(allowance.reclaimable)
        nodes, found = self._usable_nodes(shape, allowance), None
        duration_s = or_forever(entry.planned_s)
        # A gang waits for the last of many runs, of which some outlive their estimates.
        is_auto_gang = mode is Backfill.AUTO and shape.nodes > 1
        has_known_start = is_first or not is_auto_gang
        if mode is not Backfill.NONE and has_known_start:
            found = builder.reservations.earliest(
                shape, entry.workload.team, nodes, builder.now_s, duration_s, assumed_s(entry)
            )
        starts_s = None if found is None else found[0]
        if preempts_from is not None:
            preempts_s = preempts_from.moment_s + self._policy.preemption.grace_period_s
            if mode is Backfill.AUTO and (starts_s is None or preempts_s < starts_s):
                builder.kept.update(preempts_from.nodes)
                return preempts_s
            starts_s = preempts_s if starts_s is None else starts_s
        if found is None or is_auto_gang:
            kept = (
                [likely_nodes(shape, nodes, builder.likely_wait_s)]
                if mode is Backfill.AUTO
                else nodes
            )
            builder.kept.update(node for group in kept for node in group)
        else:
            builder.reservations.reserve(found[1], amount_of(shape), found[0], duration_s)
            self._reserved += 1
        return starts_s

    def _may_keep(self, shape: Shape, *, is_first: bool) -> bool:
        """Does the backfill mode keep anything for a workload at this place in the queue?"""
        match self._policy.backfill.mode:
            case Backfill.GREEDY:
                return False
            case Backfill.CONSERVATIVE:
                return self._reserved < self._policy.backfill.depth
            case Backfill.EASY:
                return is_first
            case Backfill.AUTO:
                # Gangs one behind the other get their nodes released at the same time.
                return is_first or shape.nodes > 1
            case Backfill.NONE:
                return True

    def _usable_nodes(self, shape: Shape, allowance: OpenFlavors) -> list[list[str]]:
        """The nodes that it may use, by group, without those kept for another workload."""
        return [
            [node for node in group.nodes if self._is_not_kept(node)]
            for group in self._state.current.cluster.groups(shape)
            if group.flavor in allowance.open or not shape.gpu_count
        ]

    # Explanations of the first workload in the queue.

    def _preempts_from(self, group: WorkloadGroup, entry: QueueEntry) -> PossibleFrom | None:
        """The moment from which it may preempt enough, and the nodes on which; None: unknown."""
        if not self._may_preempt(group):
            return None
        builder = self._builder
        return builder.preemption.possible_from(group, entry, builder.allows(group, entry))

    def _protected(
        self,
        group: WorkloadGroup,
        entry: QueueEntry,
        possible_from_s: float,
        starts_s: float | None,
    ) -> Explain:
        builder = self._builder
        protected = builder.preemption.protected(group, entry)
        return partial(
            messages.min_runtime_protects,
            protected=[holding.workload.name for holding in protected],
            starting=sum(holding.allocation.is_starting for holding in protected),
            repaying=sum(holding.allocation.is_repaying for holding in protected),
            possible_from_s=possible_from_s,
            starts_s=starts_s,
            now_s=builder.now_s,
        )

    def _first_in_queue(self, shape: Shape, starts_s: float | None) -> Explain:
        cluster = self._state.current.cluster
        running = [holding.allocation for holding in self._state.holdings]
        return partial(
            messages.waiting_for_gpus,
            needs_repair=not cluster.groups(shape),
            not_placed=cluster.diagnose(shape),
            holders=messages.holders_on(set(cluster.eligible(shape)), running),
            starts_s=starts_s,
        )

    def _name(self, workload_id: str) -> str:
        holding = self._state.holdings.get(workload_id)
        return workload_id if holding is None else holding.workload.name
