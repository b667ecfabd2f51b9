"""Whose GPUs are taken: those whose loss costs the least work, and none needlessly."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from typing import NamedTuple

from gpu_core.decisions.cluster import Allocation, Node, Placement
from gpu_core.decisions.placement import node_groups, place
from gpu_core.decisions.plan import Preempt
from gpu_core.decisions.policy import Policy
from gpu_core.decisions.scheduling.room import Room
from gpu_core.decisions.units import SECONDS_PER_HOUR
from gpu_core.decisions.workload import Workload

_MICROSECOND = timedelta(microseconds=1)


class _Loss(NamedTuple):
    """What a set of victims costs, in the order in which sets are compared.

    Each part only grows when a victim is added, so that the best sets are made of best sets.
    """

    lost: int = 0
    """micro-USD × s / h, or GPU-seconds where a price is missing."""
    victims: int = 0
    priority_points: int = 0
    run_time_us: int = 0
    """The less of it, the more recently the victims were admitted."""
    ids: tuple[str, ...] = ()

    def plus(self, other: "_Loss") -> "_Loss":
        return _Loss(
            self.lost + other.lost,
            self.victims + other.victims,
            self.priority_points + other.priority_points,
            self.run_time_us + other.run_time_us,
            self.ids + other.ids,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A workload that may have to give its GPUs back, and what that would cost it."""

    allocation: Allocation
    gpus_by_node: Mapping[str, int]
    """How many usable GPUs it would give back, by node."""
    protected_until: datetime
    """The end of its minimum run time."""
    gpu_s_loss: _Loss
    money_loss: _Loss | None
    """None: unpriced."""

    @property
    def workload_id(self) -> str:
        """Whose GPUs these are."""
        return self.allocation.workload.workload_id

    def command(self, preemptor: Workload) -> Preempt:
        """The command that takes these GPUs for `preemptor`."""
        return Preempt(
            workload_id=self.workload_id,
            for_workload_id=preemptor.workload_id,
            lost_gpu_s=self.gpu_s_loss.lost,
            # Whole numbers to the end, rounded half up once.
            lost_micro_usd=(
                None
                if self.money_loss is None
                else (2 * self.money_loss.lost + SECONDS_PER_HOUR) // (2 * SECONDS_PER_HOUR)
            ),
        )


def candidates(
    running: Iterable[Allocation], room: Room, policy: Policy, now: datetime
) -> tuple[Candidate, ...]:
    """Who could be preempted by somebody urgent enough, and what would each lose? By id.

    Args:
        running: Who holds GPUs.
        room: Knows which of those GPUs are of use.
        policy: For prices.
        now: The cycle's moment, aware.
    """
    return tuple(
        _candidate(allocation, room, policy, now)
        for allocation in sorted(running, key=lambda a: a.workload.workload_id)
        if allocation.workload.is_preemptible and not allocation.is_draining
    )


class VictimSearch:
    """Who could make room for one workload on these nodes, and who should?

    Args:
        workload: What wants the GPUs.
        nodes: Its eligible nodes, as far as nobody ahead keeps them.
        candidates: Who was not told to end, by id.
        room: What is free and coming; it is used before anyone is disturbed.
        now: The cycle's moment, aware.
    """

    def __init__(
        self,
        workload: Workload,
        nodes: Sequence[Node],
        candidates: Iterable[Candidate],
        room: Room,
        now: datetime,
    ) -> None:
        self._workload = workload
        self._nodes = nodes
        self._room = room
        self._now = now
        names = {node.name for node in nodes}
        self._candidates = [
            c
            for c in candidates
            # Never among equals: two of the same priority would take each other's GPUs for ever.
            if c.allocation.workload.priority < workload.priority
            and not names.isdisjoint(c.gpus_by_node)
        ]

    def victims(self) -> tuple[Candidate, ...]:
        """Whose GPUs are taken? Nobody's, if that would not make enough room.

        The set with the least lost work: GPUs × price × time since the last checkpoint, or without
        the price where one is missing. On one node the choice is exact (a covering knapsack); a
        gang takes the cheapest nodes. At last nobody is kept whom the others make superfluous.
        """
        ripe = [c for c in self._candidates if c.protected_until <= self._now]
        chosen = self._least_loss(ripe)
        return self._without_needless([c for c in ripe if c.workload_id in chosen])

    def possible_from(self) -> datetime | None:
        """When will minimum run times allow enough room to be made? None: never."""
        for moment in sorted({c.protected_until for c in self._candidates}):
            if self._makes_room([c for c in self._candidates if c.protected_until <= moment]):
                return moment
        return None

    def protected_names(self) -> list[str]:
        """Who is still inside its minimum run time?"""
        return [
            c.allocation.workload.name for c in self._candidates if c.protected_until > self._now
        ]

    def _least_loss(self, ripe: Sequence[Candidate]) -> frozenset[str]:
        offers = self._offers(ripe)
        available = self._room.free_and_coming()
        choices = []
        for group in node_groups(self._workload, self._nodes):
            covers = []
            for node in group.nodes:
                missing = self._workload.gpu_count - len(available[node.name])
                cover = _cheapest_cover(missing, offers[node.name])
                if cover is not None:
                    covers.append((cover, node.name))
            if len(covers) >= self._workload.nodes:
                taken = sorted(covers)[: self._workload.nodes]
                total = reduce(_Loss.plus, (cover for cover, _ in taken))
                choices.append((total, group.preference, [name for _, name in taken]))
        return frozenset(min(choices)[0].ids) if choices else frozenset()

    def _offers(self, ripe: Sequence[Candidate]) -> dict[str, list[tuple[int, _Loss]]]:
        """How many GPUs could come from whom, and at what loss, on each node?"""
        in_money = all(c.money_loss is not None for c in ripe)
        offers: dict[str, list[tuple[int, _Loss]]] = {node.name: [] for node in self._nodes}
        for candidate in ripe:
            loss = candidate.money_loss if in_money else None
            for name, gpus in candidate.gpus_by_node.items():
                if name in offers:
                    offers[name].append((gpus, loss or candidate.gpu_s_loss))
        return offers

    def _without_needless(self, victims: Sequence[Candidate]) -> tuple[Candidate, ...]:
        # A gang on several nodes may make room that others were chosen to make. Whoever loses the
        # most is spared first. One pass is enough: with fewer victims there is never more room.
        kept = list(victims)
        for victim in sorted(victims, key=lambda v: (-v.gpu_s_loss.lost, v.workload_id)):
            others = [v for v in kept if v is not victim]
            if self._makes_room(others):
                kept = others
        return tuple(kept)

    def _makes_room(self, victims: Sequence[Candidate]) -> bool:
        gpus = self._room.free_coming_and_held_by(victim.allocation for victim in victims)
        return isinstance(place(self._workload, self._nodes, gpus), Placement)


def _candidate(allocation: Allocation, room: Room, policy: Policy, now: datetime) -> Candidate:
    placement, workload = allocation.placement, allocation.workload
    gpu_s_loss = _Loss(
        lost=len(placement.gpu_ids) * _unsaved_s(allocation, now),
        victims=1,
        priority_points=workload.priority,
        run_time_us=(now - allocation.admitted_at) // _MICROSECOND,
        ids=(workload.workload_id,),
    )
    price = policy.price_micro_usd_per_gpu_hour(placement.gpu_type or "", placement.capacity_type)
    return Candidate(
        allocation=allocation,
        gpus_by_node={name: len(gpus) for name, gpus in room.held_by(allocation).items()},
        protected_until=allocation.admitted_at + timedelta(seconds=workload.min_runtime_s),
        gpu_s_loss=gpu_s_loss,
        money_loss=None if price is None else gpu_s_loss._replace(lost=gpu_s_loss.lost * price),
    )


def _unsaved_s(allocation: Allocation, now: datetime) -> int:
    saved_at = max(allocation.checkpointed_at or allocation.admitted_at, allocation.admitted_at)
    # Another machine's clock may be ahead of ours; nobody has lost negative work.
    return max(0, (now - saved_at) // timedelta(seconds=1))


def _cheapest_cover(missing: int, offers: Sequence[tuple[int, _Loss]]) -> _Loss | None:
    """Which offers give at least `missing` GPUs with the least loss? None: all are too few.

    Dynamic programming over the GPUs covered so far; more than needed counts as needed.
    """
    if missing <= 0:
        return _Loss()
    best: list[_Loss | None] = [_Loss(), *[None] * missing]
    for gpus, loss in offers:
        # Downwards, so that no offer is taken twice.
        for covered in range(missing, -1, -1):
            before = best[covered]
            if before is None:
                continue
            reached = min(missing, covered + gpus)
            after = before.plus(loss)
            current = best[reached]
            if current is None or after < current:
                best[reached] = after
    return best[missing]
