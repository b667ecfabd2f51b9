"""One explanation for each pending workload, in queue order."""

from collections.abc import Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple, overload

from gpu_core.decisions.model.reasons import Explanation
from gpu_core.decisions.model.workload import Shape, Workload
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.scheduling.cycle.cycle import CycleOutcome
from gpu_core.decisions.scheduling.plan import messages
from gpu_core.decisions.scheduling.plan.decision import Explain
from gpu_core.decisions.scheduling.queue.ordering import Key, WorkloadOrder
from gpu_core.decisions.scheduling.queue.queue import QueueEntry
from gpu_core.decisions.scheduling.state.cluster_state import SchedulerState

_NAMES_KEPT = 3


class Explanations(Sequence[Explanation]):
    """The explanation and the position of each workload that waits.

    The queue is sorted when the first explanation is read, and each explanation is worded when it
    is read. All of them describe the time of the plan. Otherwise a tuple.

    Args:
        state: The pending workloads.
        outcome: The decisions of the cycle; workloads without one wait behind others.
    """

    def __init__(self, state: SchedulerState, outcome: CycleOutcome) -> None:
        self._outcome = outcome
        self._order = state.order
        self._cluster = state.current.cluster
        self._groups = [(queue.group, tuple(queue.entries)) for queue in state.pending.queues]
        self._length = len(state.pending)
        self._still_hold = state.pending.ids & state.holdings.ids
        self._decided: list[_Decided] | None = None
        self._worded: list[Explanation | None] = []

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Explanation: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Explanation, ...]: ...

    def __getitem__(self, index: int | slice) -> Explanation | tuple[Explanation, ...]:
        numbers = range(len(self._in_order()))[index]
        if isinstance(numbers, range):
            return tuple([self._explanation(number) for number in numbers])
        return self._explanation(numbers)

    def __iter__(self) -> Iterator[Explanation]:
        return map(self._explanation, range(len(self._in_order())))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # as its elements: their numbers are mappings

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (tuple(self),)

    def _explanation(self, number: int) -> Explanation:
        explanation = self._worded[number]
        if explanation is None:
            explain, workload, position = self._in_order()[number]
            explanation = messages.with_choices(explain(workload, position=position), workload)
            self._worded[number] = explanation
        return explanation

    def _in_order(self) -> "list[_Decided]":
        if self._decided is None:
            self._decided = list(self._explained())
            self._worded = [None] * len(self._decided)
            # The decisions hold all that is needed.
            self._groups.clear()
        return self._decided

    def _explained(self) -> "Iterator[_Decided]":
        position = 0
        for _, key, waiting, entry, explain, is_queued in sorted(self._keyed(), key=_place):
            workload = entry.workload
            if explain is None and workload.workload_id in self._still_hold:
                yield messages.previous_attempt_ending, workload, 0
                continue
            if explain is not None and not is_queued:
                yield explain, workload, 0
                continue
            position += 1
            yield explain or waiting.behind(workload, key), workload, position
            waiting.join(workload.name, position, key)

    def _keyed(self) -> "Iterator[_Keyed]":
        """All workloads with their places, group by group: sorted runs, which sort fast."""
        outcome, order = self._outcome, self._order
        by_workload, not_queued = outcome.by_workload, outcome.not_queued
        shares_of, preemptors, entitled = outcome.shares_of, outcome.preemptors, outcome.entitled
        ahead = _Ahead(self._cluster, order)
        for group, entries in self._groups:
            waiting = ahead.of(group.shape)
            # The share at the time of the decision: a workload must not be listed before one that
            # was preferred to it because that one has used more since.
            group_share = outcome.shares.get(group)
            rest = outcome.by_group.get(group)
            for number, entry in enumerate(entries):
                workload_id = entry.workload.workload_id
                share = shares_of.get(workload_id, group_share)
                key = entry.key if share is None else order.with_share(entry.key, share)
                explain, is_queued = by_workload.get(workload_id), workload_id not in not_queued
                if explain is None and rest is not None and number > rest.place:
                    explain, is_queued = rest.explain, rest.is_queued
                is_behind = workload_id not in preemptors
                # Who is within nominal quota is listed before the one that had to let it pass.
                before = entitled.get(workload_id)
                place = (
                    (is_behind, *key, True) if before is None else (is_behind, *before, False, *key)
                )
                yield place, key, waiting, entry, explain, is_queued


_Decided = tuple[Explain, Workload, int]
"""What explains one workload, and its position."""

_Keyed = tuple[Key, Key, "_Waiting", QueueEntry, Explain | None, bool]
"""One workload: its place in the order of the plan, its key, those of its shape, and its decision.
No two places are equal."""

_place = itemgetter(0)


class _Ahead:
    """The workloads ahead that wait for GPUs of the same nodes.

    By shape rather than by workload: a thousand waiting runs have few shapes.
    """

    def __init__(self, cluster: ClusterInfo, order: WorkloadOrder) -> None:
        self.overlaps = cluster.overlaps
        self.order = order
        self.joined = 0
        """How many workloads wait so far."""
        self.waiting: list[_Waiting] = []
        """Shapes of which one waits."""
        self.named = 0
        """Grows with each workload whose name is shown to those behind."""
        self._of: dict[Shape, _Waiting] = {}

    def of(self, shape: Shape) -> "_Waiting":
        """The workloads of this shape."""
        waiting = self._of.get(shape)
        if waiting is None:
            waiting = self._of[shape] = _Waiting(self, shape)
        return waiting


class _Waiting:
    """The workloads of one shape that wait so far.

    Args:
        ahead: The workloads of all shapes.
        shape: Their shape.
    """

    __slots__ = ("_ahead", "_behind", "_named", "_overlapping", "count", "first", "shape")

    def __init__(self, ahead: _Ahead, shape: Shape) -> None:
        self._ahead = ahead
        self._named = -1
        self._overlapping: list[_Waiting] = []
        self._behind: _Behind | None = None
        self.shape = shape
        self.count = 0
        self.first: list[_Named] = []

    def join(self, name: str, position: int, key: Key) -> None:
        """Adds a waiting workload."""
        ahead = self._ahead
        self.count += 1
        ahead.joined += 1
        if len(self.first) < _NAMES_KEPT:
            if not self.first:
                ahead.waiting.append(self)
            self.first.append(_Named(position, name, key))
            ahead.named += 1

    def behind(self, workload: Workload, key: Key) -> Explain:
        """The explanation of a workload of this shape that waits behind those so far."""
        ahead, behind = self._ahead, self._behind
        if behind is None or self._named != ahead.named:
            self._named = ahead.named
            behind = self._behind = self._behind_named(workload)
        if len(self._overlapping) == len(ahead.waiting):
            count = ahead.joined
        else:
            count = sum([other.count for other in self._overlapping])
        return partial(behind.explain, key, count)

    def _behind_named(self, workload: Workload) -> "_Behind":
        ahead = self._ahead
        self._overlapping = [w for w in ahead.waiting if ahead.overlaps(self.shape, w.shape)]
        first = sorted(named for other in self._overlapping for named in other.first)
        return _Behind(ahead.order, workload, first[:_NAMES_KEPT])


class _Named(NamedTuple):
    """A workload whose name is shown to those behind."""

    position: int
    name: str
    key: Key


class _Behind:
    """Explains why workloads of one shape wait behind the same first ones.

    Args:
        order: The order of the queue.
        workload: One of them.
        ahead: The first ones.
    """

    __slots__ = ("_first", "_order", "_text")

    def __init__(self, order: WorkloadOrder, workload: Workload, ahead: Sequence[_Named]) -> None:
        self._order = order
        self._first = ahead[0].key
        self._text = messages.BehindOthers(workload, [named.name for named in ahead])

    def explain(self, key: Key, count: int, workload: Workload, *, position: int) -> Explanation:
        """The explanation of the workload with this key and this number of workloads ahead."""
        first = self._first
        # Where the order would say otherwise, the one ahead is within nominal quota.
        by = self._order.deciding_key(first, key) if first < key else "nominal quota"
        return self._text.explanation(workload.workload_id, count, by, position)
