"""Among which nodes and candidates a search for victims chooses."""

from collections.abc import Callable, Iterator, Sequence

from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.placement.topology_groups import Group
from gpu_core.decisions.scheduling.eviction.candidates import PreemptionIndex, PreemptionScope
from gpu_core.decisions.scheduling.eviction.cost import Loss, PreemptionCandidate
from gpu_core.decisions.scheduling.eviction.victim_problem import QuotaCheck
from gpu_core.decisions.scheduling.eviction.victims import Victims

POOL_SIZE = 24
"""How many candidates one search chooses among at most. Bounds prune most of their sets; that a
search ends is certain only for `victim_search.EXACT_CANDIDATES`."""

Pool = tuple[list[tuple[int, str]], list[PreemptionCandidate]]
"""Nodes with the number of their group, and candidates by id."""


class VictimPools:
    """Pools for one preemptor, the cheapest nodes first.

    Args:
        index: All candidates.
        victims: What it loses to free each node.
        scope: Which candidates it may preempt.
    """

    def __init__(self, index: PreemptionIndex, victims: Victims, scope: PreemptionScope) -> None:
        self._index = index
        self._victims = victims
        self._scope = scope
        self._node_candidates = index.node_candidates(scope)
        self.are_cut = False
        """There are sets of victims that no pool holds."""

    def of(
        self,
        shape: Shape,
        groups: Sequence[Group],
        is_open: Callable[[str], bool],
        quota: QuotaCheck,
    ) -> Iterator[Pool]:
        """The pools to search, one after the other: one that holds all, if that is small enough."""
        ranked = sorted(
            (loss, node, number)
            for number, group in enumerate(groups)
            for node in group.nodes
            if is_open(node) and (loss := self._loss(shape, node)) is not None
        )
        flavors = {group.flavor for group in groups}
        helpers = [] if flavors <= quota.open_flavors(()) else self._helpers(quota)
        everything = self._pool(ranked, helpers)
        if len(everything[1]) <= POOL_SIZE:
            yield everything
            return
        self.are_cut = True
        helpers = sorted(helpers, key=lambda c: c.loss)
        window: list[tuple[Loss, str, int]] = []
        for node in ranked:
            is_full = len(self._pool([*window, node], [])[1]) > POOL_SIZE
            if is_full and len(window) >= shape.nodes:
                yield self._filled(window, helpers)
                window = []
            if shape.nodes > 1 and is_full:
                return
            window.append(node)
        if len(window) >= shape.nodes:
            yield self._filled(window, helpers)

    def _loss(self, shape: Shape, node: str) -> Loss | None:
        return self._victims.node_loss(shape, self._scope, node)

    def _helpers(self, quota: QuotaCheck) -> list[PreemptionCandidate]:
        """The candidates that could free quota, wherever they run."""
        counts, borrowing = quota.counts(), self._index.borrowing(self._scope)
        return [
            self._index.candidates[holding.workload_id]
            for holding in self._index.candidates.holdings
            if holding.protected_until_s <= self._index.now_s
            and self._scope.includes(holding, borrowing)
            and counts(holding)
        ]

    def _filled(
        self, window: list[tuple[Loss, str, int]], helpers: Sequence[PreemptionCandidate]
    ) -> Pool:
        """The window with as many of the cheapest helpers as the pool has room for."""
        _, candidates = self._pool(window, [])
        ids = {candidate.workload_id for candidate in candidates}
        others = [c for c in helpers if c.workload_id not in ids]
        return self._pool(window, others[: max(0, POOL_SIZE - len(candidates))])

    def _pool(
        self, ranked: Sequence[tuple[Loss, str, int]], helpers: Sequence[PreemptionCandidate]
    ) -> Pool:
        found = {candidate.workload_id: candidate for candidate in helpers}
        for _, node, _ in ranked:
            candidate_set = self._node_candidates.on(node)
            if candidate_set is not None:
                found |= {c.workload_id: c for c in candidate_set.candidates}
        return [(number, node) for _, node, number in ranked], [found[i] for i in sorted(found)]
