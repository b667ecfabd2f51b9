"""What is done for a workload that cannot start now, the least disruptive first."""

from functools import partial

from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI, Shape
from gpu_core.decisions.policy.backfill import Backfill
from gpu_core.decisions.scheduling import messages as explain
from gpu_core.decisions.scheduling.consolidation import movers_for
from gpu_core.decisions.scheduling.decision import Decision, Explain, of_all
from gpu_core.decisions.scheduling.plan_builder import PlanBuilder, assumed_s, or_forever
from gpu_core.decisions.scheduling.queue import QueueEntry, WorkloadGroup
from gpu_core.decisions.scheduling.quota_usage import Allowance
from gpu_core.decisions.scheduling.reservations import amount_of


class BlockedWorkloads:
    """Those of one cycle who cannot start now.

    Args:
        draft: The plan so far; promises, victims and reservations are added to it.
        tell: Whether to say why, which takes time.
    """

    def __init__(self, draft: PlanBuilder, *, tell: bool) -> None:
        self._draft = draft
        self._facts = draft.facts
        self._policy = draft.policy
        self._tell = tell
        self._reserved = 0
        self._shapes: dict[Shape, None] = {}

    def verdict(self, kind: WorkloadGroup, entry: QueueEntry) -> Decision:
        """What becomes of it?"""
        is_first = self._is_first(kind.shape)
        self._shapes[kind.shape] = None
        verdict = self._wait_for_coming(kind, entry) or self._preempt(kind, entry)
        if verdict is None and is_first and not kind.takes_free_only:
            verdict = self._consolidate(kind, entry)
        if verdict is not None:
            return verdict
        allowance = self._facts.soon.entitlements.allowance(kind.team, kind.shape)
        if not allowance.open:
            numbers = self._facts.now.entitlements.quota_numbers(kind.team, kind.shape)
            return of_all(partial(explain.waiting_for_quota, numbers=numbers))
        return self._wait_for_gpus(kind, entry, allowance, is_first=is_first)

    def _is_first(self, shape: Shape) -> bool:
        """Is it the first in line for every node that it could use?"""
        room = self._facts.now.room
        return not any(room.overlaps(shape, ahead) for ahead in self._shapes)

    def _wait_for_coming(self, kind: WorkloadGroup, entry: QueueEntry) -> Decision | None:
        """It is promised GPUs that are on their way back, and what is free beside them."""
        draft, leaving = self._draft, self._draft.leaving
        if not leaving:
            return None
        placement = draft.place(self._facts.soon, kind, draft.allows_waiting(kind, entry))
        if placement is None:
            return None
        awaited = draft.promise(entry.workload, placement)
        if not awaited:
            # It waits for the quota of those who leave, not for their GPUs.
            awaited = [
                (holding.workload_id, holding.gpu_milli // WHOLE_GPU_MILLI)
                for holding in map(self._facts.holdings.get, sorted(leaving))
                if holding is not None
            ]
        ends = [leaving[holder_id] for holder_id, _ in awaited]
        tell = partial(
            explain.waiting_for_victims,
            awaited=[(self._name(holder_id), gpus) for holder_id, gpus in awaited],
            latest_s=None
            if None in ends
            else max((e for e in ends if e is not None), default=None),
            now_s=draft.now_s,
        )
        return Decision(tell, True)

    def _preempt(self, kind: WorkloadGroup, entry: QueueEntry) -> Decision | None:
        """GPUs are taken from others for it, if it may and if that makes enough room."""
        draft = self._draft
        if not self._may_preempt(kind) or not kind.shape.gpu_count:
            return None
        victims = draft.preemption.victims(kind, entry, draft.allows_waiting(kind, entry))
        if not victims:
            return None
        draft.preempt(victims, entry.workload)
        return self._wait_for_coming(kind, entry)

    def _may_preempt(self, kind: WorkloadGroup) -> bool:
        return self._policy.preemption.enabled and not kind.takes_free_only

    def _consolidate(self, kind: WorkloadGroup, entry: QueueEntry) -> Decision | None:
        """A few others move for it, if the policy says so and that makes enough room."""
        movers = movers_for(self._draft, kind, entry)
        for victim, to in movers:
            self._draft.move(victim, to, entry.workload)
        return self._wait_for_coming(kind, entry) if movers else None

    def _wait_for_gpus(
        self, kind: WorkloadGroup, entry: QueueEntry, allowance: Allowance, *, is_first: bool
    ) -> Decision:
        shape = kind.shape
        too_long = self._too_long(kind, entry, allowance)
        protected = self._protected(kind, entry) if is_first and self._tell else None
        starts_s = self._keep(entry, shape, allowance, is_first=is_first)
        if too_long is not None:
            return Decision(too_long, True, shorter_than_s=or_forever(entry.planned_s))
        # Each has a reservation of its own then, also of one kind.
        goes_on = self._policy.backfill.mode is Backfill.CONSERVATIVE
        if not is_first or not self._tell:
            return Decision(None, goes_on)
        return Decision(protected or self._first_in_line(shape, starts_s), goes_on)

    def _too_long(
        self, kind: WorkloadGroup, entry: QueueEntry, allowance: Allowance
    ) -> Explain | None:
        """What keeps it from GPUs that a shorter run could have? None: nothing does."""
        if not self._draft.reservations:
            return None
        room, is_open = self._facts.now.room, self._draft.is_open(kind, entry)
        is_payable = self._draft.is_payable(kind, entry)
        flavors = allowance.open if self._facts.now.entitlements.has_quotas else None

        def is_wanted(node: str) -> bool:
            return self._is_not_kept(node) and is_payable(node)

        if room.find(kind.shape, flavors=flavors, allows=is_wanted) is None:
            return None

        def is_open_now(node: str) -> bool:
            return self._is_not_kept(node) and is_open(node)

        is_only_reserved = room.find(kind.shape, flavors=flavors, allows=is_open_now) is not None
        return explain.backfill_would_delay if is_only_reserved else explain.capacity_closed

    def _is_not_kept(self, node: str) -> bool:
        return node not in self._draft.kept

    def _keep(
        self, entry: QueueEntry, shape: Shape, allowance: Allowance, *, is_first: bool
    ) -> float | None:
        """Keep room for it, as far as the policy does so. Returns when it starts, if known."""
        draft, mode = self._draft, self._policy.backfill.mode
        duration_s = or_forever(entry.planned_s)
        if mode is Backfill.GREEDY or (mode is Backfill.EASY and not is_first):
            return None
        if mode is Backfill.CONSERVATIVE and self._reserved >= self._policy.backfill.depth:
            return None
        nodes = self._usable_nodes(shape, allowance)
        if mode is not Backfill.NONE:
            found = draft.reservations.earliest(
                shape, entry.workload.team, nodes, draft.now_s, duration_s, assumed_s(entry)
            )
            if found is not None:
                starts_s, chosen = found
                draft.reservations.reserve(chosen, amount_of(shape), starts_s, duration_s)
                self._reserved += 1
                return starts_s
        draft.kept.update(node for group in nodes for node in group)
        return None

    def _usable_nodes(self, shape: Shape, allowance: Allowance) -> list[list[str]]:
        """The nodes that it may choose among, by group, as far as they are kept for nobody."""
        return [
            [node for node in group.nodes if self._is_not_kept(node)]
            for group in self._facts.now.room.groups(shape)
            if group.flavor in allowance.open or not shape.gpu_count
        ]

    # What the first in line is told.

    def _protected(self, kind: WorkloadGroup, entry: QueueEntry) -> Explain | None:
        draft = self._draft
        if not self._may_preempt(kind):
            return None
        allows = draft.allows_waiting(kind, entry)
        possible_from_s = draft.preemption.possible_from_s(kind, allows)
        if possible_from_s is None:
            return None
        protected = draft.preemption.protected(kind)
        return partial(
            explain.min_runtime_protects,
            protected=[holding.workload.name for holding in protected],
            starting=sum(holding.allocation.is_starting for holding in protected),
            possible_from_s=possible_from_s,
            starts_s=possible_from_s + self._policy.preemption.grace_period_s,
            now_s=draft.now_s,
        )

    def _first_in_line(self, shape: Shape, starts_s: float | None) -> Explain:
        room = self._facts.now.room
        running = [holding.allocation for holding in self._facts.holdings]
        return partial(
            explain.waiting_for_gpus,
            room=room.diagnose(shape),
            holders=explain.holders_on(set(room.eligible(shape)), running),
            starts_s=starts_s,
        )

    def _name(self, workload_id: str) -> str:
        holding = self._facts.holdings.get(workload_id)
        return workload_id if holding is None else holding.workload.name
