"""Whether GPUs are taken from others for a workload, and from whom."""

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
"""May this node be used?"""


class Preemption:
    """Chooses victims in one cycle.

    With quotas a workload takes from its own team by priority, and from other teams only what they
    have borrowed while it stays within its own team's nominal quota. It can therefore never be its
    victims' victim in turn: priorities are strict, and who reclaims does not borrow.

    Args:
        state: What is so; changed as victims are chosen.
        candidates: Who may be preempted at all, by id.
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
        self._candidates = candidates
        self._policy = policy
        self._now_s = now_s
        self._index = PreemptionIndex(
            candidates,
            state.holdings,
            state.after_draining.cluster,
            state.after_draining.entitlements,
            now_s,
        )
        self._search = Victims(self._index)
        self._from_the_back: list[tuple[Key, Holding]] | None = None

    def invalidate(self, nodes: Iterable[str]) -> None:
        """What these nodes have is different now."""
        self._index.invalidate(nodes)

    def victims(
        self, group: WorkloadGroup, entry: QueueEntry, allows: Allows | None
    ) -> list[PreemptionCandidate]:
        """Whose GPUs should be taken for it? Nobody's, if that would not make enough room."""
        if self._policy.takes_from is TakesFrom.LATER_IN_ORDER:
            return self._later_in_order(group, entry, allows)
        entitlements = self._state.after_draining.entitlements
        allowance = entitlements.allowance(group.team, group.shape)
        scope = self._scope(group, allowance)
        groups = self._state.after_draining.cluster.groups(group.shape)
        found = self._search.least_loss(
            group.shape, groups, scope, self._is_open(allowance, scope, allows)
        )
        if found is None:
            return []
        chosen = self._with_quota(group, scope, found)
        return self._spared(group, allows, chosen) if entitlements.has_quotas else chosen

    def possible_from_s(self, group: WorkloadGroup, allows: Allows | None) -> float | None:
        """When do starts and minimum run times allow enough room? None: never, or now."""
        if self._policy.takes_from is TakesFrom.LATER_IN_ORDER:
            return None
        allowance = self._state.after_draining.entitlements.allowance(group.team, group.shape)
        scope = self._scope(group, allowance)
        moment_s = self._search.possible_from_s(
            group.shape,
            self._state.after_draining.cluster.groups(group.shape),
            scope,
            self._is_open(allowance, scope, allows),
        )
        return moment_s if moment_s is not None and moment_s > self._now_s else None

    def protected(self, group: WorkloadGroup) -> list[Holding]:
        """Whom could it take GPUs from, but for their starts and minimum run times? By name."""
        allowance = self._state.after_draining.entitlements.allowance(group.team, group.shape)
        scope = self._scope(group, allowance)
        nodes = set(self._state.after_draining.cluster.eligible(group.shape))
        found = (
            h
            for h in self._candidates.holdings
            if h.protected_until_s > self._now_s
            and not nodes.isdisjoint(s.node for s in h.allocation.placement.shares)
            and self._index.may_preempt(scope, h)
        )
        return sorted(found, key=lambda h: (h.workload.name, h.workload_id))

    def evict(self, victim: PreemptionCandidate) -> None:
        """This one was told to end: it is nobody's victim any more, and its GPUs are coming."""
        self._candidates.remove(victim.workload_id)
        self._state.after_draining.release(victim.holding)
        self.invalidate(s.node for s in victim.holding.allocation.placement.shares)

    def _scope(self, group: WorkloadGroup, allowance: Allowance) -> PreemptionScope:
        entitlements = self._state.after_draining.entitlements
        if not entitlements.has_quotas:
            return PreemptionScope(priority=group.priority, any_team=True)
        reclaims = entitlements.buckets(allowance.reclaimable)
        return PreemptionScope(
            priority=group.priority,
            team=group.team,
            reclaims=reclaims,
            cohorts=entitlements.cohorts(group.team) if reclaims else (),
        )

    def _is_open(
        self, allowance: Allowance, scope: PreemptionScope, allows: Allows | None
    ) -> Callable[[str], bool]:
        entitlements, cluster = (
            self._state.after_draining.entitlements,
            self._state.after_draining.cluster,
        )
        possible = (
            None
            if scope.any_team
            # Its own team's victims may free quota of any kind.
            else allowance.open | allowance.reclaimable | entitlements.held_by(scope.team)
        )

        def is_open(node: str) -> bool:
            flavor = cluster[node].node.flavor
            return (possible is None or flavor in possible) and (allows is None or allows(node))

        return is_open

    def _with_quota(
        self, group: WorkloadGroup, scope: PreemptionScope, victims: list[PreemptionCandidate]
    ) -> list[PreemptionCandidate]:
        """The victims, and those that it takes for the quota to suffice. None, if none do.

        Every victim from another team must be one that its team has borrowed for, counted after
        those before it have gone.
        """
        entitlements, shape = self._state.after_draining.entitlements, group.shape
        if not entitlements.has_quotas:
            return victims
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
                and c.holding.flavor in entitlements.wanted(shape)
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

    def _spared(
        self, group: WorkloadGroup, allows: Allows | None, victims: list[PreemptionCandidate]
    ) -> list[PreemptionCandidate]:
        """The victims without those who are needed neither for quota nor for room.

        Who was chosen for quota may make the room that another was chosen for. Whoever loses the
        most is spared first; with fewer victims there is never more of either.
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
        """Would it have both quota and a place if these gave their GPUs back?"""
        entitlements, cluster = (
            self._state.after_draining.entitlements,
            self._state.after_draining.cluster,
        )
        with entitlements.without(v.holding for v in victims):
            open_flavors = entitlements.allowance(group.team, group.shape).open
        freed = _Freed(
            self._state,
            group.shape,
            lambda node: (
                cluster[node].node.flavor in open_flavors and (allows is None or allows(node))
            ),
        )
        for victim in victims:
            freed.add(victim.holding)
        return freed.fits()

    def _is_enough(self, group: WorkloadGroup, victims: list[PreemptionCandidate]) -> bool:
        entitlements = self._state.after_draining.entitlements
        with entitlements.without(c.holding for c in victims):
            return bool(entitlements.allowance(group.team, group.shape).open)

    def _still_eligible(
        self, scope: PreemptionScope, victims: list[PreemptionCandidate]
    ) -> list[PreemptionCandidate]:
        """The victims, if each may be taken after the others have gone; else nobody."""
        entitlements = self._state.after_draining.entitlements
        gone: list[Holding] = []
        for victim in victims:
            with entitlements.without(gone):
                if not self._index.may_preempt(scope, victim.holding):
                    return []
            gone.append(victim.holding)
        return victims

    # By the order itself: time-slicing policies such as least attained service.

    def _later_in_order(
        self, group: WorkloadGroup, entry: QueueEntry, allows: Allows | None
    ) -> list[PreemptionCandidate]:
        shape, order = group.shape, self._state.order
        own = order.policy_part(entry.key)
        chosen: list[PreemptionCandidate] = []
        freed = _Freed(self._state, shape, allows)
        for key, holding in self._last_first():
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
        # Whoever stands furthest ahead among the victims is spared first.
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
        if not self._state.after_draining.entitlements.has_quotas:
            return True
        return holding.workload.team == group.team

    def _last_first(self) -> list[tuple[Key, Holding]]:
        if self._from_the_back is None:
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
            self._from_the_back = [(order.policy_part(key), h) for key, h in keyed]
        return self._from_the_back


class _Freed:
    """The nodes as they would be without some holders, and whether a shape fits there."""

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
            self._judge(node, self._after_draining[node])

    def fits(self) -> bool:
        """Does the shape fit?"""
        return any(len(nodes) >= self._shape.nodes for nodes in self._fitting.values())

    def add(self, holding: Holding) -> bool:
        """Without this holder, too. False: it holds nothing that could help."""
        nodes = [s.node for s in holding.allocation.placement.shares if s.node in self._group_of]
        for node in nodes:
            if node not in self._node_infos:
                self._node_infos[node] = self._after_draining[node].copy()
            release_holding(self._node_infos[node], holding)
            self._judge(node, self._node_infos[node])
        return bool(nodes)

    def remove(self, holding: Holding) -> None:
        """With this holder after all."""
        for share in holding.allocation.placement.shares:
            if share.node in self._node_infos:
                self._node_infos[share.node].observe(holding.shape, share)
                self._judge(share.node, self._node_infos[share.node])

    def _judge(self, node: str, cluster: NodeInfo) -> None:
        fitting = self._fitting.setdefault(self._group_of[node], set())
        (fitting.add if cluster.fits(self._shape) else fitting.discard)(node)
