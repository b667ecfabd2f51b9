"""Whose GPUs are taken: those whose loss costs the least work, and none needlessly."""

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from functools import reduce
from heapq import heappop, heappush
from typing import NamedTuple

from gpu_core.decisions.placement.groups import Group
from gpu_core.decisions.placement.node_room import NodeRoom
from gpu_core.decisions.placement.room import Room
from gpu_core.decisions.scheduling.entitlements import Entitlements
from gpu_core.decisions.scheduling.holdings import Holding, Holdings
from gpu_core.decisions.scheduling.losses import Candidate, Candidates, Loss, cheapest_cover
from gpu_core.decisions.workload import Shape


class Permit(NamedTuple):
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
    def own(self) -> "Permit":
        """The part that goes by priority."""
        return self._replace(reclaims=frozenset(), scope=())

    @property
    def reclaim(self) -> "Permit":
        """The part that goes by quota."""
        return Permit(reclaims=self.reclaims, scope=self.scope)


class Victims:
    """Finds victims in one cycle, remembering what one preemptor's search found for the next.

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
        holdings: Holdings,
        soon: Room,
        entitlements: Entitlements,
        now_s: float,
    ) -> None:
        self._candidates = candidates
        self._holdings = holdings
        self._soon = soon
        self._entitlements = entitlements
        self._by_team: dict[str | None, list[Holding]] = {}
        for holding in candidates.holdings:
            self._by_team.setdefault(holding.workload.team, []).append(holding)
        self._least_priority = min((h.workload.priority for h in candidates.holdings), default=0)
        self._now_s = now_s
        self._covers: dict[tuple[Permit, Shape], _Covers] = {}
        self._named: dict[Permit, dict[str, list[Holding]]] = {}
        # What the shapes of one permit share: who could leave a node, and with how many GPUs.
        self._offers: dict[str, dict[Permit, list[tuple[int, Candidate]]]] = {}

    def touch(self, nodes: Iterable[str]) -> None:
        """What these nodes have, or whom they may lose, is different now."""
        names = tuple(nodes)
        for name in names:
            self._offers.pop(name, None)
        for covers in self._covers.values():
            covers.dirty.update(names)

    def may_take(self, permit: Permit, holding: Holding) -> bool:
        """Is this one of the permit's victims, minimum run times apart?"""
        workload = holding.workload
        if (
            permit.priority is not None
            and workload.priority < permit.priority
            and (permit.any_team or workload.team == permit.team)
        ):
            # Never among equals: two of the same priority would take each other's GPUs for ever.
            return True
        return bool(permit.reclaims) and self._entitlements.borrows_in(
            holding, permit.reclaims, permit.scope
        )

    def least_loss(
        self,
        shape: Shape,
        groups: Sequence[Group],
        permit: Permit,
        is_open: Callable[[str], bool],
    ) -> list[Candidate] | None:
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
        permit: Permit,
        is_open: Callable[[str], bool],
    ) -> list[Candidate] | None:
        covers = self._covers_for(shape, groups, permit)
        while covers is not None:
            covers.refresh(lambda node: self._cover(node, shape, permit))
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
                self.may_take(permit, victim.holding) for victim in victims.values()
            ):
                return self._without_needless(shape, nodes, victims)
            # A team has stopped borrowing since: what was found for these nodes is no more.
            self.touch(nodes)
        return None

    def _covers_for(
        self, shape: Shape, groups: Sequence[Group], permit: Permit
    ) -> "_Covers | None":
        covers = self._covers.get((permit, shape))
        if covers is not None:
            return covers
        named = self._named_by(permit)
        if not named:
            return None
        covers = self._covers[permit, shape] = _Covers(groups)
        if shape.nodes == 1:
            covers.dirty &= named.keys()
        return covers

    def _named_by(self, permit: Permit) -> Mapping[str, Sequence[Holding]]:
        """Whom did the permit name when it was first asked for, node by node?"""
        named = self._named.get(permit)
        if named is None:
            named = self._named[permit] = {}
            for holding in self._may_be_named(permit):
                if holding.workload_id in self._candidates and self.may_take(permit, holding):
                    for share in holding.allocation.placement.shares:
                        named.setdefault(share.node, []).append(holding)
        return named

    def _may_be_named(self, permit: Permit) -> Iterable[Holding]:
        """Who is worth asking about? Of a permit with both parts: by its priority."""
        if permit.any_team:
            is_hopeless = permit.priority is None or self._least_priority >= permit.priority
            return () if is_hopeless else self._candidates.holdings
        if permit.priority is not None:
            return self._by_team.get(permit.team, ())
        borrowers = self._entitlements.borrowers(permit.reclaims, permit.scope)
        return [h for team in borrowers for h in self._by_team.get(team, ())]

    def possible_from_s(
        self, shape: Shape, groups: Sequence[Group], permit: Permit, is_open: Callable[[str], bool]
    ) -> float | None:
        """When will minimum run times allow enough room to be made? None: never."""
        moments = []
        for group in groups:
            ready = (self._ready_s(node, shape, permit) for node in group.nodes if is_open(node))
            by_time = sorted(moment for moment in ready if moment is not None)
            if len(by_time) >= shape.nodes:
                moments.append(by_time[shape.nodes - 1])
        return min(moments, default=None)

    def _ready_s(self, node: str, shape: Shape, permit: Permit) -> float | None:
        if self._soon[node].fits(shape):
            return self._now_s
        room = self._soon[node].copy()
        for candidate in sorted(self._on(node, permit), key=lambda c: c.protected_until_s):
            give_back(room, candidate.holding)
            if room.fits(shape):
                return candidate.protected_until_s
        return None

    def _on(self, node: str, permit: Permit) -> list[Candidate]:
        """Whom on this node does the permit name, whether or not they are protected? By id."""
        # A permit with both parts is indexed by one of them.
        is_whole = permit.priority is None or not permit.reclaims
        holdings = self._named_by(permit).get(node, ()) if is_whole else self._holdings.on(node)
        found = [
            self._candidates[holding.workload_id]
            for holding in holdings
            if holding.workload_id in self._candidates and self.may_take(permit, holding)
        ]
        found.sort(key=lambda candidate: candidate.workload_id)
        return found

    def fits_without(self, node: str, shape: Shape, victims: Collection[Candidate]) -> bool:
        """Would one node's part of the shape fit if these gave their GPUs back?"""
        room = self._soon[node].copy()
        for victim in victims:
            give_back(room, victim.holding)
        return room.fits(shape)

    def _cover(self, node: str, shape: Shape, permit: Permit) -> Loss | None:
        room = self._soon[node]
        if room.fits(shape):
            return Loss()
        offers = self._offers_of(node, permit)
        offered = [candidate for _, candidate in offers]
        if _counts_only(shape, offered):
            missing = shape.gpu_count - room.free_gpus
            return cheapest_cover(missing, [(gpus, c.loss) for gpus, c in offers])
        if not self.fits_without(node, shape, offered):
            return None
        return self._greedy_cover(node, shape, offered)

    def _offers_of(self, node: str, permit: Permit) -> list[tuple[int, Candidate]]:
        """Who may be taken from the node now, and how many usable GPUs would each give back?"""
        known = self._offers.setdefault(node, {})
        offers = known.get(permit)
        if offers is None:
            usable = self._soon[node].usable_ids
            offers = known[permit] = [
                (_usable_gpus(candidate, node, usable), candidate)
                for candidate in self._on(node, permit)
                if candidate.protected_until_s <= self._now_s
            ]
        return offers

    def _greedy_cover(self, node: str, shape: Shape, offered: list[Candidate]) -> Loss:
        # CPU, memory and shares of GPUs make this a knapsack of many dimensions: cheapest first
        # until it fits, then spare whoever was needless, the dearest first.
        chosen: list[Candidate] = []
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
        self, shape: Shape, nodes: Sequence[str], victims: dict[str, Candidate]
    ) -> list[Candidate]:
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
    """What it costs to make room for one shape, node by node, the cheapest first."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self._group_of = {node: n for n, group in enumerate(groups) for node in group.nodes}
        self._heaps: list[list[tuple[Loss, str]]] = [[] for _ in groups]
        self._current: dict[str, Loss | None] = {}
        self.dirty = set(self._group_of)

    def refresh(self, cover: Callable[[str], Loss | None]) -> None:
        for node in sorted(self.dirty & self._group_of.keys()):
            loss = self._current[node] = cover(node)
            if loss is not None:
                heappush(self._heaps[self._group_of[node]], (loss, node))
        self.dirty.clear()

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


def give_back(room: NodeRoom, holding: Holding) -> None:
    for share in holding.allocation.placement.shares:
        if share.node == room.node.name:
            room.give(holding.shape, share)


def _is_on(candidate: Candidate, node: str) -> bool:
    return any(s.node == node for s in candidate.holding.allocation.placement.shares)


def _usable_gpus(candidate: Candidate, node: str, usable: Container[str]) -> int:
    shares = candidate.holding.allocation.placement.shares
    return sum(1 for s in shares if s.node == node for gpu in s.gpu_ids if gpu in usable)


def _counts_only(shape: Shape, others: Iterable[Candidate]) -> bool:
    """Do GPUs that are whole decide alone whether the shape fits on a node?"""
    if shape.cpu_milli or shape.memory_mib or not shape.is_whole:
        return False
    return all(other.holding.shape.is_whole for other in others)
