"""One planning cycle: decides for each pending workload, in order, whether it starts."""

import math
from dataclasses import dataclass
from functools import partial
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI, Workload
from gpu_core.decisions.scheduling.cycle.blocked import BlockedWorkloads
from gpu_core.decisions.scheduling.cycle.plan_builder import PlanBuilder, or_forever
from gpu_core.decisions.scheduling.plan import messages, quota_messages
from gpu_core.decisions.scheduling.plan.decision import (
    Explain,
    WorkloadDecision,
    for_whole_group,
    not_queued,
)
from gpu_core.decisions.scheduling.plan.plan import Command
from gpu_core.decisions.scheduling.queue.ordering import Key
from gpu_core.decisions.scheduling.queue.queue import Queue, QueueEntry, WorkloadGroup
from gpu_core.decisions.scheduling.state.quota_usage import owner_of

Share = tuple[float, float]


class _Cursor(NamedTuple):
    """The position up to which one group was considered."""

    queue: Queue
    place: int
    is_first: bool = False
    """The workload is considered before all others."""

    @property
    def entry(self) -> QueueEntry:
        return self.queue.entries[self.place]


_Ranked = tuple[tuple[bool, Key], _Cursor]


class GroupDecision(NamedTuple):
    """The decision for all workloads of a group behind this position."""

    place: int
    explain: Explain
    is_queued: bool


@dataclass(slots=True)
class CycleOutcome:
    """The decisions of one cycle."""

    commands: list[Command]
    by_workload: dict[str, Explain]
    """By workload; one without an entry has that of its group, or waits behind others."""
    not_queued: set[str]
    """Workloads that start or are not considered."""
    by_group: dict[WorkloadGroup, GroupDecision]
    shares: dict[WorkloadGroup, Share]
    """The fair share of each group's owner when the group was last considered."""
    shares_of: dict[str, Share]
    """The fair share for each workload that was considered itself."""
    preemptors: frozenset[str]
    """Workloads that were considered before all others."""
    entitled: dict[str, Key]
    """Workloads within nominal quota that were considered before one that borrows, with the key of
    that one."""


class Cycle:
    """Runs one planning cycle.

    Args:
        builder: An empty plan with its input.
        preemptors: Workloads that others were preempted for; considered before all others.
        with_explanations: Whether to keep what explanations are made from, which takes time.
    """

    def __init__(
        self, builder: PlanBuilder, *, preemptors: frozenset[str], with_explanations: bool
    ) -> None:
        self._builder = builder
        self._state = builder.state
        self._preemptors = preemptors
        self._with_explanations = with_explanations
        self._blocked = BlockedWorkloads(builder, with_explanations=with_explanations)
        self._entitled_from = math.inf
        """Workloads within nominal quota have been considered down to this priority."""
        self._passed: Key | None = None
        """The key of the borrower that those within nominal quota are considered before."""
        self._outcome = CycleOutcome(builder.commands, {}, set(), {}, {}, {}, preemptors, {})

    def run(self) -> CycleOutcome:
        """Decides for each pending workload in order, then restores the state."""
        try:
            self._walk()
        finally:
            self._builder.undo()
        return self._outcome

    # The queue, in order.

    def _walk(self) -> None:
        pending = self._state.pending
        pending.pass_time(self._builder.now_s)
        # Preemptors come first: the GPUs of their victims are for them.
        first = [i for i in self._preemptors if i in pending]
        cursors = [
            _Cursor(Queue(pending.group(i), [pending.entry(i)]), 0, is_first=True) for i in first
        ]
        cursors += [_Cursor(queue, 0) for queue in pending.queues]
        heap = [(self._rank(cursor), cursor) for cursor in cursors]
        heapify(heap)
        while heap:
            if self._borrows_before_others(heap[0][1]):
                self._consider_entitled(heap)
            else:
                self._step(heap)

    def _step(self, heap: "list[_Ranked]") -> None:
        """Considers the first of the heap, or puts it where it belongs now."""
        rank, cursor = heap[0]
        # Shares only grow within a cycle: an outdated key ranks too high.
        current = self._rank(cursor)
        if current != rank:
            heapreplace(heap, (current, cursor))
            return
        if not cursor.is_first and cursor.entry.workload.workload_id in self._preemptors:
            following = _after(cursor)
        else:
            following = self._consider(cursor)
        if following is None:
            heappop(heap)
        else:
            heapreplace(heap, (self._rank(following), following))

    # Nominal quota before borrowing.

    def _borrows_before_others(self, cursor: _Cursor) -> bool:
        """Is it the first of its priority that needs to borrow?"""
        group = cursor.queue.group
        return (
            group.priority < self._entitled_from
            and self._state.current.entitlements.has_quotas
            and group.shape.gpu_count > 0
            and not cursor.is_first
            and not self._is_entitled(group)
        )

    def _consider_entitled(self, heap: "list[_Ranked]") -> None:
        """Considers those within nominal quota before the first of the heap, which has to borrow.

        They could reclaim what it takes, at the cost of a run that has worked already. Only those
        of at least its priority: its priority precedes others.
        """
        (_, key), cursor = heap[0]
        priority = self._entitled_from = cursor.queue.group.priority

        def is_ahead(cursor: _Cursor) -> bool:
            group = cursor.queue.group
            is_wanted = group.shape.gpu_count > 0 and not group.is_held
            return is_wanted and group.priority >= priority and self._is_entitled(group)

        ahead: list[_Ranked] = []
        others: list[_Ranked] = []
        for ranked in heap:
            (ahead if is_ahead(ranked[1]) else others).append(ranked)
        heap[:] = others
        heapify(ahead)
        self._passed = key
        while ahead:
            if is_ahead(ahead[0][1]):
                self._step(ahead)
            else:
                heap.append(heappop(ahead))
        self._passed = None
        heapify(heap)

    def _is_entitled(self, group: WorkloadGroup) -> bool:
        """Is it within its team's nominal quota?"""
        return self._state.current.entitlements.is_within_nominal(group.team, group.shape)

    def _rank(self, cursor: _Cursor) -> tuple[bool, Key]:
        entry = cursor.entry
        if self._builder.shares is None:
            return not cursor.is_first, entry.key
        w = entry.workload
        share = self._builder.shares.key(w.team, w.user, w.group)
        return not cursor.is_first, self._state.order.with_share(entry.key, share)

    def _consider(self, cursor: _Cursor) -> _Cursor | None:
        """Decides for one workload. Returns the next of its group to consider, if any."""
        if self._builder.shares is not None and self._with_explanations:
            group = cursor.queue.group
            share = self._builder.shares.key(group.team, group.user, group.sweep)
            self._outcome.shares[group] = share
            self._outcome.shares_of[cursor.entry.workload.workload_id] = share
        if self._passed is not None:
            self._outcome.entitled[cursor.entry.workload.workload_id] = self._passed
        decision = self._decide(cursor.queue.group, cursor.entry)
        if self._with_explanations:
            self._note(cursor, decision)
        return _after(cursor, decision.shorter_than_s) if decision.considers_next else None

    def _note(self, cursor: _Cursor, decision: WorkloadDecision) -> None:
        workload_id = cursor.entry.workload.workload_id
        if decision.explain is not None:
            self._outcome.by_workload[workload_id] = decision.explain
        if not decision.is_queued:
            self._outcome.not_queued.add(workload_id)
        is_last = cursor.place + 1 == len(cursor.queue.entries)
        if decision.is_for_whole_group and decision.explain is not None and not is_last:
            rest = GroupDecision(cursor.place, decision.explain, decision.is_queued)
            self._outcome.by_group[cursor.queue.group] = rest

    def _decide(self, group: WorkloadGroup, entry: QueueEntry) -> WorkloadDecision:
        workload = entry.workload
        if workload.hold is not None:
            return not_queued(partial(messages.held, hold=workload.hold))
        if workload.workload_id in self._state.holdings:
            return not_queued(messages.previous_attempt_ending)
        refusal = self._refusal(group, workload) or self._over_budget(group, entry)
        if refusal is not None:
            return refusal
        placement, short_of_spare = self._builder.place_to_start(group, entry)
        if short_of_spare:
            spare = self._builder.policy.preemption.spare_gpus
            return for_whole_group(partial(messages.spare_is_left, spare=spare))
        if placement is not None and self._builder.start(entry, placement):
            return not_queued(partial(messages.starting, placement=placement))
        is_preemptor = workload.workload_id in self._preemptors
        return self._blocked.decide(group, entry, is_preemptor=is_preemptor)

    def _refusal(self, group: WorkloadGroup, workload: Workload) -> WorkloadDecision | None:
        """The reason why it may not start, regardless of free GPUs; None: it may."""
        entitlements, shape = self._state.current.entitlements, group.shape
        never = self._state.current.cluster.never_fits(shape)
        if never is not None and self._builder.exceeds_max_gpus(shape):
            explain = partial(messages.exceeds_max_gpus, policy=self._builder.policy.scale)
            return for_whole_group(explain, is_queued=False)
        if never is not None:
            return for_whole_group(partial(messages.exceeds_cluster, never=never), is_queued=False)
        if not entitlements.could_ever(group.team, shape):
            numbers = entitlements.quota_numbers(group.team, shape)
            return for_whole_group(
                partial(quota_messages.exceeds_quota, numbers=numbers), is_queued=False
            )
        left_milli = entitlements.user_limit_left_milli(owner_of(workload))
        if left_milli is not None and shape.total_gpu_milli > left_milli:
            left_gpus = max(0, left_milli) // WHOLE_GPU_MILLI
            most_gpus = self._builder.policy.max_gpus_per_user(group.team) or 0
            return for_whole_group(
                partial(quota_messages.user_limit, left_gpus=left_gpus, most_gpus=most_gpus)
            )
        return None

    def _over_budget(self, group: WorkloadGroup, entry: QueueEntry) -> WorkloadDecision | None:
        """Does no budget cover it on any flavor? Then it neither waits nor preempts."""
        if self._builder.budgets is None or not group.shape.gpu_count:
            return None
        checks = [
            self._builder.budget_refusal(entry, flavor)
            for flavor in self._state.current.entitlements.wanted(group.shape)
        ]
        refusals = [check for check in checks if check is not None]
        if not checks or len(refusals) < len(checks):
            return None
        # The refusal that ends soonest: the next period may allow it.
        check = min(refusals, key=lambda c: (c.is_permanent, c.total))
        return WorkloadDecision(
            partial(quota_messages.over_budget, check=check), True, is_queued=False
        )


def _after(cursor: _Cursor, shorter_than_s: float = math.inf) -> _Cursor | None:
    entries = cursor.queue.entries
    for index in range(cursor.place + 1, len(entries)):
        if shorter_than_s == math.inf or or_forever(entries[index].planned_s) < shorter_than_s:
            return _Cursor(cursor.queue, index)
    return None
