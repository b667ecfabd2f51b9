"""One planning cycle: one walk along the line that says of everybody who starts and who waits."""

import math
from dataclasses import dataclass
from functools import partial
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI, Workload
from gpu_core.decisions.scheduling import messages as explain
from gpu_core.decisions.scheduling.blocked import BlockedWorkloads
from gpu_core.decisions.scheduling.decision import Decision, Explain, aside, of_all
from gpu_core.decisions.scheduling.ordering import Key
from gpu_core.decisions.scheduling.plan import Command
from gpu_core.decisions.scheduling.plan_builder import PlanBuilder, or_forever
from gpu_core.decisions.scheduling.queue import Queue, QueueEntry, WorkloadGroup
from gpu_core.decisions.scheduling.quota_usage import owner_of

Share = tuple[float, float]


class _Cursor(NamedTuple):
    """The place up to which one kind of workload was considered."""

    queue: Queue
    place: int
    is_first: bool = False
    """It is considered before all others."""

    @property
    def entry(self) -> QueueEntry:
        return self.queue.entries[self.place]


class GroupDecision(NamedTuple):
    """What is true of everybody of a kind behind this place."""

    place: int
    tell: Explain
    is_in_line: bool


@dataclass(slots=True)
class CycleOutcome:
    """What a cycle decided."""

    commands: list[Command]
    told: dict[str, Explain]
    """By workload; whoever is missing hears the rest of its kind, or waits behind others."""
    not_in_line: set[str]
    """Who starts, or is not considered at all."""
    rest: dict[WorkloadGroup, GroupDecision]
    shares: dict[WorkloadGroup, Share]
    """How much of its share the owner of each kind had when that was last considered."""
    shares_of: dict[str, Share]
    """The same for each workload that was considered by itself."""
    preemptors: frozenset[str]
    """Who was considered before all others."""


class Cycle:
    """Plans once.

    Args:
        draft: An empty plan, and what it is made from.
        preemptors: Who others were preempted for: considered before all others.
        tell: Whether to say why, which takes time.
    """

    def __init__(self, draft: PlanBuilder, *, preemptors: frozenset[str], tell: bool) -> None:
        self._draft = draft
        self._facts = draft.facts
        self._preemptors = preemptors
        self._tell = tell
        self._waiting = BlockedWorkloads(draft, tell=tell)
        self._outcome = CycleOutcome(draft.commands, {}, set(), {}, {}, {}, preemptors)

    def run(self) -> CycleOutcome:
        """Decide for each waiting workload in order; the facts are as before afterwards."""
        try:
            self._walk()
        finally:
            self._draft.put_back()
        return self._outcome

    # The walk along the line.

    def _walk(self) -> None:
        line = self._facts.line
        line.pass_time(self._draft.now_s)
        # Whoever others were preempted for comes first: what they gave back is not up for grabs.
        first = [i for i in self._preemptors if i in line]
        cursors = [_Cursor(Queue(line.kind(i), [line.entry(i)]), 0, is_first=True) for i in first]
        cursors += [_Cursor(queue, 0) for queue in line.queues]
        heap = [(self._rank(cursor), cursor) for cursor in cursors]
        heapify(heap)
        while heap:
            rank, cursor = heap[0]
            # Shares only grow within a cycle: a key that is out of date is too good.
            current = self._rank(cursor)
            if current != rank:
                heapreplace(heap, (current, cursor))
                continue
            if not cursor.is_first and cursor.entry.workload.workload_id in self._preemptors:
                following = _after(cursor)
            else:
                following = self._consider(cursor)
            if following is None:
                heappop(heap)
            else:
                heapreplace(heap, (self._rank(following), following))

    def _rank(self, cursor: _Cursor) -> tuple[bool, Key]:
        entry = cursor.entry
        if self._draft.shares is None:
            return not cursor.is_first, entry.key
        w = entry.workload
        share = self._draft.shares.key(w.team, w.user, w.group)
        return not cursor.is_first, self._facts.order.with_share(entry.key, share)

    def _consider(self, cursor: _Cursor) -> _Cursor | None:
        """Decide for one workload. Returns where to go on with its kind, if it is worth it."""
        if self._draft.shares is not None and self._tell:
            kind = cursor.queue.kind
            share = self._draft.shares.key(kind.team, kind.user, kind.group)
            self._outcome.shares[kind] = share
            self._outcome.shares_of[cursor.entry.workload.workload_id] = share
        verdict = self._decide(cursor.queue.kind, cursor.entry)
        if self._tell:
            self._note(cursor, verdict)
        return _after(cursor, verdict.shorter_than_s) if verdict.next_is_open else None

    def _note(self, cursor: _Cursor, verdict: Decision) -> None:
        workload_id = cursor.entry.workload.workload_id
        if verdict.tell is not None:
            self._outcome.told[workload_id] = verdict.tell
        if not verdict.is_in_line:
            self._outcome.not_in_line.add(workload_id)
        is_last = cursor.place + 1 == len(cursor.queue.entries)
        if verdict.is_of_all and verdict.tell is not None and not is_last:
            rest = GroupDecision(cursor.place, verdict.tell, verdict.is_in_line)
            self._outcome.rest[cursor.queue.kind] = rest

    def _decide(self, kind: WorkloadGroup, entry: QueueEntry) -> Decision:
        workload = entry.workload
        if workload.hold is not None:
            return aside(partial(explain.held, hold=workload.hold))
        if workload.workload_id in self._facts.holdings:
            return aside(explain.previous_attempt_ending)
        refusal = self._refusal(kind, workload) or self._over_budget(kind, entry)
        if refusal is not None:
            return refusal
        placement = self._draft.place(self._facts.now, kind, self._draft.allows(kind, entry))
        if placement is not None and self._draft.start(entry, placement):
            return aside(partial(explain.starting, placement=placement))
        return self._waiting.verdict(kind, entry)

    def _refusal(self, kind: WorkloadGroup, workload: Workload) -> Decision | None:
        """Why may it not start, whatever is free? None: it may."""
        entitlements, shape = self._facts.now.entitlements, kind.shape
        never = self._facts.now.room.never_fits(shape)
        if never is not None:
            return of_all(partial(explain.exceeds_cluster, never=never), is_in_line=False)
        if not entitlements.could_ever(kind.team, shape):
            numbers = entitlements.quota_numbers(kind.team, shape)
            return of_all(partial(explain.exceeds_quota, numbers=numbers), is_in_line=False)
        room_milli = entitlements.user_room(owner_of(workload))
        if room_milli is not None and shape.total_gpu_milli > room_milli:
            left_gpus = max(0, room_milli) // WHOLE_GPU_MILLI
            return of_all(partial(explain.user_limit, left_gpus=left_gpus))
        return None

    def _over_budget(self, kind: WorkloadGroup, entry: QueueEntry) -> Decision | None:
        """Is there nothing that a budget would pay for? Then it neither waits nor preempts."""
        if self._draft.budgets is None or not kind.shape.gpu_count:
            return None
        checks = [
            self._draft.budget_refusal(entry, flavor)
            for flavor in self._facts.now.entitlements.wanted(kind.shape)
        ]
        refusals = [check for check in checks if check is not None]
        if not checks or len(refusals) < len(checks):
            return None
        # What would start it soonest: the one that the next period lets pass.
        check = min(refusals, key=lambda c: (c.is_permanent, c.total))
        return Decision(partial(explain.over_budget, check=check), True, is_in_line=False)


def _after(cursor: _Cursor, shorter_than_s: float = math.inf) -> _Cursor | None:
    entries = cursor.queue.entries
    for index in range(cursor.place + 1, len(entries)):
        if shorter_than_s == math.inf or or_forever(entries[index].planned_s) < shorter_than_s:
            return _Cursor(cursor.queue, index)
    return None
