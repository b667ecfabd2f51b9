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
    scope: tuple[str, ...] = ()
    """The cohorts of the team that reclaims: equal ones reclaim from the same teams."""

    @property
    def own(self) -> "PreemptionScope":
        """The part that goes by priority."""
        return self._replace(reclaims=frozenset(), scope=())

    @property
    def reclaim(self) -> "PreemptionScope":
        """The part that goes by quota."""
        return PreemptionScope(reclaims=self.reclaims, scope=self.scope)

    def takes(self, holding: Holding, borrowing: Set[Account]) -> bool:
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
        soon: The nodes with what is free or coming, and promised to nobody.
        entitlements: Who borrows what, for permits that reclaim.
        now_s: The cycle's moment.
    """

    def __init__(
        self,
        candidates: Candidates,
        holdings: AllocationIndex,
        soon: ClusterInfo,
        entitlements: Entitlements,
        now_s: float,
    ) -> None:
        self.candidates = candidates
        self.soon = soon
        self.now_s = now_s
        self.changed: list[str] = []
        """The nodes that have changed, in order. Whoever remembers something of nodes remembers how
        far it has read, too: a change costs the same however many remember."""
        self._holdings = holdings
        self._entitlements = entitlements
        self._by_team: dict[str | None, list[Holding]] = {}
        for holding in candidates.holdings:
            self._by_team.setdefault(holding.account.team, []).append(holding)
        self._offers: dict[PreemptionScope, NodeCandidates] = {}
        self._nodes: dict[str, _Node] = {}

    def change(self, nodes: Iterable[str]) -> None:
        """What these nodes have, or whom they may lose, is different now."""
        for node in nodes:
            self._nodes.pop(node, None)
            self.changed.append(node)

    def offers(self, permit: PreemptionScope) -> "NodeCandidates":
        """What may be taken under this permit?"""
        offers = self._offers.get(permit)
        if offers is None:
            offers = self._offers[permit] = NodeCandidates(self, permit)
        return offers

    def may_take(self, permit: PreemptionScope, holding: Holding) -> bool:
        """Is this one of the permit's victims now, minimum run times apart?"""
        return permit.takes(holding, self.borrowing(permit))

    def borrowing(self, permit: PreemptionScope) -> Set[Account]:
        """Which accounts have borrowed what may be reclaimed under this permit?"""
        if not permit.reclaims:
            return _NOBODY
        return self._entitlements.borrowing(permit.reclaims, permit.scope)

    def holdings_of(self, teams: Iterable[str | None]) -> Iterable[Holding]:
        """What the candidates of these teams hold."""
        return (
            h for t in teams for h in self._by_team.get(t, ()) if h.workload_id in self.candidates
        )

    def on(self, node: str) -> "_Node":
        """Who could leave this node?"""
        known = self._nodes.get(node)
        if known is None:
            holdings = [h for h in self._holdings.on(node) if h.workload_id in self.candidates]
            holdings.sort(key=lambda holding: holding.workload_id)
            known = self._nodes[node] = _Node(node, holdings, self)
        return known


class NodeCandidates:
    """What may be taken under one permit, node by node.

    Args:
        market: Everybody's offers.
        permit: Whom they may be taken from.
    """

    def __init__(self, market: PreemptionIndex, permit: PreemptionScope) -> None:
        self._market = market
        self._permit = permit
        self._borrowing = market.borrowing(permit)
        self._at_first = self._borrowing
        if permit.any_team:
            holdings = market.candidates.holdings
        elif permit.priority is not None:
            holdings = market.holdings_of([permit.team])
        else:
            holdings = market.holdings_of({account.team for account in self._borrowing})
        self.nodes: Set[str] = {
            share.node
            for holding in holdings
            if permit.takes(holding, self._borrowing)
            for share in holding.allocation.placement.shares
        }
        """Where was there somebody to take from when this was first asked? Of a permit with both
        parts: for its priority."""
        self._names_all = permit.priority is None or not permit.reclaims

    def on(self, node: str) -> "CandidateSet | None":
        """What may be taken from this node now? None: nothing."""
        if self._names_all and node not in self.nodes:
            return None
        on_node, borrowing = self._market.on(node), self._borrowing_now()
        if self._permit.priority is None:
            takes = tuple([holding.account in borrowing for holding in on_node.free])
        else:
            takes = tuple([self._permit.takes(holding, borrowing) for holding in on_node.free])
        return on_node.offer(takes) if True in takes else None

    def holdings_on(self, node: str) -> list[Holding]:
        """Whom on this node does the permit name, whether or not they are protected? By id."""
        takes, borrowing = self._permit.takes, self._borrowing_now()
        return [h for h in self._market.on(node).holdings if takes(h, borrowing)]

    def _borrowing_now(self) -> Set[Account]:
        borrowing = self._market.borrowing(self._permit)
        if self._permit.priority is None and borrowing is not self._at_first:
            # Who begins to borrow within the cycle does so for somebody further ahead.
            return self._at_first & borrowing
        return borrowing


class _Node:
    """Who could leave one node.

    Args:
        name: The node.
        holdings: What they hold, by id.
        market: What each would lose, and when this is.
    """

    __slots__ = ("_gpus", "_market", "_offers", "free", "holdings")

    def __init__(self, name: str, holdings: list[Holding], market: PreemptionIndex) -> None:
        self.holdings = holdings
        self.free = [h for h in holdings if h.protected_until_s <= market.now_s]
        """Those that have begun, and whose minimum run time is over."""
        usable_ids = market.soon[name].usable_ids
        self._gpus = [_gpus_on(name, holding, usable_ids) for holding in self.free]
        self._market = market
        self._offers: dict[tuple[bool, ...], CandidateSet] = {}

    def offer(self, takes: tuple[bool, ...]) -> "CandidateSet":
        """What do these of the free ones give back?"""
        offer = self._offers.get(takes)
        if offer is None:
            offer = self._offers[takes] = CandidateSet(
                [
                    (gpus, self._market.candidates[holding.workload_id])
                    for is_taken, gpus, holding in zip(takes, self._gpus, self.free, strict=True)
                    if is_taken
                ]
            )
        return offer


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
