"""Pending workloads in groups with the same requirements, each in policy order."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from gpu_core.decisions.model.units import epoch_s
from gpu_core.decisions.model.workload import Shape, Workload, planned_s
from gpu_core.decisions.scheduling.queue.ordering import Key, WorkloadOrder


class WorkloadGroup(NamedTuple):
    """The fields that workloads share which start, or cannot start, for the same reasons.

    When one workload of a group does not fit, those behind it do not fit either: a cycle considers
    groups, which are few, instead of workloads, which are many.
    """

    team: str | None
    user: str | None
    sweep: str | None
    priority: int
    shape: Shape
    is_held: bool
    takes_free_only: bool


class QueueEntry(NamedTuple):
    """One pending workload with its key."""

    key: Key
    workload: Workload
    planned_s: float | None
    """The planned run time; None: unknown."""


@dataclass(slots=True)
class Queue:
    """The workloads of one group in order."""

    group: WorkloadGroup
    entries: list[QueueEntry] = field(default_factory=list)


class PendingQueue:
    """All pending workloads. The cost of a change does not grow with the length of the queue.

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
        """All entries, in no order."""
        return (entry for _, entry in self._entries.values())

    @property
    def ids(self) -> Set[str]:
        """The ids of the pending workloads."""
        return self._entries.keys()

    @property
    def queues(self) -> Iterator[Queue]:
        """The queues of all groups with a pending workload."""
        return iter(self._queues.values())

    def entry(self, workload_id: str) -> QueueEntry:
        """The entry of this workload."""
        return self._entries[workload_id][1]

    def group(self, workload_id: str) -> WorkloadGroup:
        """The group of this workload."""
        return self._entries[workload_id][0]

    def join(self, workload: Workload) -> None:
        """Adds or replaces a pending workload."""
        if workload.workload_id in self._entries:
            self.leave(workload.workload_id)
        submitted_s = epoch_s(workload.submitted_at)
        self._insert(workload, self._order.key(workload, submitted_s))
        starves_from_s = self._order.starves_from_s(workload, submitted_s)
        if starves_from_s is not None:
            heappush(self._starving_from, (starves_from_s, workload.workload_id))

    def leave(self, workload_id: str) -> None:
        """Removes a workload."""
        group, entry = self._entries.pop(workload_id)
        queue = self._queues[group]
        del queue.entries[bisect_left(queue.entries, entry.key, key=_key)]
        if not queue.entries:
            del self._queues[group]

    def pass_time(self, now_s: float) -> None:
        """Moves starving workloads to the front."""
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
