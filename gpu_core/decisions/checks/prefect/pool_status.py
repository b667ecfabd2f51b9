"""A work pool as Prefect has it: what is paused, limited or full, and who serves it."""

from dataclasses import dataclass
from typing import NamedTuple

from gpu_core.decisions.checks.prefect.pool_commands import (
    resume_command,
    unlimited_command,
    worker_command,
)
from gpu_core.decisions.model.units import count

NO_WORKER = "no worker"
"""The key of the notice that no worker serves the pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """One work queue of a pool."""

    name: str
    is_paused: bool = False
    concurrency_limit: int | None = None
    active: int = 0
    """Runs that are Pending or Running."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenWorker:
    """A worker that Prefect believes to be online."""

    name: str
    worker_type: str | None
    """None: nothing is known of how it was started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolStatus:
    """A work pool as Prefect has it."""

    name: str
    pool_id: str = ""
    worker_type: str
    is_paused: bool = False
    concurrency_limit: int | None = None
    queues: tuple[QueueStatus, ...] = ()
    """The most urgent one first."""
    workers: tuple[SeenWorker, ...] = ()

    @property
    def active(self) -> int:
        """Runs that are Pending or Running; Prefect leaves out those of paused queues."""
        return sum(queue.active for queue in self.queues if not queue.is_paused)

    @property
    def may_keep_back(self) -> bool:
        """Is anything paused or limited?"""
        return (
            self.is_paused
            or self.concurrency_limit is not None
            or any(q.is_paused or q.concurrency_limit is not None for q in self.queues)
        )

    @property
    def strangers(self) -> tuple[SeenWorker, ...]:
        """The workers of another type: they start runs without giving them GPUs."""
        return tuple(
            worker for worker in self.workers if worker.worker_type not in (None, self.worker_type)
        )

    @property
    def has_worker(self) -> bool:
        """Is a worker of the pool's type online, as far as is known?"""
        return len(self.workers) > len(self.strangers)


class StrangersRun(NamedTuple):
    """A run of the pool that a worker of another type has started."""

    run_id: str
    run: str
    worker: SeenWorker

    def text(self, pool: PoolStatus) -> str:
        """The notice for the pool's owner, with the action to take."""
        return (
            f"Worker {self.worker.name!r} of type {self.worker.worker_type!r} started this run. It "
            "has no GPUs of its own, gives way to no run, and its cost is not accounted. Stop that "
            "worker, start the pool's own and run this again: "
            f"{worker_command(pool.name, pool.worker_type)}"
        )


class PoolNotice(NamedTuple):
    """A notice about a pool: one sentence, and the command that helps."""

    key: str
    """The subject, which stays the same while the text changes."""
    text: str
    over: str
    """The message when it is no longer so."""


def notices(pool: PoolStatus) -> tuple[PoolNotice, ...]:
    """The properties of the pool itself that explain why runs wait."""
    paused = [queue for queue in pool.queues if queue.is_paused and not pool.is_paused]
    full = [
        q for q in pool.queues if not q.is_paused and room_left(q.concurrency_limit, q.active) == 0
    ]
    found = [_paused_notice(pool, None)] if pool.is_paused else []
    found += [_paused_notice(pool, queue.name) for queue in paused]
    if room_left(pool.concurrency_limit, pool.active) == 0:
        found.append(_full_notice(pool, None, pool.concurrency_limit or 0, pool.active))
    found += [_full_notice(pool, q.name, q.concurrency_limit or 0, q.active) for q in full]
    found += [_stranger_notice(pool, worker) for worker in pool.strangers]
    if not pool.has_worker:
        text = (
            f"No {pool.worker_type} worker is online for this work pool. To start a worker, run: "
            f"{worker_command(pool.name, pool.worker_type)}"
        )
        found.append(PoolNotice(NO_WORKER, text, over="A worker is online"))
    return tuple(found)


def _paused_notice(pool: PoolStatus, queue: str | None) -> PoolNotice:
    what = named(pool.name, queue)
    return PoolNotice(
        f"{what} is paused",
        f"{what} is paused, so its runs will not start. To resume it, run: "
        f"{resume_command(pool.name, queue)}",
        over=f"{what} is resumed",
    )


def _full_notice(pool: PoolStatus, queue: str | None, limit: int, active: int) -> PoolNotice:
    what = named(pool.name, queue)
    return PoolNotice(
        f"{what} is full",
        f"{what} has reached its concurrency limit of {limit}, with "
        f"{count(active, 'active run')}. To remove the limit, run: "
        f"{unlimited_command(pool.name, queue)}",
        over=f"{what} is below its concurrency limit again",
    )


def _stranger_notice(pool: PoolStatus, worker: SeenWorker) -> PoolNotice:
    kind = worker.worker_type or ""
    return PoolNotice(
        f"worker {worker.name}",
        f"Worker {worker.name!r} of type {kind!r} starts runs in this pool without allocating "
        "GPUs. Please stop it and start the correct worker with "
        f"`{worker_command(pool.name, pool.worker_type)}`. To create a pool of its own type, run "
        f"`prefect work-pool create {kind}-pool --type {kind}`.",
        over=f"Worker {worker.name!r} of type {kind!r} is gone",
    )


def named(pool: str, queue: str | None) -> str:
    """A pool, or one of its queues, as a sentence begins with it."""
    return f"Work pool {pool!r}" if queue is None else f"Work queue {queue!r}"


def room_left(limit: int | None, active: int) -> int | None:
    """How many more may be active at once? None: any number."""
    return None if limit is None else max(0, limit - active)
