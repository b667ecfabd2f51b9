"""The workloads that could be preempted, by node and scope, with their losses."""

import math
from collections.abc import Collection, Container, Iterable, Sequence, Set
from typing import NamedTuple
from weakref import proxy

from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.scheduling.eviction.cost import (
    Candidates,
    Loss,
    PreemptionCandidate,
    cheapest_covers,
)
from gpu_core.decisions.scheduling.state.allocations import Account, AllocationIndex, Holding
from gpu_core.decisions.scheduling.state.quota_usage import Entitlements


class PreemptionScope(NamedTuple):
    """The workloads that a preemptor may preempt. Equal scopes have the same victims."""

    priority: int | None = None
    """Preempts lower priorities; None: none by priority."""
    waits: tuple[int, float] | None = None
    """The preemptor's `priority_override` and submission: what was put first and admitted since
    then came before it, and is not preempted. None: no candidate was put first."""
    team: str | None = None
    """By priority in this team; with `any_team`, in all."""
    any_team: bool = False
    reclaims: frozenset[str] = frozenset()
    """Reclaims from teams that borrow in these quota buckets, at any priority."""
    cohorts: tuple[str, ...] = ()
    """The cohorts of the reclaiming team: equal ones reclaim from the same teams."""

    @property
    def own(self) -> "PreemptionScope":
        """The part that goes by priority."""
        return self._replace(reclaims=frozenset(), cohorts=())

    @property
    def reclaim(self) -> "PreemptionScope":
        """The part that goes by quota."""
        return PreemptionScope(reclaims=self.reclaims, cohorts=self.cohorts)

    def includes(self, holding: Holding, borrowing: Set[Account]) -> bool:
        """Does the scope include this holding, regardless of minimum run times?

        Args:
            holding: The holding of a candidate.
            borrowing: The accounts that borrow what may be reclaimed.
        """
        return self.includes_by_priority(holding) or holding.account in borrowing

    def includes_by_priority(self, holding: Holding) -> bool:
        """Is it of a lower priority, in the same team where there are quotas?"""
        return (
            self.priority is not None
            # Never among equals: two of the same priority would preempt each other for ever. What
            # a workload gained by waiting counts for a victim only: it never lets one preempt, and
            # keeps what it put first from being preempted for what it was put before.
            and holding.points < self.priority
            and (self.any_team or holding.account.team == self.team)
            and not self._waited_behind(holding)
        )

    def _waited_behind(self, holding: Holding) -> bool:
        """Was the holding put first, and admitted while the preemptor waited already?"""
        if self.waits is None or not holding.was_put_first:
            return False
        override, since_s = self.waits
        ahead = (-holding.workload.priority_override, not holding.was_starving)
        return since_s <= holding.admitted_s and ahead < (-override, True)


class PreemptionIndex:
    """All preemption candidates of one cycle, by node.

    Args:
        candidates: The workloads that may be preempted; a victim is removed.
        holdings: The allocations, by node.
        after_draining: The nodes with what is free or draining, and not assigned.
        entitlements: Borrowed quota, for scopes that reclaim.
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
        """The nodes that have changed, in order. Caches remember how far they have read, so that a
        change costs the same for any number of caches."""
        self._holdings = holdings
        self._entitlements = entitlements
        self._by_team: dict[str | None, list[Holding]] = {}
        for holding in candidates.holdings:
            self._by_team.setdefault(holding.account.team, []).append(holding)
        self.teams: Set[str | None] = self._by_team.keys()
        """The teams with a candidate at first."""
        self._losses: dict[str | None, dict[str, tuple[Loss, Holding]]] = {}
        self._node_candidates: dict[PreemptionScope, NodeCandidates] = {}
        self._nodes: dict[str, _NodeHoldings] = {}

    def invalidate(self, nodes: Iterable[str]) -> None:
        """Marks nodes whose resources or candidates have changed."""
        for node in nodes:
            self._nodes.pop(node, None)
            self.changed.append(node)

    def node_candidates(self, scope: PreemptionScope) -> "NodeCandidates":
        """The candidates in this scope, by node."""
        node_candidates = self._node_candidates.get(scope)
        if node_candidates is None:
            node_candidates = self._node_candidates[scope] = NodeCandidates(self, scope)
        return node_candidates

    def may_preempt(self, scope: PreemptionScope, holding: Holding) -> bool:
        """Does the scope include this holding now, regardless of minimum run times?"""
        return scope.includes(holding, self.borrowing(scope))

    def borrowing(self, scope: PreemptionScope) -> Set[Account]:
        """The accounts that borrow what may be reclaimed in this scope."""
        if not scope.reclaims:
            return _NO_ACCOUNTS
        return self._entitlements.borrowing(scope.reclaims, scope.cohorts)

    def losses_of(self, team: str | None) -> Collection[tuple[Loss, Holding]]:
        """The candidates of the team that are left, with what each loses."""
        losses = self._losses.get(team)
        if losses is None:
            ids = [h.workload_id for h in self._by_team.get(team, ())]
            left = [self.candidates[i] for i in ids if i in self.candidates]
            losses = self._losses[team] = {c.workload_id: (c.loss, c.holding) for c in left}
        return losses.values()

    def remove(self, holding: Holding) -> None:
        """Removes a candidate that is evicted."""
        self.candidates.remove(holding.workload_id)
        self._losses.get(holding.account.team, {}).pop(holding.workload_id, None)
        self.invalidate(share.node for share in holding.allocation.placement.shares)

    def gpus_on(self, node: str, holding: Holding) -> int:
        """How many usable GPUs of the node does it hold?"""
        return _gpus_on(node, holding, self.after_draining[node].usable_ids)

    def on(self, node: str) -> "_NodeHoldings":
        """The candidates on this node."""
        known = self._nodes.get(node)
        if known is None:
            holdings = [h for h in self._holdings.on(node) if h.workload_id in self.candidates]
            holdings.sort(key=lambda holding: holding.workload_id)
            known = self._nodes[node] = _NodeHoldings(node, holdings, self)
        return known


class NodeCandidates:
    """The candidates in one scope, by node.

    Args:
        index: All candidates.
        scope: Which of them may be preempted.
    """

    def __init__(self, index: PreemptionIndex, scope: PreemptionScope) -> None:
        # The index keeps this object, which would otherwise be garbage in a cycle with it.
        self._index = proxy(index)
        self._scope = scope
        self._borrowing = index.borrowing(scope)
        self._initially_borrowing = self._borrowing_read = self._borrowing
        self.names_all = scope.priority is None or not scope.reclaims
        """No other node has a candidate in this cycle."""
        self._least: dict[str, Loss] = {}
        self._gpus: dict[str, int] = {}
        for loss, holding in self._in_scope():
            for share in holding.allocation.placement.shares:
                least = self._least.get(share.node)
                if least is None or loss < least:
                    self._least[share.node] = loss
                self._gpus[share.node] = self._gpus.get(share.node, 0) + len(share.gpu_ids)
        self.nodes: Set[str] = self._least.keys()
        """Nodes with a candidate when the scope was first used. Of a scope with both parts: by
        priority only."""
        self._known: dict[str, tuple[_NodeHoldings, Set[Account], CandidateSet | None]] = {}
        """The last answer for a node, and what it was about."""

    def _in_scope(self) -> list[tuple[Loss, Holding]]:
        """The candidates in scope, with what each loses. Of both parts: those by priority."""
        index, scope, borrowing = self._index, self._scope, self._borrowing
        if scope.any_team:
            teams = index.teams
        elif scope.priority is not None:
            teams = {scope.team}
        else:
            teams = {account.team for account in borrowing}
        pairs = (pair for team in teams for pair in index.losses_of(team))
        if not borrowing:
            return [pair for pair in pairs if scope.includes_by_priority(pair[1])]
        return [pair for pair in pairs if scope.includes(pair[1], borrowing)]

    def least_on(self, node: str) -> Loss | None:
        """No set of its candidates on the node loses less; None: it has none.

        Of a scope with both parts candidates may join: nothing is known.
        """
        return self._least.get(node) if self.names_all else Loss()

    def most_gpus_on(self, node: str) -> float:
        """How many GPUs of the node could its candidates hold at most?"""
        return self._gpus.get(node, 0) if self.names_all else math.inf

    def on(self, node: str, borrowing: Set[Account] | None = None) -> "CandidateSet | None":
        """The candidates that the node has now; None: none.

        Args:
            node: The node.
            borrowing: The accounts that borrow; None: those that do now.
        """
        if self.names_all and node not in self.nodes:
            return None
        on_node = self._index.on(node)
        borrowing = self.borrowing_now() if borrowing is None else borrowing
        known = self._known.get(node)
        if known is not None and known[0] is on_node and known[1] is borrowing:
            return known[2]
        found = self._among(on_node, borrowing)
        self._known[node] = on_node, borrowing, found
        return found

    def _among(self, on_node: "_NodeHoldings", borrowing: Set[Account]) -> "CandidateSet | None":
        scope = self._scope
        if scope.priority is None:
            places = on_node.places_of_accounts(borrowing)
        elif scope.any_team or scope.reclaims:
            places = tuple([n for n, h in enumerate(on_node.free) if scope.includes(h, borrowing)])
        else:
            of_team, free = on_node.places_of_team(scope.team), on_node.free
            places = tuple([n for n in of_team if scope.includes_by_priority(free[n])])
        return on_node.candidate_set(places) if places else None

    def holdings_on(self, node: str) -> list[Holding]:
        """The holdings on the node that are in scope, protected or not, by id."""
        includes, borrowing = self._scope.includes, self.borrowing_now()
        return [h for h in self._index.on(node).holdings if includes(h, borrowing)]

    def borrowing_now(self) -> Set[Account]:
        """The accounts that borrow what may be reclaimed; the same object while they are."""
        if not self._scope.reclaims:
            return _NO_ACCOUNTS
        borrowing = self._index.borrowing(self._scope)
        if self._scope.priority is None and borrowing is not self._borrowing_read:
            self._borrowing_read = borrowing
            # A team that starts to borrow in this cycle does so for a workload further ahead.
            self._borrowing = self._initially_borrowing & borrowing
        return borrowing if self._scope.priority is not None else self._borrowing


class _NodeHoldings:
    """The candidates on one node.

    Args:
        name: The node.
        holdings: Their holdings, by id.
        index: The loss of each, and the time of the cycle.
    """

    __slots__ = ("_candidate_sets", "_candidates", "_gpus", "_places_of_team", "free", "holdings")

    def __init__(self, name: str, holdings: list[Holding], index: PreemptionIndex) -> None:
        self.holdings = holdings
        self.free = [h for h in holdings if h.protected_until_s <= index.now_s]
        """Holdings that have started and are past their minimum run time."""
        usable_ids = index.after_draining[name].usable_ids
        self._gpus = [_gpus_on(name, holding, usable_ids) for holding in self.free]
        self._candidates = index.candidates
        self._places_of_team: dict[str | None, list[int]] | None = None
        self._candidate_sets: dict[tuple[int, ...], CandidateSet] = {}

    def places_of_team(self, team: str | None) -> Sequence[int]:
        """The places in `free` of holdings of this team."""
        if self._places_of_team is None:
            self._places_of_team = {}
            for place, holding in enumerate(self.free):
                self._places_of_team.setdefault(holding.account.team, []).append(place)
        return self._places_of_team.get(team, ())

    def places_of_accounts(self, accounts: Set[Account]) -> tuple[int, ...]:
        """The places in `free` of holdings that count against one of these accounts."""
        return tuple([place for place, h in enumerate(self.free) if h.account in accounts])

    def candidate_set(self, places: tuple[int, ...]) -> "CandidateSet":
        """The candidates at these places of `free`."""
        candidate_set = self._candidate_sets.get(places)
        if candidate_set is None:
            candidates, gpus, free = self._candidates, self._gpus, self.free
            candidate_set = self._candidate_sets[places] = CandidateSet(
                [(gpus[place], candidates[free[place].workload_id]) for place in places]
            )
        return candidate_set


class CandidateSet:
    """Some candidates on one node, and what their preemption would free.

    Args:
        candidates: The GPUs that each holds there, and the candidate, by id.
    """

    __slots__ = ("_candidates", "_covers", "are_whole", "gpus")

    def __init__(self, candidates: Sequence[tuple[int, PreemptionCandidate]]) -> None:
        self._candidates = candidates
        self._covers: list[Loss] | None = None
        self.are_whole = all(c.holding.shape.is_whole for _, c in candidates)
        """All of them hold whole GPUs."""
        self.gpus = sum([gpus for gpus, _ in candidates])
        """The GPUs that all of them hold here."""

    @property
    def candidates(self) -> list[PreemptionCandidate]:
        """The candidates, by id."""
        return [candidate for _, candidate in self._candidates]

    def cover(self, gpus: int) -> Loss | None:
        """The least loss that frees at least this many GPUs; None: they hold less."""
        if gpus > self.gpus:
            return None
        if self._covers is None:
            self._covers = cheapest_covers([(given, c.loss) for given, c in self._candidates])
        return self._covers[gpus]


def _gpus_on(node: str, holding: Holding, usable_ids: Container[str]) -> int:
    shares = holding.allocation.placement.shares
    return sum([g in usable_ids for share in shares if share.node == node for g in share.gpu_ids])


_NO_ACCOUNTS: frozenset[Account] = frozenset()
