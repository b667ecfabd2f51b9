"""Chooses victims node by node: the sets that lose the least work on each."""

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from functools import partial, reduce
from heapq import heappop, heappush
from typing import NamedTuple
from weakref import proxy

from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.placement.node_info import NodeInfo
from gpu_core.decisions.placement.topology_groups import Group
from gpu_core.decisions.scheduling.eviction.candidates import (
    NodeCandidates,
    PreemptionIndex,
    PreemptionScope,
)
from gpu_core.decisions.scheduling.eviction.cost import Loss, PreemptionCandidate
from gpu_core.decisions.scheduling.state.allocations import Account, Holding

_INFINITE = Loss(lost=10**30)
"""More than any set loses."""


class Choice(NamedTuple):
    """Victims by node, and the nodes that they free."""

    loss: Loss
    """The sum over the nodes; a victim on several of them counts on each."""
    victims: list[PreemptionCandidate]
    """By id."""
    nodes: list[str]


def _cheapest(choices: Sequence[Choice | None]) -> Choice | None:
    found = [choice for choice in choices if choice is not None]
    return min(found, key=lambda choice: choice.loss, default=None)


class PossibleFrom(NamedTuple):
    """The moment from which enough can be preempted, and the nodes on which."""

    moment_s: float
    nodes: list[str]


class Victims:
    """Finds victims in one cycle; searches of different preemptors share a cache.

    Args:
        index: All preemption candidates.
    """

    def __init__(self, index: PreemptionIndex) -> None:
        self._index = index
        self._candidates = index.candidates
        self._after_draining = index.after_draining
        self._least: dict[PreemptionScope, Loss] = {}
        self._covers: dict[tuple[PreemptionScope, Shape], _Covers] = {}

    def least_loss(
        self,
        shape: Shape,
        groups: Sequence[Group],
        scope: PreemptionScope,
        is_open: Callable[[str], bool],
    ) -> "Choice | None":
        """The victims without which the shape fits, at the least loss; None: no set does.

        Node by node: quotas do not count, and what a victim frees on another node does not. For one
        node and whole GPUs no legal set loses less; a gang uses the nodes with the least sum.

        Args:
            shape: The shape to place.
            groups: The nodes of each group.
            scope: Which workloads it may preempt.
            is_open: Returns whether it may use the node.
        """
        if not scope.reclaims:
            return self._choice(shape, groups, scope, is_open)
        # Each part first, which many preemptors share.
        parts = [self._choice(shape, groups, part, is_open) for part in (scope.own, scope.reclaim)]
        best = _cheapest(parts)
        if best is not None and (shape.nodes > 1 or self._least_own(scope) >= best.loss):
            return best
        # A mix has victims of its own team, so it is on one of their nodes.
        mixed = self._choice(shape, groups, scope, is_open)
        return _cheapest([best, mixed])

    def _least_own(self, scope: PreemptionScope) -> Loss:
        """The loss of the cheapest victim by priority: a mix loses more."""
        least = self._least.get(scope.own)
        if least is None:
            losses = (
                loss
                for loss, h in self._index.losses_of(scope.team)
                if h.protected_until_s <= self._index.now_s and scope.includes_by_priority(h)
            )
            least = self._least[scope.own] = min(losses, default=_INFINITE)
        return least

    def node_loss(self, shape: Shape, scope: PreemptionScope, node: str) -> Loss | None:
        """The loss of freeing the node for the shape; None: it cannot be freed."""
        node_candidates = self._index.node_candidates(scope)
        borrowing = node_candidates.borrowing_now()
        return self._cover(shape, node_candidates, counts_only_gpus(shape), node, borrowing)

    def _choice(
        self,
        shape: Shape,
        groups: Sequence[Group],
        scope: PreemptionScope,
        is_open: Callable[[str], bool],
    ) -> "Choice | None":
        node_candidates = self._index.node_candidates(scope)
        if not node_candidates.nodes:
            return None
        covers = self._covers.get((scope, shape))
        if covers is None:
            covers = self._covers[scope, shape] = self._new_covers(shape, node_candidates)
        while True:
            covers.refresh(self._index.changed)
            choices = []
            for number, group in enumerate(groups):
                taken = covers.cheapest(number, shape.nodes, is_open)
                if taken:
                    total = reduce(Loss.plus, (cover for cover, _ in taken))
                    choices.append((total, group.preference, [node for _, node in taken]))
            if not choices:
                return None
            total, _, nodes = min(choices)
            victims = {i: self._candidates[i] for i in total.ids if i in self._candidates}
            if len(victims) == len(set(total.ids)) and all(
                self._index.may_preempt(scope, victim.holding) for victim in victims.values()
            ):
                return Choice(total, sorted(victims.values(), key=lambda c: c.workload_id), nodes)
            # A team has stopped borrowing since: the result for these nodes is outdated.
            self._index.invalidate(nodes)

    def _new_covers(self, shape: Shape, node_candidates: NodeCandidates) -> "_Covers":
        if shape.nodes == 1:
            # A single node without a victim in scope does not help.
            worth: Set[str] | None = node_candidates.nodes
        elif node_candidates.names_all:
            worth = node_candidates.nodes | set(self._after_draining.with_room(shape))
        else:
            worth = None
        # The covers are kept here: they would otherwise be garbage in a cycle with this object.
        this, are_counted = proxy(self), counts_only_gpus(shape)
        bound = partial(Victims._bound, this, shape, node_candidates, are_counted)
        cover = partial(Victims._cover, this, shape, node_candidates, are_counted)
        group_of = self._after_draining.group_numbers(shape)
        borrowing = node_candidates.borrowing_now
        return _Covers(group_of, bound, cover, borrowing, worth, len(self._index.changed))

    def _bound(
        self, shape: Shape, node_candidates: NodeCandidates, are_counted: bool, node: str
    ) -> Loss | None:
        """Freeing the node loses no less; None: it cannot be freed."""
        node_info = self._after_draining[node]
        if node_info.has_left(shape):
            return Loss()
        missing_gpus = shape.gpu_count - node_info.free_gpus
        if are_counted and missing_gpus > node_candidates.most_gpus_on(node):
            return None
        return node_candidates.least_on(node)

    def _cover(
        self,
        shape: Shape,
        node_candidates: NodeCandidates,
        are_counted: bool,
        node: str,
        borrowing: Set[Account],
    ) -> Loss | None:
        node_info = self._after_draining[node]
        if node_info.has_left(shape):
            return Loss()
        missing_gpus = shape.gpu_count - node_info.free_gpus
        if are_counted and missing_gpus > node_candidates.most_gpus_on(node):
            return None
        candidate_set = node_candidates.on(node, borrowing)
        if candidate_set is None:
            return None
        # Where only whole GPUs count, their number decides.
        if are_counted and candidate_set.are_whole:
            return candidate_set.cover(missing_gpus)
        candidates = candidate_set.candidates
        if not self.fits_without(node, shape, candidates):
            return None
        return self._greedy_cover(node, shape, candidates)

    def possible_from(
        self,
        shape: Shape,
        groups: Sequence[Group],
        scope: PreemptionScope,
        is_open: Callable[[str], bool],
    ) -> PossibleFrom | None:
        """The moment from which starts and minimum run times allow enough preemption, and where.

        None: never.
        """
        found = []
        for group in groups:
            open_nodes = filter(is_open, group.nodes)
            ready = ((self._ready_s(node, shape, scope), node) for node in open_nodes)
            by_time = sorted((moment, node) for moment, node in ready if moment is not None)
            first = by_time[: shape.nodes]
            if len(first) == shape.nodes:
                found.append(PossibleFrom(first[-1][0], [node for _, node in first]))
        return min(found, default=None)

    def _ready_s(self, node: str, shape: Shape, scope: PreemptionScope) -> float | None:
        if self._after_draining[node].has_left(shape):
            return self._index.now_s
        node_info = self._after_draining[node].copy()
        holdings = self._index.node_candidates(scope).holdings_on(node)
        for holding in sorted(holdings, key=lambda holding: holding.protected_until_s):
            release_holding(node_info, holding)
            if node_info.has_left(shape):
                return holding.protected_until_s
        return None

    def fits_without(
        self, node: str, shape: Shape, victims: Collection[PreemptionCandidate]
    ) -> bool:
        """Would the shape fit on the node without these victims?"""
        node_info = self._after_draining[node].copy()
        for victim in victims:
            release_holding(node_info, victim.holding)
        return node_info.has_left(shape)

    def _greedy_cover(self, node: str, shape: Shape, candidates: list[PreemptionCandidate]) -> Loss:
        # CPU, memory and parts of GPUs make this a knapsack of many dimensions: cheapest first
        # until it fits, then spare needless victims, the most expensive first.
        chosen: list[PreemptionCandidate] = []
        for candidate in sorted(candidates, key=lambda c: c.loss):
            chosen.append(candidate)
            if self.fits_without(node, shape, chosen):
                break
        for candidate in sorted(chosen, key=lambda c: c.loss, reverse=True):
            others = [c for c in chosen if c is not candidate]
            if self.fits_without(node, shape, others):
                chosen = others
        return reduce(Loss.plus, (c.loss for c in chosen), Loss())


class _Entry(NamedTuple):
    """What it loses to free a node, or a bound of that, which comes before an equal loss."""

    loss: Loss
    is_exact: bool
    node: str
    borrowing: Set[Account] | None
    """Of a bound: the accounts that borrowed when the node was read."""


class _Covers:
    """The loss of freeing each node for one shape, the cheapest first.

    A loss is computed once a search comes to its bound: most nodes are never among the cheapest.

    Args:
        group_of: The number of each node's group.
        bound: The loss on a node is no less; None: the shape cannot fit there. Found fast.
        cover: The loss on a node while these accounts borrow; None: the shape cannot fit there.
        borrowing: The accounts that borrow now.
        worth: The nodes to read first; None: all.
        read: The number of node changes before this.
    """

    def __init__(
        self,
        group_of: Mapping[str, int],
        bound: Callable[[str], Loss | None],
        cover: Callable[[str, Set[Account]], Loss | None],
        borrowing: Callable[[], Set[Account]],
        worth: Set[str] | None,
        read: int,
    ) -> None:
        self._group_of = group_of
        self._bound = bound
        self._cover = cover
        self._borrowing = borrowing
        self._heaps: dict[int, list[_Entry]] = {}
        self._current: dict[str, _Entry] = {}
        self._unread = self._group_of.keys() if worth is None else worth
        self._read = read

    def refresh(self, changed: Sequence[str]) -> None:
        """Reads again the nodes that have changed since the last time."""
        unread = self._unread | set(changed[self._read :])
        self._unread, self._read = frozenset(), len(changed)
        borrowing, bound = self._borrowing(), self._bound
        for node in unread & self._group_of.keys():
            self._note(node, bound(node), borrowing)

    def cheapest(
        self, group: int, count: int, is_open: Callable[[str], bool]
    ) -> list[tuple[Loss, str]]:
        """The `count` cheapest nodes of the group, or none."""
        heap = self._heaps.get(group, [])
        taken: list[tuple[Loss, str]] = []
        seen: list[_Entry] = []
        while heap and len(taken) < count:
            entry = heappop(heap)
            if self._current.get(entry.node) is not entry:
                continue
            if not is_open(entry.node):
                seen.append(entry)
            elif entry.borrowing is not None:
                self._note(entry.node, self._cover(entry.node, entry.borrowing), None)
            else:
                seen.append(entry)
                taken.append((entry.loss, entry.node))
        for entry in seen:
            heappush(heap, entry)
        return taken if len(taken) == count else []

    def _note(self, node: str, loss: Loss | None, borrowing: Set[Account] | None) -> None:
        if loss is None:
            self._current.pop(node, None)
            return
        entry = self._current[node] = _Entry(loss, borrowing is None, node, borrowing)
        heappush(self._heaps.setdefault(self._group_of[node], []), entry)


def release_holding(node_info: NodeInfo, holding: Holding) -> None:
    """Releases the part of a holding that is on this node."""
    for share in holding.allocation.placement.shares:
        if share.node == node_info.node.name:
            node_info.release(holding.shape, share)


def counts_only_gpus(shape: Shape) -> bool:
    """Does the number of free GPUs alone decide whether the shape fits on a node that suits?"""
    return shape.is_whole and not shape.cpu_milli and not shape.memory_mib
