"""Whether a workload preempts others, and which."""

from collections.abc import Callable, Iterable

from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI, Shape
from gpu_core.decisions.placement.node_info import NodeInfo
from gpu_core.decisions.policy.preemption import PreemptionPolicy, TakesFrom
from gpu_core.decisions.scheduling.allocations import Holding
from gpu_core.decisions.scheduling.cluster_state import SchedulerState
from gpu_core.decisions.scheduling.ordering import Key
from gpu_core.decisions.scheduling.preemption_candidates import PreemptionIndex, PreemptionScope
from gpu_core.decisions.scheduling.preemption_cost import Candidates, PreemptionCandidate
from gpu_core.decisions.scheduling.queue import QueueEntry, WorkloadGroup
from gpu_core.decisions.scheduling.quota_usage import Allowance
from gpu_core.decisions.scheduling.victims import Victims, release_holding

Allows = Callable[[str], bool]
"""Returns whether the node may be used."""


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
        self._last_in_order: list[tuple[Key, Holding]] | None = None

    def invalidate(self, nodes: Iterable[str]) -> None:
        """Marks nodes whose free resources have changed."""
        self._index.invalidate(nodes)

    def victims(
        self, group: WorkloadGroup, entry: QueueEntry, allows: Allows | None
    ) -> list[PreemptionCandidate]:
        """Which workloads should be preempted for it? Empty if that would not free enough."""
        if self._policy.takes_from is TakesFrom.LATER_IN_ORDER:
            return self._victims_by_order(group, entry, allows)
        allowance = self._entitlements.allowance(group.team, group.shape)
        scope = self._scope(group, allowance)
        groups = self._cluster.groups(group.shape)
        found = self._search.least_loss(
            group.shape, groups, scope, self._is_open(allowance, scope, allows)
        )
        if found is None:
            return []
        if not self._entitlements.has_quotas:
            return found
        return self._without_needless(group, allows, self._with_quota(group, scope, found))

    def possible_from_s(self, group: WorkloadGroup, allows: Allows | None) -> float | None:
        """When do starts and minimum run times allow enough preemption? None: never, or now."""
        if self._policy.takes_from is TakesFrom.LATER_IN_ORDER:
            return None
        allowance = self._entitlements.allowance(group.team, group.shape)
        scope = self._scope(group, allowance)
        moment_s = self._search.possible_from_s(
            group.shape,
            self._cluster.groups(group.shape),
            scope,
            self._is_open(allowance, scope, allows),
        )
        return moment_s if moment_s is not None and moment_s > self._now_s else None

    def protected(self, group: WorkloadGroup) -> list[Holding]:
        """Which candidates are protected by a start or a minimum run time? By name."""
        allowance = self._entitlements.allowance(group.team, group.shape)
        scope = self._scope(group, allowance)
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
        self._candidates.remove(victim.workload_id)
        self._state.after_draining.release(victim.holding)
        self.invalidate(s.node for s in victim.holding.allocation.placement.shares)

    def _scope(self, group: WorkloadGroup, allowance: Allowance) -> PreemptionScope:
        if not self._entitlements.has_quotas:
            return PreemptionScope(priority=group.priority, any_team=True)
        reclaims = self._entitlements.buckets(allowance.reclaimable)
        return PreemptionScope(
            priority=group.priority,
            team=group.team,
            reclaims=reclaims,
            cohorts=self._entitlements.cohorts(group.team) if reclaims else (),
        )

    def _is_open(
        self, allowance: Allowance, scope: PreemptionScope, allows: Allows | None
    ) -> Callable[[str], bool]:
        possible = (
            None
            if scope.any_team
            # Victims of its own team may free quota of any flavor.
            else allowance.open | allowance.reclaimable | self._entitlements.held_by(scope.team)
        )

        def is_open(node: str) -> bool:
            flavor = self._cluster[node].node.flavor
            return (possible is None or flavor in possible) and (allows is None or allows(node))

        return is_open

    def _with_quota(
        self, group: WorkloadGroup, scope: PreemptionScope, victims: list[PreemptionCandidate]
    ) -> list[PreemptionCandidate]:
        """The victims, and more where quota needs them. Empty if that is not enough.

        A victim of another team must use borrowed quota, counted after the victims before it.
        """
        chosen = sorted(victims, key=lambda c: c.loss)
        if self._is_enough(group, chosen):
            return self._still_eligible(scope, chosen)
        ids = {c.workload_id for c in chosen}
        others = sorted(
            (
                c
                for c in self._candidates.values()
                if c.workload_id not in ids
                and c.holding.protected_until_s <= self._now_s
                and c.holding.flavor in self._entitlements.wanted(group.shape)
                and self._index.may_preempt(scope, c.holding)
            ),
            key=lambda c: c.loss,
        )
        needed = list(chosen)
        for candidate in others:
            needed.append(candidate)
            if self._is_enough(group, needed):
                break
        else:
            return []
        for candidate in reversed(needed[len(chosen) : -1]):
            fewer = [c for c in needed if c is not candidate]
            if self._is_enough(group, fewer):
                needed = fewer
        return self._still_eligible(scope, needed)

    def _without_needless(
        self, group: WorkloadGroup, allows: Allows | None, victims: list[PreemptionCandidate]
    ) -> list[PreemptionCandidate]:
        """The victims without those that neither quota nor placement needs.

        A victim chosen for quota may free the GPUs that another was chosen for. The victim that
        loses the most is spared first; fewer victims never free more.
        """
        kept = victims
        for victim in sorted(victims, key=lambda v: v.loss, reverse=True):
            others = [v for v in kept if v is not victim]
            if others and self._suffice(group, allows, others):
                kept = others
        return kept

    def _suffice(
        self, group: WorkloadGroup, allows: Allows | None, victims: list[PreemptionCandidate]
    ) -> bool:
        """Would it have both quota and a placement without these victims?"""
        with self._entitlements.without(v.holding for v in victims):
            open_flavors = self._entitlements.allowance(group.team, group.shape).open
        freed = _NodesWithout(
            self._state,
            group.shape,
            lambda node: (
                self._cluster[node].node.flavor in open_flavors and (allows is None or allows(node))
            ),
        )
        for victim in victims:
            freed.add(victim.holding)
        return freed.fits()

    def _is_enough(self, group: WorkloadGroup, victims: list[PreemptionCandidate]) -> bool:
        with self._entitlements.without(c.holding for c in victims):
            return bool(self._entitlements.allowance(group.team, group.shape).open)

    def _still_eligible(
        self, scope: PreemptionScope, victims: list[PreemptionCandidate]
    ) -> list[PreemptionCandidate]:
        """The victims, if each is eligible once those before it are gone; else none."""
        gone: list[Holding] = []
        for victim in victims:
            with self._entitlements.without(gone):
                if not self._index.may_preempt(scope, victim.holding):
                    return []
            gone.append(victim.holding)
        return victims

    # By queue order: time-slicing policies such as least attained service.

    def _victims_by_order(
        self, group: WorkloadGroup, entry: QueueEntry, allows: Allows | None
    ) -> list[PreemptionCandidate]:
        shape, order = group.shape, self._state.order
        own = order.policy_part(entry.key)
        chosen: list[PreemptionCandidate] = []
        freed = _NodesWithout(self._state, shape, allows)
        for key, holding in self._running_last_first():
            if key <= own:
                return []
            if not self._may_follow(group, holding):
                continue
            if freed.add(holding):
                chosen.append(self._candidates[holding.workload_id])
                if freed.fits():
                    break
        else:
            return []
        # The victim furthest ahead in the order is spared first.
        kept = list(chosen)
        for candidate in reversed(chosen[:-1]):
            freed.remove(candidate.holding)
            if freed.fits():
                kept.remove(candidate)
            else:
                freed.add(candidate.holding)
        return sorted(kept, key=lambda c: c.workload_id)

    def _may_follow(self, group: WorkloadGroup, holding: Holding) -> bool:
        if holding.workload_id not in self._candidates:
            return False
        if holding.protected_until_s > self._now_s:
            return False
        if not self._entitlements.has_quotas:
            return True
        return holding.workload.team == group.team

    def _running_last_first(self) -> list[tuple[Key, Holding]]:
        if self._last_in_order is None:
            order, now_s = self._state.order, self._now_s
            keyed = []
            for holding in self._candidates.holdings:
                held_s = now_s - holding.admitted_s
                key = order.running_key(
                    holding.workload,
                    holding.submitted_s,
                    held_s * holding.gpu_milli / WHOLE_GPU_MILLI,
                    held_s,
                )
                keyed.append((key, holding))
            keyed.sort(key=lambda k: k[0], reverse=True)
            self._last_in_order = [(order.policy_part(key), h) for key, h in keyed]
        return self._last_in_order


class _NodesWithout:
    """The nodes without some holdings, and whether a shape fits there."""

    def __init__(self, state: SchedulerState, shape: Shape, allows: Allows | None) -> None:
        self._shape = shape
        self._after_draining = state.after_draining.cluster
        self._group_of = {
            node: number
            for number, group in enumerate(self._after_draining.groups(shape))
            for node in group.nodes
            if allows is None or allows(node)
        }
        self._node_infos: dict[str, NodeInfo] = {}
        self._fitting: dict[int, set[str]] = {}
        for node in self._group_of:
            self._update(node, self._after_draining[node])

    def fits(self) -> bool:
        """Does the shape fit?"""
        return any(len(nodes) >= self._shape.nodes for nodes in self._fitting.values())

    def add(self, holding: Holding) -> bool:
        """Removes one more holding. False: it is on none of the nodes."""
        nodes = [s.node for s in holding.allocation.placement.shares if s.node in self._group_of]
        for node in nodes:
            if node not in self._node_infos:
                self._node_infos[node] = self._after_draining[node].copy()
            release_holding(self._node_infos[node], holding)
            self._update(node, self._node_infos[node])
        return bool(nodes)

    def remove(self, holding: Holding) -> None:
        """Puts a holding back."""
        for share in holding.allocation.placement.shares:
            if share.node in self._node_infos:
                self._node_infos[share.node].observe(holding.shape, share)
                self._update(share.node, self._node_infos[share.node])

    def _update(self, node: str, node_info: NodeInfo) -> None:
        fitting = self._fitting.setdefault(self._group_of[node], set())
        (fitting.add if node_info.fits(self._shape) else fitting.discard)(node)
