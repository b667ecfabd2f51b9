"""Who waits, grouped by what decides about them, each group in the policy's order."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from gpu_core.decisions.model.units import epoch_s
from gpu_core.decisions.model.workload import Shape, Workload, planned_s
from gpu_core.decisions.scheduling.ordering import Key, WorkloadOrder


class WorkloadGroup(NamedTuple):
    """What workloads have in common that start, or cannot start, for the same reasons.

    When one of a kind has no place, those behind it have none either: a cycle looks at kinds, of
    which there are few, and not at workloads, of which there are many.
    """

    team: str | None
    user: str | None
    sweep: str | None
    priority: int
    shape: Shape
    is_held: bool
    takes_free_only: bool


class QueueEntry(NamedTuple):
    """One waiting workload at its place."""

    key: Key
    workload: Workload
    planned_s: float | None
    """How long it would hold its GPUs; None: unknown."""


@dataclass(slots=True)
class Queue:
    """The workloads of one kind in order."""

    group: WorkloadGroup
    entries: list[QueueEntry] = field(default_factory=list)


class PendingQueue:
    """All who wait. What it costs to join or leave does not grow with the length of the line.

    Args:
        order: Makes the keys.
    """

    def __init__(self, order: WorkloadOrder) -> None:
        self._order = order
        self._queues: dict[WorkloadGroup, Queue] = {}
        self._entries: dict[str, tuple[WorkloadGroup, QueueEntry]] = {}
        self._starving_from: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, workload_id: str) -> bool:
        return workload_id in self._entries

    def __iter__(self) -> Iterator[QueueEntry]:
        """Everybody, in no order."""
        return (entry for _, entry in self._entries.values())

    @property
    def ids(self) -> Set[str]:
        """Who waits."""
        return self._entries.keys()

    @property
    def queues(self) -> Iterator[Queue]:
        """The kinds that somebody of waits."""
        return iter(self._queues.values())

    def entry(self, workload_id: str) -> QueueEntry:
        """The place of this workload."""
        return self._entries[workload_id][1]

    def group(self, workload_id: str) -> WorkloadGroup:
        """The kind of this workload."""
        return self._entries[workload_id][0]

    def join(self, workload: Workload) -> None:
        """A workload waits from now on, or waits on with other facts."""
        if workload.workload_id in self._entries:
            self.leave(workload.workload_id)
        submitted_s = epoch_s(workload.submitted_at)
        self._insert(workload, self._order.key(workload, submitted_s))
        starves_from_s = self._order.starves_from_s(workload, submitted_s)
        if starves_from_s is not None:
            heappush(self._starving_from, (starves_from_s, workload.workload_id))

    def leave(self, workload_id: str) -> None:
        """A workload waits no longer."""
        group, entry = self._entries.pop(workload_id)
        queue = self._queues[group]
        del queue.entries[bisect_left(queue.entries, entry.key, key=_key)]
        if not queue.entries:
            del self._queues[group]

    def pass_time(self, now_s: float) -> None:
        """Move those forward who have waited too long by now."""
        while self._starving_from and self._starving_from[0][0] <= now_s:
            _, workload_id = heappop(self._starving_from)
            if workload_id not in self._entries:
                continue
            workload = self.entry(workload_id).workload
            submitted_s = epoch_s(workload.submitted_at)
            starves_from_s = self._order.starves_from_s(workload, submitted_s)
            if starves_from_s is None or starves_from_s > now_s:
                continue
            self.leave(workload_id)
            self._insert(workload, self._order.key(workload, submitted_s, is_starving=True))

    def _insert(self, workload: Workload, key: Key) -> None:
        group = WorkloadGroup(
            workload.team,
            workload.user,
            workload.group,
            workload.priority,
            workload.shape,
            workload.hold is not None,
            workload.takes_free_only,
        )
        entry = QueueEntry(key, workload, planned_s(workload))
        queue = self._queues.get(group)
        if queue is None:
            queue = self._queues[group] = Queue(group)
        if not queue.entries or queue.entries[-1].key < key:
            queue.entries.append(entry)
        else:
            insort(queue.entries, entry, key=_key)
        self._entries[workload.workload_id] = group, entry


def _key(entry: QueueEntry) -> Key:
    return entry.key
