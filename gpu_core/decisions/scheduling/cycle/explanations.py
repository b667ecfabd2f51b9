"""One explanation for each pending workload, in queue order."""

from collections.abc import Iterator, Sequence
from functools import partial
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
        self._explanations: list[_LazyExplanation] | None = None

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Explanation: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Explanation, ...]: ...

    def __getitem__(self, index: int | slice) -> Explanation | tuple[Explanation, ...]:
        explanations = self._in_order()
        if isinstance(index, slice):
            return tuple([lazy.explanation() for lazy in explanations[index]])
        return explanations[index].explanation()

    def __iter__(self) -> Iterator[Explanation]:
        return (lazy.explanation() for lazy in self._in_order())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # as its elements: their numbers are mappings

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (tuple(self),)

    def _in_order(self) -> "list[_LazyExplanation]":
        if self._explanations is None:
            self._explanations = list(self._explained())
            # The explanations hold all that is needed.
            self._groups.clear()
        return self._explanations

    def _explained(self) -> "Iterator[_LazyExplanation]":
        ahead = _Ahead(self._cluster, self._order)
        position = 0
        # No two keys are equal: nothing behind them is compared.
        for (*_, key), shape, entry, explain, is_queued in sorted(self._keyed()):
            if explain is None and entry.workload.workload_id in self._still_hold:
                yield _LazyExplanation(messages.previous_attempt_ending, entry.workload, 0)
                continue
            if explain is not None and not is_queued:
                yield _LazyExplanation(explain, entry.workload, 0)
                continue
            position += 1
            yield _LazyExplanation(explain or ahead.explain(shape, key), entry.workload, position)
            ahead.join(shape, position, key, entry)

    def _keyed(self) -> Iterator[tuple["_Place", Shape, QueueEntry, Explain | None, bool]]:
        """All workloads with their keys, group by group: sorted runs, which sort fast."""
        outcome, order = self._outcome, self._order
        for group, entries in self._groups:
            # The share at the time of the decision: a workload must not be listed before one that
            # was preferred to it because that one has used more since.
            group_share = outcome.shares.get(group)
            rest = outcome.by_group.get(group)
            for place, entry in enumerate(entries):
                workload_id = entry.workload.workload_id
                share = outcome.shares_of.get(workload_id, group_share)
                key = entry.key if share is None else order.with_share(entry.key, share)
                explain = outcome.by_workload.get(workload_id)
                is_queued = workload_id not in outcome.not_queued
                if explain is None and rest is not None and place > rest.place:
                    explain, is_queued = rest.explain, rest.is_queued
                is_behind = workload_id not in outcome.preemptors
                # Who is within nominal quota is listed before the one that had to let it pass.
                before = outcome.entitled.get(workload_id)
                is_passed = before is None
                yield (
                    (is_behind, before or key, is_passed, key),
                    group.shape,
                    entry,
                    explain,
                    is_queued,
                )


_Place = tuple[bool, Key, bool, Key]
"""The position in the order of the plan."""


class _LazyExplanation:
    """One explanation, worded when it is read."""

    __slots__ = ("_explain", "_explanation", "_position", "_workload")

    def __init__(self, explain: Explain, workload: Workload, position: int) -> None:
        self._explain = explain
        self._workload = workload
        self._position = position
        self._explanation: Explanation | None = None

    def explanation(self) -> Explanation:
        if self._explanation is None:
            explanation = self._explain(self._workload, position=self._position)
            self._explanation = messages.with_choices(explanation, self._workload)
        return self._explanation


class _Ahead:
    """The workloads ahead that wait for GPUs of the same nodes.

    By shape rather than by workload: a thousand waiting runs have few shapes.
    """

    def __init__(self, cluster: ClusterInfo, order: WorkloadOrder) -> None:
        self._cluster = cluster
        self._order = order
        self._counts: dict[Shape, int] = {}
        self._joined = 0
        self._first: dict[Shape, list[_Named]] = {}
        # Valid until a workload joins whose name is shown.
        self._same: dict[Shape, tuple[Shape, ...]] = {}
        self._shown: dict[Shape, list[_Named]] = {}

    def join(self, shape: Shape, position: int, key: Key, entry: QueueEntry) -> None:
        """Adds a waiting workload."""
        self._counts[shape] = self._counts.get(shape, 0) + 1
        self._joined += 1
        first = self._first.setdefault(shape, [])
        if not first:
            self._same.clear()
        if len(first) < _NAMES_KEPT:
            first.append(_Named(position, entry.workload.name, key))
            self._shown.clear()

    def explain(self, shape: Shape, key: Key) -> Explain:
        """The explanation of a workload that waits behind them."""
        shown = self._shown_to(shape)
        same = self._same[shape]
        if len(same) == len(self._counts):
            count = self._joined
        else:
            count = sum([self._counts[other] for other in same])
        return partial(_behind, order=self._order, key=key, ahead=shown, count=count)

    def _shown_to(self, shape: Shape) -> "list[_Named]":
        shown = self._shown.get(shape)
        if shown is None:
            if shape not in self._same:
                overlaps = self._cluster.overlaps
                self._same[shape] = tuple(o for o in self._counts if overlaps(shape, o))
            first = sorted(named for other in self._same[shape] for named in self._first[other])
            shown = self._shown[shape] = first[:_NAMES_KEPT]
        return shown


class _Named(NamedTuple):
    """A workload whose name is shown to those behind."""

    position: int
    name: str
    key: Key


def _behind(
    workload: Workload,
    *,
    order: WorkloadOrder,
    key: Key,
    ahead: Sequence[_Named],
    count: int,
    position: int,
) -> Explanation:
    first = ahead[0].key
    return messages.behind_others(
        workload,
        [named.name for named in ahead],
        count,
        # Where the order would say otherwise, the one ahead is within nominal quota.
        order.deciding_key(first, key) if first < key else "nominal quota",
        position,
    )
