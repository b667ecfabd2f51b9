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
from gpu_core.decisions.scheduling.victims import Victims, give_back

Allows = Callable[[str], bool]
"""May this node be used?"""


class Preemption:
    """Chooses victims in one cycle.

    With quotas a workload takes from its own team by priority, and from other teams only what they
    have borrowed while it stays within its own team's nominal quota. It can therefore never be its
    victims' victim in turn: priorities are strict, and who reclaims does not borrow.

    Args:
        facts: What is so; changed as victims are chosen.
        candidates: Who may be preempted at all, by id.
        policy: The rules.
        now_s: The cycle's moment.
    """

    def __init__(
        self,
        facts: SchedulerState,
        candidates: Candidates,
        policy: PreemptionPolicy,
        now_s: float,
    ) -> None:
        self._facts = facts
        self._candidates = candidates
        self._policy = policy
        self._now_s = now_s
        self._market = PreemptionIndex(
            candidates, facts.holdings, facts.soon.room, facts.soon.entitlements, now_s
        )
        self._search = Victims(self._market)
        self._from_the_back: list[tuple[Key, Holding]] | None = None

    def touch(self, nodes: Iterable[str]) -> None:
        """What these nodes have is different now."""
        self._market.change(nodes)

    def victims(
        self, kind: WorkloadGroup, entry: QueueEntry, allows: Allows | None
    ) -> list[PreemptionCandidate]:
        """Whose GPUs should be taken for it? Nobody's, if that would not make enough room."""
        if self._policy.takes_from is TakesFrom.LATER_IN_ORDER:
            return self._later_in_order(kind, entry, allows)
        account = self._facts.soon.entitlements
        allowance = account.allowance(kind.team, kind.shape)
        permit = self._permit(kind, allowance)
        groups = self._facts.soon.room.groups(kind.shape)
        found = self._search.least_loss(
            kind.shape, groups, permit, self._is_open(allowance, permit, allows)
        )
        if found is None:
            return []
        chosen = self._with_quota(kind, permit, found)
        return self._spared(kind, allows, chosen) if account.has_quotas else chosen

    def possible_from_s(self, kind: WorkloadGroup, allows: Allows | None) -> float | None:
        """When do starts and minimum run times allow enough room? None: never, or now."""
        if self._policy.takes_from is TakesFrom.LATER_IN_ORDER:
            return None
        allowance = self._facts.soon.entitlements.allowance(kind.team, kind.shape)
        permit = self._permit(kind, allowance)
        moment_s = self._search.possible_from_s(
            kind.shape,
            self._facts.soon.room.groups(kind.shape),
            permit,
            self._is_open(allowance, permit, allows),
        )
        return moment_s if moment_s is not None and moment_s > self._now_s else None

    def protected(self, kind: WorkloadGroup) -> list[Holding]:
        """Whom could it take GPUs from, but for their starts and minimum run times? By name."""
        allowance = self._facts.soon.entitlements.allowance(kind.team, kind.shape)
        permit = self._permit(kind, allowance)
        nodes = set(self._facts.soon.room.eligible(kind.shape))
        found = (
            h
            for h in self._candidates.holdings
            if h.protected_until_s > self._now_s
            and not nodes.isdisjoint(s.node for s in h.allocation.placement.shares)
            and self._market.may_take(permit, h)
        )
        return sorted(found, key=lambda h: (h.workload.name, h.workload_id))

    def evict(self, victim: PreemptionCandidate) -> None:
        """This one was told to end: it is nobody's victim any more, and its GPUs are coming."""
        self._candidates.remove(victim.workload_id)
        self._facts.soon.release(victim.holding)
        self.touch(s.node for s in victim.holding.allocation.placement.shares)

    def _permit(self, kind: WorkloadGroup, allowance: Allowance) -> PreemptionScope:
        account = self._facts.soon.entitlements
        if not account.has_quotas:
            return PreemptionScope(priority=kind.priority, any_team=True)
        reclaims = account.buckets(allowance.reclaimable)
        return PreemptionScope(
            priority=kind.priority,
            team=kind.team,
            reclaims=reclaims,
            scope=account.scope(kind.team) if reclaims else (),
        )

    def _is_open(
        self, allowance: Allowance, permit: PreemptionScope, allows: Allows | None
    ) -> Callable[[str], bool]:
        account, room = self._facts.soon.entitlements, self._facts.soon.room
        possible = (
            None
            if permit.any_team
            # Its own team's victims may free quota of any kind.
            else allowance.open | allowance.reclaimable | account.held_by(permit.team)
        )

        def is_open(node: str) -> bool:
            flavor = room[node].node.flavor
            return (possible is None or flavor in possible) and (allows is None or allows(node))

        return is_open

    def _with_quota(
        self, kind: WorkloadGroup, permit: PreemptionScope, victims: list[PreemptionCandidate]
    ) -> list[PreemptionCandidate]:
        """The victims, and those that it takes for the quota to suffice. None, if none do.

        Every victim from another team must be one that its team has borrowed for, counted after
        those before it have gone.
        """
        account, shape = self._facts.soon.entitlements, kind.shape
        if not account.has_quotas:
            return victims
        chosen = sorted(victims, key=lambda c: c.loss)
        if self._is_enough(kind, chosen):
            return self._fair(permit, chosen)
        ids = {c.workload_id for c in chosen}
        others = sorted(
            (
                c
                for c in self._candidates.values()
                if c.workload_id not in ids
                and c.holding.protected_until_s <= self._now_s
                and c.holding.flavor in account.wanted(shape)
                and self._market.may_take(permit, c.holding)
            ),
            key=lambda c: c.loss,
        )
        needed = list(chosen)
        for candidate in others:
            needed.append(candidate)
            if self._is_enough(kind, needed):
                break
        else:
            return []
        for candidate in reversed(needed[len(chosen) : -1]):
            fewer = [c for c in needed if c is not candidate]
            if self._is_enough(kind, fewer):
                needed = fewer
        return self._fair(permit, needed)

    def _spared(
        self, kind: WorkloadGroup, allows: Allows | None, victims: list[PreemptionCandidate]
    ) -> list[PreemptionCandidate]:
        """The victims without those who are needed neither for quota nor for room.

        Who was chosen for quota may make the room that another was chosen for. Whoever loses the
        most is spared first; with fewer victims there is never more of either.
        """
        kept = victims
        for victim in sorted(victims, key=lambda v: v.loss, reverse=True):
            others = [v for v in kept if v is not victim]
            if others and self._suffice(kind, allows, others):
                kept = others
        return kept

    def _suffice(
        self, kind: WorkloadGroup, allows: Allows | None, victims: list[PreemptionCandidate]
    ) -> bool:
        """Would it have both quota and a place if these gave their GPUs back?"""
        account, room = self._facts.soon.entitlements, self._facts.soon.room
        with account.without(v.holding for v in victims):
            open_flavors = account.allowance(kind.team, kind.shape).open
        freed = _Freed(
            self._facts,
            kind.shape,
            lambda node: (
                room[node].node.flavor in open_flavors and (allows is None or allows(node))
            ),
        )
        for victim in victims:
            freed.add(victim.holding)
        return freed.fits()

    def _is_enough(self, kind: WorkloadGroup, victims: list[PreemptionCandidate]) -> bool:
        account = self._facts.soon.entitlements
        with account.without(c.holding for c in victims):
            return bool(account.allowance(kind.team, kind.shape).open)

    def _fair(
        self, permit: PreemptionScope, victims: list[PreemptionCandidate]
    ) -> list[PreemptionCandidate]:
        """The victims, if each may be taken after the others have gone; else nobody."""
        account = self._facts.soon.entitlements
        gone: list[Holding] = []
        for victim in victims:
            with account.without(gone):
                if not self._market.may_take(permit, victim.holding):
                    return []
            gone.append(victim.holding)
        return victims

    # By the order itself: time-slicing policies such as least attained service.

    def _later_in_order(
        self, kind: WorkloadGroup, entry: QueueEntry, allows: Allows | None
    ) -> list[PreemptionCandidate]:
        shape, order = kind.shape, self._facts.order
        own = order.policy_part(entry.key)
        chosen: list[PreemptionCandidate] = []
        freed = _Freed(self._facts, shape, allows)
        for key, holding in self._last_first():
            if key <= own:
                return []
            if not self._may_follow(kind, holding):
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

    def _may_follow(self, kind: WorkloadGroup, holding: Holding) -> bool:
        if holding.workload_id not in self._candidates:
            return False
        if holding.protected_until_s > self._now_s:
            return False
        if not self._facts.soon.entitlements.has_quotas:
            return True
        return holding.workload.team == kind.team

    def _last_first(self) -> list[tuple[Key, Holding]]:
        if self._from_the_back is None:
            order, now_s = self._facts.order, self._now_s
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

    def __init__(self, facts: SchedulerState, shape: Shape, allows: Allows | None) -> None:
        self._shape = shape
        self._soon = facts.soon.room
        self._group_of = {
            node: number
            for number, group in enumerate(self._soon.groups(shape))
            for node in group.nodes
            if allows is None or allows(node)
        }
        self._rooms: dict[str, NodeInfo] = {}
        self._fitting: dict[int, set[str]] = {}
        for node in self._group_of:
            self._judge(node, self._soon[node])

    def fits(self) -> bool:
        """Does the shape fit?"""
        return any(len(nodes) >= self._shape.nodes for nodes in self._fitting.values())

    def add(self, holding: Holding) -> bool:
        """Without this holder, too. False: it holds nothing that could help."""
        nodes = [s.node for s in holding.allocation.placement.shares if s.node in self._group_of]
        for node in nodes:
            if node not in self._rooms:
                self._rooms[node] = self._soon[node].copy()
            give_back(self._rooms[node], holding)
            self._judge(node, self._rooms[node])
        return bool(nodes)

    def remove(self, holding: Holding) -> None:
        """With this holder after all."""
        for share in holding.allocation.placement.shares:
            if share.node in self._rooms:
                self._rooms[share.node].observe(holding.shape, share)
                self._judge(share.node, self._rooms[share.node])

    def _judge(self, node: str, room: NodeInfo) -> None:
        fitting = self._fitting.setdefault(self._group_of[node], set())
        (fitting.add if room.fits(self._shape) else fitting.discard)(node)
