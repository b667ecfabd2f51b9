"""Who could give GPUs back for whom, node by node, and what that would cost them."""

from collections.abc import Container, Iterable, Sequence, Set
from typing import NamedTuple

from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.scheduling.allocations import Account, AllocationIndex, Holding
from gpu_core.decisions.scheduling.preemption_cost import (
    Candidates,
    Loss,
    PreemptionCandidate,
    cheapest_covers,
)
from gpu_core.decisions.scheduling.quota_usage import Entitlements


class PreemptionScope(NamedTuple):
    """Whom may a workload take GPUs from? Workloads with equal permits have the same victims."""

    priority: int | None = None
    """From those with less; None: from nobody for its priority."""
    team: str | None = None
    """Of this team; with `any_team`, of all."""
    any_team: bool = False
    reclaims: frozenset[str] = frozenset()
    """And, whatever their priority, from teams that have borrowed in these quota buckets."""
    cohorts: tuple[str, ...] = ()
    """The cohorts of the team that reclaims: equal ones reclaim from the same teams."""

    @property
    def own(self) -> "PreemptionScope":
        """The part that goes by priority."""
        return self._replace(reclaims=frozenset(), cohorts=())

    @property
    def reclaim(self) -> "PreemptionScope":
        """The part that goes by quota."""
        return PreemptionScope(reclaims=self.reclaims, cohorts=self.cohorts)

    def includes(self, holding: Holding, borrowing: Set[Account]) -> bool:
        """Is this one of its victims, minimum run times apart?

        Args:
            holding: What a candidate holds.
            borrowing: Which accounts have borrowed what may be reclaimed under it.
        """
        if (
            self.priority is not None
            # Never among equals: two of the same priority would take each other's GPUs for ever.
            and holding.priority < self.priority
            and (self.any_team or holding.account.team == self.team)
        ):
            return True
        return holding.account in borrowing


class PreemptionIndex:
    """What everybody who holds GPUs could give back, in one cycle.

    Args:
        candidates: Who may be preempted at all; whoever is taken leaves it.
        holdings: Who holds what, by node.
        after_draining: The nodes with what is free or coming, and promised to nobody.
        entitlements: Who borrows what, for permits that reclaim.
        now_s: The cycle's moment.
    """

    def __init__(
        self,
        candidates: Candidates,
        holdings: AllocationIndex,
        after_draining: ClusterInfo,
        entitlements: Entitlements,
        now_s: float,
    ) -> None:
        self.candidates = candidates
        self.after_draining = after_draining
        self.now_s = now_s
        self.changed: list[str] = []
        """The nodes that have changed, in order. Whoever remembers something of nodes remembers how
        far it has read, too: a change costs the same however many remember."""
        self._holdings = holdings
        self._entitlements = entitlements
        self._by_team: dict[str | None, list[Holding]] = {}
        for holding in candidates.holdings:
            self._by_team.setdefault(holding.account.team, []).append(holding)
        self._node_candidates: dict[PreemptionScope, NodeCandidates] = {}
        self._nodes: dict[str, _NodeHoldings] = {}

    def invalidate(self, nodes: Iterable[str]) -> None:
        """What these nodes have, or whom they may lose, is different now."""
        for node in nodes:
            self._nodes.pop(node, None)
            self.changed.append(node)

    def node_candidates(self, scope: PreemptionScope) -> "NodeCandidates":
        """What may be taken under this permit?"""
        node_candidates = self._node_candidates.get(scope)
        if node_candidates is None:
            node_candidates = self._node_candidates[scope] = NodeCandidates(self, scope)
        return node_candidates

    def may_preempt(self, scope: PreemptionScope, holding: Holding) -> bool:
        """Is this one of the permit's victims now, minimum run times apart?"""
        return scope.includes(holding, self.borrowing(scope))

    def borrowing(self, scope: PreemptionScope) -> Set[Account]:
        """Which accounts have borrowed what may be reclaimed under this permit?"""
        if not scope.reclaims:
            return _NOBODY
        return self._entitlements.borrowing(scope.reclaims, scope.cohorts)

    def holdings_of(self, teams: Iterable[str | None]) -> Iterable[Holding]:
        """What the candidates of these teams hold."""
        return (
            h for t in teams for h in self._by_team.get(t, ()) if h.workload_id in self.candidates
        )

    def on(self, node: str) -> "_NodeHoldings":
        """Who could leave this node?"""
        known = self._nodes.get(node)
        if known is None:
            holdings = [h for h in self._holdings.on(node) if h.workload_id in self.candidates]
            holdings.sort(key=lambda holding: holding.workload_id)
            known = self._nodes[node] = _NodeHoldings(node, holdings, self)
        return known


class NodeCandidates:
    """What may be taken under one permit, node by node.

    Args:
        index: Everybody's offers.
        scope: Whom they may be taken from.
    """

    def __init__(self, index: PreemptionIndex, scope: PreemptionScope) -> None:
        self._index = index
        self._scope = scope
        self._borrowing = index.borrowing(scope)
        self._at_first = self._borrowing
        if scope.any_team:
            holdings = index.candidates.holdings
        elif scope.priority is not None:
            holdings = index.holdings_of([scope.team])
        else:
            holdings = index.holdings_of({account.team for account in self._borrowing})
        self.nodes: Set[str] = {
            share.node
            for holding in holdings
            if scope.includes(holding, self._borrowing)
            for share in holding.allocation.placement.shares
        }
        """Where was there somebody to take from when this was first asked? Of a permit with both
        parts: for its priority."""
        self._names_all = scope.priority is None or not scope.reclaims

    def on(self, node: str) -> "CandidateSet | None":
        """What may be taken from this node now? None: nothing."""
        if self._names_all and node not in self.nodes:
            return None
        on_node, borrowing = self._index.on(node), self._borrowing_now()
        if self._scope.priority is None:
            is_included = tuple([holding.account in borrowing for holding in on_node.free])
        else:
            is_included = tuple(
                [self._scope.includes(holding, borrowing) for holding in on_node.free]
            )
        return on_node.candidate_set(is_included) if True in is_included else None

    def holdings_on(self, node: str) -> list[Holding]:
        """Whom on this node does the permit name, whether or not they are protected? By id."""
        includes, borrowing = self._scope.includes, self._borrowing_now()
        return [h for h in self._index.on(node).holdings if includes(h, borrowing)]

    def _borrowing_now(self) -> Set[Account]:
        borrowing = self._index.borrowing(self._scope)
        if self._scope.priority is None and borrowing is not self._at_first:
            # Who begins to borrow within the cycle does so for somebody further ahead.
            return self._at_first & borrowing
        return borrowing


class _NodeHoldings:
    """Who could leave one node.

    Args:
        name: The node.
        holdings: What they hold, by id.
        index: What each would lose, and when this is.
    """

    __slots__ = ("_candidate_sets", "_gpus", "_index", "free", "holdings")

    def __init__(self, name: str, holdings: list[Holding], index: PreemptionIndex) -> None:
        self.holdings = holdings
        self.free = [h for h in holdings if h.protected_until_s <= index.now_s]
        """Those that have begun, and whose minimum run time is over."""
        usable_ids = index.after_draining[name].usable_ids
        self._gpus = [_gpus_on(name, holding, usable_ids) for holding in self.free]
        self._index = index
        self._candidate_sets: dict[tuple[bool, ...], CandidateSet] = {}

    def candidate_set(self, is_included: tuple[bool, ...]) -> "CandidateSet":
        """What do these of the free ones give back?"""
        candidate_set = self._candidate_sets.get(is_included)
        if candidate_set is None:
            candidate_set = self._candidate_sets[is_included] = CandidateSet(
                [
                    (gpus, self._index.candidates[holding.workload_id])
                    for is_taken, gpus, holding in zip(
                        is_included, self._gpus, self.free, strict=True
                    )
                    if is_taken
                ]
            )
        return candidate_set


class CandidateSet:
    """What some who hold GPUs of a node could give back of it.

    Args:
        candidates: How many GPUs each holds there, and who it is, by id.
    """

    __slots__ = ("_candidates", "_covers", "are_whole", "gpus")

    def __init__(self, candidates: Sequence[tuple[int, PreemptionCandidate]]) -> None:
        self._candidates = candidates
        self._covers: list[Loss] | None = None
        self.are_whole = all(c.holding.shape.is_whole for _, c in candidates)
        """All of them have their GPUs to themselves."""
        self.gpus = sum([gpus for gpus, _ in candidates])
        """How many GPUs all of them hold here."""

    @property
    def candidates(self) -> list[PreemptionCandidate]:
        """Who they are, by id."""
        return [candidate for _, candidate in self._candidates]

    def cover(self, gpus: int) -> Loss | None:
        """At what loss do they give back at least so many GPUs? None: they hold less."""
        if gpus > self.gpus:
            return None
        if self._covers is None:
            self._covers = cheapest_covers([(given, c.loss) for given, c in self._candidates])
        return self._covers[gpus]


def _gpus_on(node: str, holding: Holding, usable_ids: Container[str]) -> int:
    shares = holding.allocation.placement.shares
    return sum([g in usable_ids for share in shares if share.node == node for g in share.gpu_ids])


_NOBODY: frozenset[Account] = frozenset()
