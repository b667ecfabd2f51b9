"""One planning cycle: who starts where, whose GPUs are taken, and why everybody else waits."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta

from gpu_core.decisions.cluster import Allocation, Node, Placement, Snapshot
from gpu_core.decisions.errors import InvalidInput
from gpu_core.decisions.placement import (
    NeverFits,
    NotPlaced,
    eligible_nodes,
    fits_ever,
    place,
    shortage,
)
from gpu_core.decisions.plan import Admit, Command, Explanation, Plan
from gpu_core.decisions.policy import Policy
from gpu_core.decisions.scheduling import explain
from gpu_core.decisions.scheduling.line import Line
from gpu_core.decisions.scheduling.ordering import in_order
from gpu_core.decisions.scheduling.preemption import VictimSearch, candidates
from gpu_core.decisions.scheduling.room import Room
from gpu_core.decisions.units import require_aware
from gpu_core.decisions.workload import Workload

_Shape = tuple[int, int, tuple[str, ...], int | None, str | None]


def plan_cycle(snapshot: Snapshot, policy: Policy, now: datetime) -> Plan:
    """What should happen now, and why does everybody else wait?

    The rule is in `DESIGN.md` beside this file. The plan is the same for any order of the
    snapshot's tuples.

    Args:
        snapshot: All nodes, all who hold GPUs, all who wait.
        policy: Preemption and prices.
        now: The moment to plan for, aware.

    Raises:
        InvalidInput: The snapshot contradicts itself (an id twice, a GPU held twice), or `now`
            has no time zone.
    """
    now = require_aware(now, "now")
    _refuse_contradictions(snapshot)
    return _Cycle(snapshot, policy, now).plan(snapshot.pending)


class _Cycle:
    """The state of one cycle: what was promised so far, and to whom."""

    def __init__(self, snapshot: Snapshot, policy: Policy, now: datetime) -> None:
        self._nodes = tuple(sorted(snapshot.nodes, key=lambda node: node.name))
        self._running = tuple(sorted(snapshot.allocations, key=lambda a: a.workload.workload_id))
        self._running_ids = {a.workload.workload_id for a in self._running}
        self._policy = policy
        self._now = now
        self._room = Room(self._nodes, self._running)
        self._line = Line()
        self._candidates = {
            c.workload_id: c for c in candidates(self._running, self._room, policy, now)
        }
        self._commands: list[Command] = []
        self._victim_ids: set[str] = set()
        # Many workloads ask for the same; what depends on the shape alone is found once.
        self._eligible: dict[_Shape, tuple[Node, ...]] = {}
        self._never: dict[_Shape, NeverFits | None] = {}

    def plan(self, pending: Iterable[Workload]) -> Plan:
        """Decide for each workload in the order of the line."""
        explanations = tuple(self._decide(workload) for workload in in_order(pending))
        return Plan(commands=tuple(self._commands), explanations=explanations)

    def _decide(self, workload: Workload) -> Explanation:
        if workload.hold is not None:
            return explain.held(workload, workload.hold)
        if workload.workload_id in self._running_ids:
            return explain.previous_attempt_ending(workload)
        never = self._never_fits(workload)
        if never is not None:
            return explain.exceeds_cluster(workload, never)
        return self._admit(workload) or self._wait(workload)

    def _admit(self, workload: Workload) -> Explanation | None:
        placement = place(workload, self._open_nodes(workload), self._room.free)
        if isinstance(placement, NotPlaced):
            return None
        self._room.promise(placement)
        self._commands.append(Admit(workload_id=workload.workload_id, placement=placement))
        return explain.starting(workload, placement)

    def _wait(self, workload: Workload) -> Explanation:
        eligible = self._eligible_nodes(workload)
        ahead = self._line.ahead_on(eligible)
        position = self._line.join(workload, eligible)
        open_nodes = self._open_nodes(workload)
        if not open_nodes and ahead.count:
            return explain.behind_others(workload, position, ahead.names, ahead.count)
        on_the_way = self._wait_for_coming(workload, open_nodes, position)
        if on_the_way is not None:
            return on_the_way
        preemption = self._preempt(workload, open_nodes, position)
        if preemption is not None:
            return preemption
        # Nothing is on its way to it: whatever it could use is kept for it from here on.
        self._line.keep(eligible)
        if ahead.count:
            return explain.behind_others(workload, position, ahead.names, ahead.count)
        return self._next_in_line(workload, eligible, position)

    def _wait_for_coming(
        self, workload: Workload, nodes: tuple[Node, ...], position: int
    ) -> Explanation | None:
        placement = place(workload, nodes, self._room.free_and_coming())
        if isinstance(placement, NotPlaced):
            return None
        awaited = self._room.promise(placement)
        return explain.waiting_for_victims(workload, position, awaited, self._now)

    def _preempt(
        self, workload: Workload, nodes: tuple[Node, ...], position: int
    ) -> Explanation | None:
        if not self._policy.preemption.enabled:
            return None
        grace_period = timedelta(seconds=self._policy.preemption.grace_period_s)
        search = VictimSearch(workload, nodes, self._candidates.values(), self._room, self._now)
        victims = search.victims()
        if victims:
            deadline = self._now + grace_period
            for victim in victims:
                del self._candidates[victim.workload_id]
                self._victim_ids.add(victim.workload_id)
                self._room.expect(victim.allocation, deadline)
                self._commands.append(victim.command(workload))
            return self._wait_for_coming(workload, nodes, position)
        possible_from = search.possible_from()
        if possible_from is None:
            return None
        self._line.keep(self._eligible_nodes(workload))
        return explain.min_runtime_protects(
            workload,
            position,
            search.protected_names(),
            possible_from,
            expected_start_at=possible_from + grace_period,
            now=self._now,
        )

    def _next_in_line(
        self, workload: Workload, eligible: tuple[Node, ...], position: int
    ) -> Explanation:
        return explain.waiting_for_gpus(
            workload,
            position,
            shortage(workload, self._nodes, self._room.free),
            holders=explain.holders_on(eligible, self._running),
            expected_start_at=self._expected_start_at(workload, eligible),
        )

    def _expected_start_at(self, workload: Workload, nodes: tuple[Node, ...]) -> datetime | None:
        """When will enough of those who said how long they run have ended? None: unknown."""
        ends = [
            (end, allocation)
            for allocation in self._undisturbed()
            if (end := self._expected_end_at(allocation)) is not None
        ]
        for moment in sorted({end for end, _ in ends}):
            # What is being given back counts as free: it comes within the grace period.
            ended = [a for end, a in ends if end <= moment]
            gpus = self._room.free_coming_and_held_by(ended)
            if isinstance(place(workload, nodes, gpus), Placement):
                return moment
        return None

    def _expected_end_at(self, allocation: Allocation) -> datetime | None:
        if allocation.workload.expected_duration_s is None:
            return None
        end = allocation.admitted_at + timedelta(seconds=allocation.workload.expected_duration_s)
        # It runs longer than its owner expected: nobody knows how much longer.
        return end if end > self._now else None

    def _undisturbed(self) -> list[Allocation]:
        """Who holds GPUs and was not told to end, neither before nor in this cycle?"""
        return [
            a
            for a in self._running
            if not a.is_draining and a.workload.workload_id not in self._victim_ids
        ]

    def _open_nodes(self, workload: Workload) -> tuple[Node, ...]:
        return self._line.open_among(self._eligible_nodes(workload))

    def _eligible_nodes(self, workload: Workload) -> tuple[Node, ...]:
        shape = _shape(workload)
        if shape not in self._eligible:
            self._eligible[shape] = eligible_nodes(workload, self._nodes)
        return self._eligible[shape]

    def _never_fits(self, workload: Workload) -> NeverFits | None:
        shape = _shape(workload)
        if shape not in self._never:
            self._never[shape] = fits_ever(workload, self._nodes)
        return self._never[shape]


def _shape(workload: Workload) -> _Shape:
    return (
        workload.gpu_count,
        workload.nodes,
        workload.gpu_types,
        workload.gpu_memory_gib,
        workload.capacity_type,
    )


def _refuse_contradictions(snapshot: Snapshot) -> None:
    _refuse_twice("nodes", (node.name for node in snapshot.nodes))
    for node in snapshot.nodes:
        _refuse_twice(f"nodes.{node.name}.gpu_ids", node.gpu_ids)
    _refuse_twice("pending", (workload.workload_id for workload in snapshot.pending))
    _refuse_twice("allocations", (a.workload.workload_id for a in snapshot.allocations))
    _refuse_twice(
        "allocations.placement",
        (
            (share.node, gpu_id)
            for allocation in snapshot.allocations
            for share in allocation.placement.shares
            for gpu_id in share.gpu_ids
        ),
    )


def _refuse_twice(field: str, ids: Iterable[object]) -> None:
    counts = Counter(ids)
    twice = [item for item, count in counts.items() if count > 1]
    if twice:
        raise InvalidInput(f"snapshot.{field}", "names the same thing twice", got=twice[0])
