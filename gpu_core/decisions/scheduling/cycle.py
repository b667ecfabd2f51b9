"""One planning cycle: who starts, whose GPUs are taken, and why everybody else waits."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

from gpu_core.decisions.budget import BudgetCheck, Budgets
from gpu_core.decisions.cluster import Flavor, Placement
from gpu_core.decisions.errors import InvalidInput
from gpu_core.decisions.fair_share import Shares
from gpu_core.decisions.placement.room import Room
from gpu_core.decisions.plan import Admit, Command, Explanation
from gpu_core.decisions.policy import Policy
from gpu_core.decisions.scheduling import explain
from gpu_core.decisions.scheduling.backfill import Backfill
from gpu_core.decisions.scheduling.closing import NodeClosure
from gpu_core.decisions.scheduling.entitlements import Allowance, owner_of
from gpu_core.decisions.scheduling.facts import Facts, View
from gpu_core.decisions.scheduling.holdings import Release
from gpu_core.decisions.scheduling.line import Entry, Kind, Queue, planned_s
from gpu_core.decisions.scheduling.losses import Candidates
from gpu_core.decisions.scheduling.ordering import Key
from gpu_core.decisions.scheduling.preemption import Allows, Preemption
from gpu_core.decisions.scheduling.promises import awaited_from, free_first, free_parts
from gpu_core.decisions.scheduling.reservations import Amount, Reservations, amount_of
from gpu_core.decisions.units import SECONDS_PER_HOUR
from gpu_core.decisions.workload import WHOLE_GPU_MILLI, Shape, Workload

_ASSUMED_S = 24 * SECONDS_PER_HOUR
"""How long a run of unknown length is taken to be where the calendar closes nodes."""

Share = tuple[float, float]
Tell = Callable[[int], Explanation]
"""Makes a workload's explanation, given its position in the line."""


class _Cursor(NamedTuple):
    """The place up to which one kind of workload was considered."""

    queue: Queue
    place: int

    @property
    def entry(self) -> Entry:
        return self.queue.entries[self.place]


class _Verdict(NamedTuple):
    """What became of one workload, and of those of its kind behind it."""

    tell: Tell | None
    """None: it waits behind others."""
    next_is_open: bool
    """The next of its kind may fare better."""
    shorter_than_s: float = math.inf
    """Of its kind, only those that end sooner may fare better."""
    is_in_line: bool = True
    tell_rest: Callable[[Workload], Tell] | None = None
    """The same is true of those of its kind behind it, and they are told so."""


@dataclass(slots=True)
class Outcome:
    """What a cycle decided."""

    commands: list[Command]
    told: dict[str, Tell]
    """By workload; whoever is missing waits behind others."""
    not_in_line: set[str]
    """Who starts, or is not considered at all."""
    shares: dict[Kind, Share]
    """How much of its share the owner of each kind had when that was last considered."""
    shares_of: dict[str, Share]
    """The same for each workload that was considered by itself."""
    preemptors: frozenset[str]
    """Who was considered before all others."""


class Cycle:
    """Plans once.

    Args:
        facts: What is so.
        policy: The rules.
        shares: How much of its share everybody has had; None: shares do not count.
        budgets: What is left of the budgets; None: there are none.
        closures: When nodes are not there for everybody.
        preemptors: Who others were preempted for: considered before all others.
        now_s: The moment.
        tell: Whether to say why, which takes time.
    """

    def __init__(
        self,
        facts: Facts,
        policy: Policy,
        *,
        shares: Shares | None,
        budgets: Budgets | None,
        closures: Sequence[NodeClosure],
        preemptors: frozenset[str],
        now_s: float,
        tell: bool,
    ) -> None:
        self._facts = facts
        self._policy = policy
        self._shares = shares
        self._budgets = budgets
        self._preemptors = preemptors
        self._now_s = now_s
        self._tell = tell
        self._outcome = Outcome([], {}, set(), {}, {}, preemptors)
        self._undo: list[Callable[[], None]] = []
        self._reservations = Reservations(self._free_soon, self._releases)
        for closure in closures:
            self._reservations.close(*closure)
        self._closed: set[str] = set()
        """Nodes that are kept for somebody ahead, until nobody knows when."""
        self._reserved = 0
        self._waiting_shapes: dict[Shape, None] = {}
        self._preemption_made: Preemption | None = None
        self._leaving: dict[str, float | None] = {
            workload_id: _drained_s(facts, workload_id) for workload_id in facts.draining
        }
        """Whose GPUs are coming, and when at the latest."""

    def run(self) -> Outcome:
        """Decide for each waiting workload in order; the facts are as before afterwards."""
        try:
            self._walk()
        finally:
            while self._undo:
                self._undo.pop()()
        return self._outcome

    # The walk along the line.

    def _walk(self) -> None:
        line = self._facts.line
        line.pass_time(self._now_s)
        # Whoever others were preempted for comes first: what they gave back is not up for grabs.
        first = [line.entry(i) for i in self._preemptors if i in line]
        for entry in sorted(first, key=lambda entry: entry.key):
            self._consider(_Cursor(Queue(line.kind(entry.workload.workload_id), [entry]), 0))
        heap = [(self._key(queue.entries[0]), _Cursor(queue, 0)) for queue in line.queues]
        heapify(heap)
        while heap:
            key, cursor = heap[0]
            # Shares only grow within a cycle: a key that is out of date is too good.
            current = self._key(cursor.entry)
            if current != key:
                heapreplace(heap, (current, cursor))
                continue
            if cursor.entry.workload.workload_id in self._preemptors:
                following = _after(cursor)
            else:
                following = self._consider(cursor)
            if following is None:
                heappop(heap)
            else:
                heapreplace(heap, (self._key(following.entry), following))

    def _key(self, entry: Entry) -> Key:
        if self._shares is None:
            return entry.key
        w = entry.workload
        share = self._shares.key(w.team, w.user, w.group)
        return self._facts.order.with_share(entry.key, share)

    def _consider(self, cursor: _Cursor) -> _Cursor | None:
        """Decide for one workload. Returns where to go on with its kind, if it is worth it."""
        if self._shares is not None and self._tell:
            kind = cursor.queue.kind
            share = self._shares.key(kind.team, kind.user, kind.group)
            self._outcome.shares[kind] = share
            self._outcome.shares_of[cursor.entry.workload.workload_id] = share
        verdict = self._decide(cursor.queue.kind, cursor.entry)
        if self._tell:
            self._note(cursor, verdict)
        return _after(cursor, verdict.shorter_than_s) if verdict.next_is_open else None

    def _note(self, cursor: _Cursor, verdict: _Verdict) -> None:
        told = {cursor.entry.workload.workload_id: verdict.tell}
        if verdict.tell_rest is not None:
            for entry in cursor.queue.entries[cursor.place + 1 :]:
                told[entry.workload.workload_id] = verdict.tell_rest(entry.workload)
        self._outcome.told.update((i, tell) for i, tell in told.items() if tell is not None)
        if not verdict.is_in_line:
            self._outcome.not_in_line.update(told)

    def _decide(self, kind: Kind, entry: Entry) -> _Verdict:
        workload = entry.workload
        if workload.hold is not None:
            return _aside(partial(explain.held, workload, workload.hold))
        if workload.workload_id in self._facts.holdings:
            return _aside(partial(explain.previous_attempt_ending, workload))
        refusal = self._refusal(kind, workload) or self._over_budget(kind, entry)
        if refusal is not None:
            return refusal
        placement = self._place(self._facts.now, kind, self._allows(kind, entry))
        if placement is not None and self._start(entry, placement):
            return _aside(partial(explain.starting, workload, placement))
        return self._wait(kind, entry)

    def _refusal(self, kind: Kind, workload: Workload) -> _Verdict | None:
        """Why may it not start, whatever is free? None: it may."""
        entitlements, shape = self._facts.now.entitlements, kind.shape
        never = self._facts.now.room.never_fits(shape)
        if never is not None:
            return _of_all(
                workload, lambda w: partial(explain.exceeds_cluster, w, never), is_in_line=False
            )
        if not entitlements.could_ever(kind.team, shape):
            numbers = entitlements.quota_numbers(kind.team, shape)
            return _of_all(
                workload, lambda w: partial(explain.exceeds_quota, w, numbers), is_in_line=False
            )
        room_milli = entitlements.user_room(owner_of(workload))
        if room_milli is not None and shape.total_gpu_milli > room_milli:
            left_gpus = max(0, room_milli) // WHOLE_GPU_MILLI
            return _of_all(workload, lambda w: partial(explain.user_limit, w, left_gpus))
        return None

    def _place(self, view: View, kind: Kind, allows: Allows | None) -> Placement | None:
        """Where would it go? What its team owns comes before what it would borrow.

        A stated preference of GPU types comes before that: it may be worth borrowing for.
        """
        shape = kind.shape
        if not view.entitlements.has_quotas or not shape.gpu_count:
            return view.room.find(shape, allows=allows)
        allowance = view.entitlements.allowance(kind.team, shape)
        tiers = (allowance.open,) if shape.gpu_types else (allowance.own, allowance.borrowed)
        for flavors in tiers:
            placement = view.room.find(shape, flavors=flavors, allows=allows) if flavors else None
            if placement is not None:
                return placement
        return None

    def _over_budget(self, kind: Kind, entry: Entry) -> _Verdict | None:
        """Is there nothing that a budget would pay for? Then it neither waits nor preempts."""
        if self._budgets is None or not kind.shape.gpu_count:
            return None
        checks = [
            self._budget_refusal(entry, flavor)
            for flavor in self._facts.now.entitlements.wanted(kind.shape)
        ]
        refusals = [check for check in checks if check is not None]
        if not checks or len(refusals) < len(checks):
            return None
        # What would start it soonest: the one that the next period lets pass.
        check = min(refusals, key=lambda c: (c.is_permanent, c.total))
        return _Verdict(partial(explain.over_budget, entry.workload, check), True, is_in_line=False)

    def _budget_refusal(self, entry: Entry, flavor: Flavor) -> BudgetCheck | None:
        if self._budgets is None:
            return None
        price = self._policy.price_micro_usd_per_gpu_hour(*flavor)
        gpus = entry.workload.shape.total_gpu_milli / WHOLE_GPU_MILLI
        return self._budgets.refusal(entry.workload, gpus, price, entry.planned_s)

    def _allows(self, kind: Kind, entry: Entry) -> Allows | None:
        """Which nodes may it use, as far as others ahead leave them to it? None: all."""
        if not self._closed and not self._reservations and self._budgets is None:
            return None
        is_open = self._is_open(kind, entry)
        wanted, until_s = amount_of(kind.shape), self._now_s + _or_forever(entry.planned_s)
        return lambda node: (
            node not in self._closed
            and self._reservations.allows(node, wanted, until_s)
            and is_open(node)
        )

    def _allows_waiting(self, kind: Kind, entry: Entry) -> Allows | None:
        """The same for GPUs that are coming.

        Whoever reclaims its own team's quota goes before those who borrow, also where these wait.
        """
        entitlements = self._facts.soon.entitlements
        if entitlements.has_quotas and entitlements.allowance(kind.team, kind.shape).reclaimable:
            return self._is_open(kind, entry)
        return self._allows(kind, entry)

    def _is_open(self, kind: Kind, entry: Entry) -> Allows:
        """Which nodes may it use, as far as the calendar and the budgets go?"""
        room, now_s = self._facts.now.room, self._now_s
        until_s = now_s + _assumed_s(entry)
        payable = {
            flavor
            for flavor in self._facts.now.entitlements.wanted(kind.shape)
            if self._budget_refusal(entry, flavor) is None
        }
        return lambda node: (
            (self._budgets is None or room[node].node.flavor in payable)
            and self._reservations.is_open(node, kind.team, now_s, until_s)
        )

    def _start(self, entry: Entry, placement: Placement) -> bool:
        facts, workload = self._facts, entry.workload
        shape = workload.shape
        try:
            self._take(facts.soon.room, shape, placement)
        except InvalidInput:
            # The rest of a shared GPU is free now, but promised with the part that is coming.
            return False
        self._take(facts.now.room, shape, placement)
        self._charge(workload, placement)
        until_s = self._now_s + _or_forever(entry.planned_s)
        for share in placement.shares:
            self._reservations.start(share.node, amount_of(shape), until_s)
        self._outcome.commands.append(Admit(workload_id=workload.workload_id, placement=placement))
        return True

    def _take(self, room: Room, shape: Shape, placement: Placement) -> None:
        room.take(shape, placement)
        self._undo.append(partial(room.give, shape, placement))
        if self._preemption_made is not None:
            self._preemption_made.touch(share.node for share in placement.shares)

    def _charge(self, workload: Workload, placement: Placement) -> None:
        owner, flavor = owner_of(workload), placement.flavor
        milli = workload.shape.total_gpu_milli
        for view in (self._facts.now, self._facts.soon):
            view.entitlements.take(owner, flavor, milli)
            self._undo.append(partial(view.entitlements.give, owner, flavor, milli))
        gpus, run_s = milli / WHOLE_GPU_MILLI, planned_s(workload)
        if self._shares is not None:
            self._shares.admit(workload.team, workload.user, workload.group, gpus, run_s)
        if self._budgets is not None and flavor is not None:
            price = self._policy.price_micro_usd_per_gpu_hour(*flavor)
            self._budgets.commit(workload, gpus, price, run_s)

    # What is done for a workload that cannot start now, the least disruptive first.

    def _wait(self, kind: Kind, entry: Entry) -> _Verdict:
        is_first = self._is_first(kind.shape)
        self._waiting_shapes[kind.shape] = None
        verdict = self._wait_for_coming(kind, entry) or self._preempt(kind, entry)
        if verdict is not None:
            return verdict
        allowance = self._facts.soon.entitlements.allowance(kind.team, kind.shape)
        if not allowance.open:
            numbers = self._facts.now.entitlements.quota_numbers(kind.team, kind.shape)
            return _of_all(entry.workload, lambda w: partial(explain.waiting_for_quota, w, numbers))
        return self._wait_for_gpus(kind, entry, allowance, is_first=is_first)

    def _is_first(self, shape: Shape) -> bool:
        """Is it the first in line for every node that it could use?"""
        room = self._facts.now.room
        return not any(room.overlaps(shape, ahead) for ahead in self._waiting_shapes)

    def _wait_for_coming(self, kind: Kind, entry: Entry) -> _Verdict | None:
        """It is promised GPUs that are on their way back, and what is free beside them."""
        if not self._leaving:
            return None
        placement = self._place(self._facts.soon, kind, self._allows_waiting(kind, entry))
        if placement is None:
            return None
        awaited = self._promise(entry.workload, placement)
        if not awaited:
            # It waits for the quota of those who leave, not for their GPUs.
            awaited = [
                (holding.workload_id, holding.gpu_milli // WHOLE_GPU_MILLI)
                for holding in map(self._facts.holdings.get, sorted(self._leaving))
                if holding is not None
            ]
        ends = [self._leaving[holder_id] for holder_id, _ in awaited]
        tell = partial(
            explain.waiting_for_victims,
            entry.workload,
            [(self._name(holder_id), gpus) for holder_id, gpus in awaited],
            max((e for e in ends if e is not None), default=None) if None not in ends else None,
            self._now_s,
        )
        return _Verdict(tell, True)

    def _preempt(self, kind: Kind, entry: Entry) -> _Verdict | None:
        """GPUs are taken from others for it, if it may and if that makes enough room."""
        if not self._policy.preemption.enabled or not kind.shape.gpu_count:
            return None
        victims = self._preemption.victims(kind, entry, self._allows_waiting(kind, entry))
        if not victims:
            return None
        deadline_s = self._now_s + self._policy.preemption.grace_period_s
        for victim in victims:
            self._preemption.take(victim)
            self._undo.append(partial(self._facts.soon.take, victim.holding))
            self._leaving[victim.workload_id] = deadline_s
            self._outcome.commands.append(victim.command(entry.workload))
        return self._wait_for_coming(kind, entry)

    def _wait_for_gpus(
        self, kind: Kind, entry: Entry, allowance: Allowance, *, is_first: bool
    ) -> _Verdict:
        shape, workload = kind.shape, entry.workload
        too_long = self._too_long(kind, entry, allowance)
        protected = self._protected(kind, entry) if is_first and self._tell else None
        starts_s = self._keep(entry, shape, allowance, is_first=is_first)
        if too_long is not None:
            return _Verdict(too_long, True, shorter_than_s=_or_forever(entry.planned_s))
        # Each has a reservation of its own then, also of one kind.
        goes_on = self._policy.backfill.mode is Backfill.CONSERVATIVE
        if not is_first or not self._tell:
            return _Verdict(None, goes_on)
        return _Verdict(protected or self._first_in_line(workload, shape, starts_s), goes_on)

    def _too_long(self, kind: Kind, entry: Entry, allowance: Allowance) -> Tell | None:
        """What keeps it from GPUs that a shorter run could have? None: nothing does."""
        if not self._reservations:
            return None
        room, is_open = self._facts.now.room, self._is_open(kind, entry)
        flavors = allowance.open if self._facts.now.entitlements.has_quotas else None
        if room.find(kind.shape, flavors=flavors, allows=self._is_not_kept) is None:
            return None

        def is_open_now(node: str) -> bool:
            return self._is_not_kept(node) and is_open(node)

        is_only_reserved = room.find(kind.shape, flavors=flavors, allows=is_open_now) is not None
        tell = explain.backfill_would_delay if is_only_reserved else explain.capacity_closed
        return partial(tell, entry.workload)

    def _is_not_kept(self, node: str) -> bool:
        return node not in self._closed

    def _keep(
        self, entry: Entry, shape: Shape, allowance: Allowance, *, is_first: bool
    ) -> float | None:
        """Keep room for it, as far as the policy does so. Returns when it starts, if known."""
        mode = self._policy.backfill.mode
        duration_s = _or_forever(entry.planned_s)
        if mode is Backfill.GREEDY or (mode is Backfill.EASY and not is_first):
            return None
        if mode is Backfill.CONSERVATIVE and self._reserved >= self._policy.backfill.depth:
            return None
        nodes = self._usable_nodes(shape, allowance)
        if mode is not Backfill.NONE:
            found = self._reservations.earliest(
                shape, entry.workload.team, nodes, self._now_s, duration_s, _assumed_s(entry)
            )
            if found is not None:
                starts_s, chosen = found
                self._reservations.reserve(chosen, amount_of(shape), starts_s, duration_s)
                self._reserved += 1
                return starts_s
        self._closed.update(node for group in nodes for node in group)
        return None

    def _usable_nodes(self, shape: Shape, allowance: Allowance) -> list[list[str]]:
        """The nodes that it may choose among, by group, as far as they are kept for nobody."""
        return [
            [node for node in group.nodes if node not in self._closed]
            for group in self._facts.now.room.groups(shape)
            if group.flavor in allowance.open or not shape.gpu_count
        ]

    def _promise(self, workload: Workload, placement: Placement) -> list[tuple[str, int]]:
        """Give these GPUs away, now or when they come. Returns whose are awaited, and how many."""
        facts, shape = self._facts, workload.shape
        promised = free_first(facts, shape, placement)
        awaited = awaited_from(facts, self._leaving, promised)
        self._take(facts.soon.room, shape, promised)
        # Nobody else may start on the part of a promise that is free already.
        for part in free_parts(facts, promised):
            self._take(facts.now.room, Shape(gpu_count=len(part.gpu_ids)), part)
        self._charge(workload, promised)
        return awaited

    # What reservations need to know.

    def _free_soon(self, node: str) -> Amount:
        room = self._facts.soon.room[node]
        return Amount(room.free_gpus, room.cpu_milli_left, room.memory_mib_left)

    def _releases(self, node: str) -> Sequence[Release]:
        return self._facts.holdings.releases(node, self._now_s, self._leaving)

    # What the first in line is told.

    def _protected(self, kind: Kind, entry: Entry) -> Tell | None:
        if not self._policy.preemption.enabled:
            return None
        allows = self._allows_waiting(kind, entry)
        possible_from_s = self._preemption.possible_from_s(kind, allows)
        if possible_from_s is None:
            return None
        return partial(
            explain.min_runtime_protects,
            entry.workload,
            self._preemption.protected(kind),
            possible_from_s,
            possible_from_s + self._policy.preemption.grace_period_s,
            self._now_s,
        )

    def _first_in_line(self, workload: Workload, shape: Shape, starts_s: float | None) -> Tell:
        room = self._facts.now.room
        running = [holding.allocation for holding in self._facts.holdings]
        return partial(
            explain.waiting_for_gpus,
            workload,
            room.shortage(shape),
            explain.holders_on(set(room.eligible(shape)), running),
            starts_s,
        )

    @property
    def _preemption(self) -> Preemption:
        """Made when somebody needs it: it looks at everybody who runs."""
        if self._preemption_made is None:
            self._preemption_made = Preemption(
                self._facts,
                Candidates(self._facts.holdings, self._policy, self._now_s),
                self._policy.preemption,
                self._now_s,
            )
        return self._preemption_made

    def _name(self, workload_id: str) -> str:
        holding = self._facts.holdings.get(workload_id)
        return workload_id if holding is None else holding.workload.name


def _aside(tell: Tell) -> _Verdict:
    """It does not stand in line, and says nothing about the next one."""
    return _Verdict(tell, True, is_in_line=False)


def _of_all(
    workload: Workload, tell: Callable[[Workload], Tell], *, is_in_line: bool = True
) -> _Verdict:
    """What is true of this one is true of all of its kind."""
    return _Verdict(tell(workload), False, is_in_line=is_in_line, tell_rest=tell)


def _after(cursor: _Cursor, shorter_than_s: float = math.inf) -> _Cursor | None:
    entries = cursor.queue.entries
    for index in range(cursor.place + 1, len(entries)):
        if shorter_than_s == math.inf or _or_forever(entries[index].planned_s) < shorter_than_s:
            return _Cursor(cursor.queue, index)
    return None


def _assumed_s(entry: Entry) -> float:
    return _ASSUMED_S if entry.planned_s is None else entry.planned_s


def _or_forever(duration_s: float | None) -> float:
    return math.inf if duration_s is None else duration_s


def _drained_s(facts: Facts, workload_id: str) -> float | None:
    holding = facts.holdings.get(workload_id)
    if holding is None or holding.allocation.drain_deadline_at is None:
        return None
    return holding.allocation.drain_deadline_at.timestamp()
