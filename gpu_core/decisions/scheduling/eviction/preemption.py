"""The decision whether a workload preempts others, and which."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from gpu_core.decisions.model.bit_set import numbers_in
from gpu_core.decisions.model.units import epoch_s
from gpu_core.decisions.model.workload import Shape, Workload
from gpu_core.decisions.policy.preemption import PreemptionPolicy, TakesFrom
from gpu_core.decisions.scheduling.eviction.candidates import PreemptionIndex, PreemptionScope
from gpu_core.decisions.scheduling.eviction.cost import Candidates, PreemptionCandidate
from gpu_core.decisions.scheduling.eviction.later_in_order import LaterInOrder
from gpu_core.decisions.scheduling.eviction.nodes_without import NodesWithout
from gpu_core.decisions.scheduling.eviction.victim_pools import VictimPools
from gpu_core.decisions.scheduling.eviction.victim_problem import (
    QuotaCheck,
    bits_of_victims,
    victim_problem,
)
from gpu_core.decisions.scheduling.eviction.victim_search import (
    CYCLE_STEPS,
    SEARCH_STEPS,
    VictimSearch,
)
from gpu_core.decisions.scheduling.eviction.victims import (
    Choice,
    PossibleFrom,
    Victims,
    counts_only_gpus,
)
from gpu_core.decisions.scheduling.queue.queue import QueueEntry, WorkloadGroup
from gpu_core.decisions.scheduling.state.allocations import Holding
from gpu_core.decisions.scheduling.state.cluster_state import SchedulerState
from gpu_core.decisions.scheduling.state.quota_usage import OpenFlavors

Allows = Callable[[str], bool]
"""Returns whether the node may be used."""


class Preemptees(NamedTuple):
    """The workloads to preempt."""

    victims: list[PreemptionCandidate]
    """By id; none: no legal set was found that frees enough."""
    is_unfinished: bool = False
    """There may be one: the search has reached its work limit."""


class _Wanted(NamedTuple):
    """A preemptor, and what it may use."""

    group: WorkloadGroup
    scope: PreemptionScope
    is_open: Allows
    quota: QuotaCheck


class Preemption:
    """Chooses victims in one cycle.

    With quotas a workload preempts in its own team by priority, and in other teams only what they
    borrow while it stays within its own nominal quota. It is therefore never the victim of its own
    victims: priorities are strict, and a team that reclaims does not borrow.

    Args:
        state: The scheduler state; changed as victims are chosen.
        candidates: The workloads that may be preempted, by id.
        policy: The rules.
        now_s: The cycle's moment.
    """

    def __init__(
        self,
        state: SchedulerState,
        candidates: Candidates,
        policy: PreemptionPolicy,
        now_s: float,
    ) -> None:
        self._state = state
        self._cluster = state.after_draining.cluster
        self._entitlements = state.after_draining.entitlements
        self._candidates = candidates
        self._policy = policy
        self._now_s = now_s
        self._index = PreemptionIndex(
            candidates,
            state.holdings,
            self._cluster,
            self._entitlements,
            now_s,
        )
        self._search = Victims(self._index)
        shapes = {holding.shape for holding in candidates.holdings}
        self._were_put_first = any(holding.was_put_first for holding in candidates.holdings)
        self._has_gangs = any(shape.nodes > 1 for shape in shapes)
        self._has_parts = not all(shape.is_whole for shape in shapes)
        self._has_protected = any(h.protected_until_s > now_s for h in candidates.holdings)
        self._steps_left = CYCLE_STEPS
        self._by_order = LaterInOrder(state, candidates, policy, now_s)

    def invalidate(self, nodes: Iterable[str]) -> None:
        """Marks nodes whose free resources have changed."""
        self._index.invalidate(nodes)

    def victims(
        self, group: WorkloadGroup, entry: QueueEntry, allows: Allows | None
    ) -> "Preemptees":
        """The workloads that should be preempted for it; None: that would not free enough."""
        if self._policy.takes_from is TakesFrom.LATER_IN_ORDER:
            return Preemptees(self._by_order.victims(group, entry, allows))
        found = self._victims_by_loss(group, entry, allows)
        if found.victims or self._policy.takes_from is not TakesFrom.RESUMABLE:
            return found
        taking_turns = self._by_order.victims(group, entry, allows, resumable_only=True)
        return Preemptees(taking_turns) if taking_turns else found

    def _victims_by_loss(
        self, group: WorkloadGroup, entry: QueueEntry, allows: Allows | None
    ) -> "Preemptees":
        """The victims of lower priority, or that borrow, that lose the least."""
        allowance = self._entitlements.allowance(group.team, group.shape)
        scope = self._scope(group, entry.workload, allowance)
        is_open = self._is_open(group.shape, allowance, scope, allows)
        choice = self._search.least_loss(
            group.shape, self._cluster.groups(group.shape), scope, is_open
        )
        wanted = _Wanted(group, scope, is_open, self._quota(group, scope))
        if self._is_exact(wanted, choice):
            return Preemptees([] if choice is None else choice.victims)
        if self._cluster.find(group.shape, flavors=allowance.open, allows=is_open) is not None:
            # What it waits for is not GPUs of others, but a reservation.
            return Preemptees([])
        return self._searched(wanted, choice)

    def possible_from(
        self, group: WorkloadGroup, entry: QueueEntry, allows: Allows | None
    ) -> PossibleFrom | None:
        """The moment from which starts and minimum run times allow enough preemption, and where.

        None: never, or now.
        """
        if self._policy.takes_from is TakesFrom.LATER_IN_ORDER or not self._has_protected:
            return None
        allowance = self._entitlements.allowance(group.team, group.shape)
        scope = self._scope(group, entry.workload, allowance)
        found = self._search.possible_from(
            group.shape,
            self._cluster.groups(group.shape),
            scope,
            self._is_open(group.shape, allowance, scope, allows),
        )
        return found if found is not None and found.moment_s > self._now_s else None

    def protected(self, group: WorkloadGroup, entry: QueueEntry) -> list[Holding]:
        """The candidates that a start or a minimum run time protects, by name."""
        allowance = self._entitlements.allowance(group.team, group.shape)
        scope = self._scope(group, entry.workload, allowance)
        nodes = set(self._cluster.eligible(group.shape))
        found = (
            h
            for h in self._candidates.holdings
            if h.protected_until_s > self._now_s
            and not nodes.isdisjoint(s.node for s in h.allocation.placement.shares)
            and self._index.may_preempt(scope, h)
        )
        return sorted(found, key=lambda h: (h.workload.name, h.workload_id))

    def evict(self, victim: PreemptionCandidate) -> None:
        """Evicts a victim: it is no candidate any more, and its GPUs will be released."""
        self._state.after_draining.release(victim.holding)
        self._index.remove(victim.holding)

    def _scope(
        self, group: WorkloadGroup, workload: Workload, allowance: OpenFlavors
    ) -> PreemptionScope:
        # Most pools have no victim that was put first; scopes that are equal share their victims.
        waits = (
            (workload.priority_override, epoch_s(workload.submitted_at))
            if self._were_put_first
            else None
        )
        if not self._entitlements.has_quotas:
            return PreemptionScope(priority=group.priority, waits=waits, any_team=True)
        reclaims = self._entitlements.buckets(allowance.reclaimable)
        return PreemptionScope(
            priority=group.priority,
            waits=waits,
            team=group.team,
            reclaims=reclaims,
            cohorts=self._entitlements.cohorts(group.team) if reclaims else (),
        )

    def _is_open(
        self, shape: Shape, allowance: OpenFlavors, scope: PreemptionScope, allows: Allows | None
    ) -> Allows:
        """The nodes that it may use, with victims that the scope includes."""
        cluster = self._cluster
        if scope.any_team:
            return any_node if allows is None else allows
        # Victims of its own team may free quota of any flavor.
        possible = allowance.open | allowance.reclaimable | self._entitlements.held_by(scope.team)
        if all(group.flavor in possible for group in cluster.groups(shape)):
            return any_node if allows is None else allows
        return lambda node: (
            cluster[node].node.flavor in possible and (allows is None or allows(node))
        )

    # Where a choice node by node is not enough: see `victim_search`.

    def _quota(self, group: WorkloadGroup, scope: PreemptionScope) -> QuotaCheck:
        return QuotaCheck(self._entitlements, group.team, group.shape, scope)

    def _is_exact(self, wanted: "_Wanted", choice: Choice | None) -> bool:
        """Does no other set of legal victims lose less than this choice?"""
        shape = wanted.group.shape
        if self._entitlements.has_quotas:
            # Where GPUs are free and quota is missing, any victim may be the cheapest.
            if self._cluster.find(shape, allows=wanted.is_open) is not None:
                return False
            if choice is not None and not self._is_enough(wanted, choice):
                return False
        if choice is None:
            return True
        if not counts_only_gpus(shape) or self._has_parts:
            return False
        return shape.nodes == 1 or not (self._has_gangs or wanted.scope.reclaims)

    def _is_enough(self, wanted: "_Wanted", choice: Choice) -> bool:
        """Does the choice free quota, too, and is it legal?"""
        victims = [victim.holding for victim in choice.victims]
        flavor = self._cluster[choice.nodes[0]].node.flavor
        return flavor in wanted.quota.open_flavors(victims) and wanted.quota.are_legal(victims)

    def _searched(self, wanted: "_Wanted", choice: Choice | None) -> "Preemptees":
        """The best of the choice node by node and a search over sets."""
        known = None
        if choice is not None and self._is_enough(wanted, choice):
            known = self._without_needless(wanted, choice.victims)
        pools = VictimPools(self._index, self._search, wanted.scope)
        is_unfinished = False
        shape = wanted.group.shape
        groups = self._cluster.groups(shape)
        # Each candidate that a pool is made of is read, which counts as a step, too.
        self._steps_left -= len(self._candidates)
        is_unfinished = self._steps_left <= 0
        found_pools = pools.of(shape, groups, wanted.is_open, wanted.quota)
        for nodes, candidates in () if is_unfinished else found_pools:
            self._steps_left -= len(nodes)
            if self._steps_left <= 0:
                is_unfinished = True
                break
            problem = victim_problem(shape, groups, nodes, candidates, self._index, wanted.quota)
            best = None if known is None else bits_of_victims(candidates, known)
            if known is not None and best is None:
                continue
            search = VictimSearch(problem, best, min(SEARCH_STEPS, self._steps_left))
            found = search.run()
            self._steps_left -= search.steps
            is_unfinished = is_unfinished or not search.is_complete
            if found is not None and found != best:
                known = [candidates[number] for number in numbers_in(found)]
        if pools.are_cut and known is None:
            is_unfinished = True
        if known is None:
            return Preemptees([], is_unfinished=is_unfinished)
        return Preemptees(
            sorted(self._without_needless(wanted, known), key=lambda v: v.workload_id)
        )

    def _without_needless(
        self, wanted: "_Wanted", victims: list[PreemptionCandidate]
    ) -> list[PreemptionCandidate]:
        """The victims without those that neither quota nor placement needs, on any node.

        The victim that loses the most is spared first. One pass is enough: fewer victims never free
        more.
        """
        freed = NodesWithout(self._cluster, wanted.group.shape, wanted.is_open)
        for victim in victims:
            freed.add(victim.holding)
        kept = {victim.workload_id: victim for victim in victims}
        for victim in sorted(victims, key=lambda v: v.loss, reverse=True):
            freed.remove(victim.holding)
            others = [v.holding for v in kept.values() if v is not victim]
            if freed.fits(wanted.quota.open_flavors(others)):
                del kept[victim.workload_id]
            else:
                freed.add(victim.holding)
        return list(kept.values())


def any_node(_node: str) -> bool:
    """Returns True: each node may be used."""
    return True
