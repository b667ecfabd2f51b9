"""Whose GPUs are taken: those whose loss costs the least work, and none needlessly."""

from collections.abc import Callable, Collection, Sequence, Set
from functools import reduce
from heapq import heappop, heappush

from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.placement.groups import Group
from gpu_core.decisions.placement.node_info import NodeInfo
from gpu_core.decisions.scheduling.allocations import Holding
from gpu_core.decisions.scheduling.preemption_candidates import (
    NodeCandidates,
    PreemptionIndex,
    PreemptionScope,
)
from gpu_core.decisions.scheduling.preemption_cost import Loss, PreemptionCandidate


class Victims:
    """Finds victims in one cycle, remembering what one preemptor's search found for the next.

    Args:
        market: Who could give GPUs back.
    """

    def __init__(self, market: PreemptionIndex) -> None:
        self._market = market
        self._candidates = market.candidates
        self._soon = market.soon
        self._covers: dict[tuple[PreemptionScope, Shape], _Covers] = {}

    def least_loss(
        self,
        shape: Shape,
        groups: Sequence[Group],
        permit: PreemptionScope,
        is_open: Callable[[str], bool],
    ) -> list[PreemptionCandidate] | None:
        """Whose GPUs are taken so that the shape fits, with the least loss? None: nobody helps.

        On one node the choice is exact where GPUs are whole (a covering knapsack); a gang takes the
        cheapest nodes. An empty list: it fits without.

        Args:
            shape: What is to fit.
            groups: The nodes of each group.
            permit: Whom it may take from.
            is_open: May it use this node?
        """
        if not permit.reclaims:
            return self._victims(shape, groups, permit, is_open)
        # The two parts apart, which many preemptors share, before both at once, which few need.
        parts = [
            victims
            for part in (permit.own, permit.reclaim)
            if (victims := self._victims(shape, groups, part, is_open)) is not None
        ]
        if parts:
            return min(parts, key=lambda v: reduce(Loss.plus, (c.loss for c in v), Loss()))
        return self._victims(shape, groups, permit, is_open)

    def _victims(
        self,
        shape: Shape,
        groups: Sequence[Group],
        permit: PreemptionScope,
        is_open: Callable[[str], bool],
    ) -> list[PreemptionCandidate] | None:
        offers = self._market.offers(permit)
        if not offers.nodes:
            return None
        covers = self._covers.get((permit, shape))
        if covers is None:
            covers = self._covers[permit, shape] = self._new_covers(shape, groups, offers)
        while True:
            covers.refresh(self._market.changed)
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
                self._market.may_take(permit, victim.holding) for victim in victims.values()
            ):
                return self._without_needless(shape, nodes, victims)
            # A team has stopped borrowing since: what was found for these nodes is no more.
            self._market.change(nodes)

    def _new_covers(
        self, shape: Shape, groups: Sequence[Group], offers: NodeCandidates
    ) -> "_Covers":
        # One node without any victim of this permit is no help.
        worth = offers.nodes if shape.nodes == 1 else None
        are_counted = shape.is_whole and not shape.cpu_milli and not shape.memory_mib

        def cover(node: str) -> Loss | None:
            room = self._soon[node]
            if room.has_left(shape):
                return Loss()
            offer = offers.on(node)
            if offer is None:
                return None
            # Where nothing but whole GPUs counts, their number decides.
            if are_counted and offer.are_whole:
                return offer.cover(shape.gpu_count - room.free_gpus)
            candidates = offer.candidates
            if not self.fits_without(node, shape, candidates):
                return None
            return self._greedy_cover(node, shape, candidates)

        return _Covers(groups, cover, worth, len(self._market.changed))

    def possible_from_s(
        self,
        shape: Shape,
        groups: Sequence[Group],
        permit: PreemptionScope,
        is_open: Callable[[str], bool],
    ) -> float | None:
        """When do starts and minimum run times allow enough room to be made? None: never."""
        moments = []
        for group in groups:
            ready = (self._ready_s(node, shape, permit) for node in group.nodes if is_open(node))
            by_time = sorted(moment for moment in ready if moment is not None)
            if len(by_time) >= shape.nodes:
                moments.append(by_time[shape.nodes - 1])
        return min(moments, default=None)

    def _ready_s(self, node: str, shape: Shape, permit: PreemptionScope) -> float | None:
        if self._soon[node].has_left(shape):
            return self._market.now_s
        room = self._soon[node].copy()
        holdings = self._market.offers(permit).holdings_on(node)
        for holding in sorted(holdings, key=lambda holding: holding.protected_until_s):
            give_back(room, holding)
            if room.has_left(shape):
                return holding.protected_until_s
        return None

    def fits_without(
        self, node: str, shape: Shape, victims: Collection[PreemptionCandidate]
    ) -> bool:
        """Would one node's part of the shape fit if these gave their GPUs back?"""
        room = self._soon[node].copy()
        for victim in victims:
            give_back(room, victim.holding)
        return room.has_left(shape)

    def _greedy_cover(self, node: str, shape: Shape, offered: list[PreemptionCandidate]) -> Loss:
        # CPU, memory and shares of GPUs make this a knapsack of many dimensions: cheapest first
        # until it fits, then spare whoever was needless, the dearest first.
        chosen: list[PreemptionCandidate] = []
        for candidate in sorted(offered, key=lambda c: c.loss):
            chosen.append(candidate)
            if self.fits_without(node, shape, chosen):
                break
        for candidate in sorted(chosen, key=lambda c: c.loss, reverse=True):
            others = [c for c in chosen if c is not candidate]
            if self.fits_without(node, shape, others):
                chosen = others
        return reduce(Loss.plus, (c.loss for c in chosen), Loss())

    def _without_needless(
        self, shape: Shape, nodes: Sequence[str], victims: dict[str, PreemptionCandidate]
    ) -> list[PreemptionCandidate]:
        # A gang on several nodes may make room that others were chosen to make. Whoever loses the
        # most is spared first. One pass is enough: with fewer victims there is never more room.
        kept = dict(victims)
        if len(nodes) > 1:
            for victim in sorted(victims.values(), key=lambda v: v.loss, reverse=True):
                del kept[victim.workload_id]
                shares = victim.holding.allocation.placement.shares
                touched = [share.node for share in shares if share.node in nodes]
                if not all(
                    self.fits_without(node, shape, [c for c in kept.values() if _is_on(c, node)])
                    for node in touched
                ):
                    kept[victim.workload_id] = victim
        return sorted(kept.values(), key=lambda c: c.workload_id)


class _Covers:
    """What it costs to make room for one shape, node by node, the cheapest first.

    Args:
        groups: The nodes of each group.
        cover: The cost on a node; None: there can be no room.
        worth: The nodes that are worth a first look; None: all.
        read: How many changes of nodes came before.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        cover: Callable[[str], Loss | None],
        worth: Set[str] | None,
        read: int,
    ) -> None:
        self._group_of = {node: n for n, group in enumerate(groups) for node in group.nodes}
        self._cover = cover
        self._heaps: list[list[tuple[Loss, str]]] = [[] for _ in groups]
        self._current: dict[str, Loss | None] = {}
        self._unread = self._group_of.keys() if worth is None else worth
        self._read = read

    def refresh(self, changed: Sequence[str]) -> None:
        """Look again at the nodes that have changed since the last time."""
        unread = self._unread | set(changed[self._read :])
        self._unread, self._read = frozenset(), len(changed)
        for node in unread & self._group_of.keys():
            loss = self._current[node] = self._cover(node)
            if loss is not None:
                heappush(self._heaps[self._group_of[node]], (loss, node))

    def cheapest(
        self, group: int, count: int, is_open: Callable[[str], bool]
    ) -> list[tuple[Loss, str]]:
        """So many nodes of the group, or none."""
        heap = self._heaps[group]
        taken: list[tuple[Loss, str]] = []
        seen: list[tuple[Loss, str]] = []
        while heap and len(taken) < count:
            loss, node = heappop(heap)
            if self._current[node] != loss or (seen and seen[-1] == (loss, node)):
                continue
            seen.append((loss, node))
            if is_open(node):
                taken.append((loss, node))
        for entry in seen:
            heappush(heap, entry)
        return taken if len(taken) == count else []


def give_back(room: NodeInfo, holding: Holding) -> None:
    """The holder has given back what it holds of this node."""
    for share in holding.allocation.placement.shares:
        if share.node == room.node.name:
            room.release(holding.shape, share)


def _is_on(candidate: PreemptionCandidate, node: str) -> bool:
    return any(s.node == node for s in candidate.holding.allocation.placement.shares)
