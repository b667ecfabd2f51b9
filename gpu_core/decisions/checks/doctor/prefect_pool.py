"""Is the work pool as the worker needs it, and is it served?"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from shlex import quote

from gpu_core.decisions.checks.doctor.finding import Finding, failed, ok, unknown, warning
from gpu_core.decisions.checks.prefect.pool_commands import setup_command, worker_command
from gpu_core.decisions.checks.prefect.pool_status import NO_WORKER, PoolStatus, notices
from gpu_core.decisions.model.errors import listed, nearest_name
from gpu_core.decisions.model.units import count

DEFAULT_POOL = "gpu"
"""The default pool, here and in `prefect-gpu setup`."""

OUR_TYPES = ("gpu-process", "gpu-kubernetes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """The moment of the last heartbeat of a worker of the pool."""

    name: str
    seen_at: datetime | None
    is_online: bool


def missing_pool_finding(pool: str, known: Collection[str], worker_type: str | None) -> Finding:
    """There is no pool of this name."""
    meant = nearest_name(pool, known)
    return failed(
        "prefect.pool",
        f"Work pool {pool!r} not found on this server"
        + (". " if meant is None else f". Did you mean {meant!r}? ")
        + f"GPU pools: {listed(known)}",
        setup_command(pool, worker_type or OUR_TYPES[0]),
    )


def chosen_pool(given: str | None, known: Collection[str]) -> str | None:
    """The pool to check; None: none was named, and there are none or several.

    Args:
        given: By the caller; None: none.
    """
    if given is not None or DEFAULT_POOL in known:
        return given or DEFAULT_POOL
    return next(iter(known)) if len(known) == 1 else None


def unnamed_pool_finding(known: Collection[str], worker_type: str | None) -> Finding:
    """Not stated which pool is meant."""
    if not known:
        return missing_pool_finding(DEFAULT_POOL, known, worker_type)
    return unknown(
        "prefect.pool",
        f"Found {count(len(known), 'GPU pool')}: {listed(known)}. Skipping checks of the "
        "template, queues, workers and lease, because no pool was specified",
        f"to specify a pool, run: prefect-gpu doctor --pool {quote(min(known))}",
    )


def pool_findings(
    status: PoolStatus, priorities: Collection[str], wanted_type: str | None
) -> Iterator[Finding]:
    """Is it a GPU pool, is it open, does it have the policy's queues, and does a worker serve it?

    Args:
        wanted_type: The type that the caller expects; None: any of ours.
    """
    allowed = OUR_TYPES if wanted_type is None else (wanted_type,)
    if status.worker_type not in allowed:
        yield failed(
            "prefect.pool",
            f"work pool {status.name!r} is of type {status.worker_type!r}, "
            f"not {' or '.join(allowed)}",
            "please specify a different pool with --pool or create one with: "
            f"{setup_command('NAME', allowed[0])}",
        )
        return
    yield ok("prefect.pool", f"work pool {status.name!r} of type {status.worker_type}")
    for notice in notices(status):
        make = failed if notice.key == NO_WORKER else warning
        yield make(f"prefect.{'worker' if notice.key == NO_WORKER else 'pool'}", notice.text)
    yield from _queue_findings(status, priorities)


def _queue_findings(status: PoolStatus, priorities: Collection[str]) -> Iterator[Finding]:
    names = {queue.name for queue in status.queues}
    missing = sorted({*priorities} - names)
    # Prefect makes `default` with each pool; the policy's default priority is its points.
    others = sorted(names - {*priorities} - {"default"})
    if missing:
        yield warning(
            "prefect.queues",
            f"{count(len(missing), 'queue')} defined in the policy not found in the pool: "
            f"{', '.join(missing)}",
            setup_command(status.name, status.worker_type),
        )
    if others:
        yield warning(
            "prefect.queues",
            f"{count(len(others), 'queue')} not defined in the policy: {', '.join(others)}. Runs "
            "in these queues will be held with reason UnknownQueue",
            "please add them to `priorities` in the policy",
        )
    if not missing and not others:
        yield ok("prefect.queues", f"{count(len(names), 'queue')} found, all defined in the policy")


def heartbeat_findings(
    pool: str, worker_type: str, workers: Sequence[Heartbeat], now: datetime
) -> Iterator[Finding]:
    """The workers that are online, and the age of their last heartbeat.

    Args:
        now: By the clock of Prefect's server, which wrote the heartbeats.
    """
    online = [worker for worker in workers if worker.is_online]
    if online:
        shown = ", ".join(f"{worker.name} ({_ago(worker, now)})" for worker in online)
        yield ok("prefect.worker", f"{count(len(online), 'worker')} online: {shown}")
        return
    last = max(workers, key=lambda each: each.seen_at or now, default=None)
    if last is not None and last.seen_at is not None:
        yield unknown(
            "prefect.heartbeat",
            f"No online workers found. The last heartbeat was sent by worker {last.name} "
            f"({_ago(last, now)})",
            f"please check its logs and start it again with: {worker_command(pool, worker_type)}",
        )


def _ago(worker: Heartbeat, now: datetime) -> str:
    if worker.seen_at is None:
        return "no heartbeat received"
    return f"{max(0, round((now - worker.seen_at).total_seconds())):,} s ago"
