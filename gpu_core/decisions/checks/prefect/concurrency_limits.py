"""Prefect's concurrency limits and pauses: which runs they keep back, and for which reason.

Prefect's server hands out no run of a paused pool or queue, and none over a concurrency limit of
either. Its rules are those of `get-runs-from-worker-queues.sql.jinja` in Prefect 3.8.8. It does not
start a run over the concurrency limit of its deployment.
"""

from collections.abc import Sequence

from gpu_core.decisions.checks.prefect.pool_commands import resume_command, unlimited_command
from gpu_core.decisions.checks.prefect.pool_status import PoolStatus, QueueStatus, named, room_left
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.units import count
from gpu_core.decisions.model.workload import Hold


def held_by_deployment(active_slots: int, limit: int) -> Hold | None:
    """Would Prefect refuse to start a run of this deployment? Then none is preempted for it.

    Args:
        active_slots: Of the deployment's concurrency limit, those that runs hold.
        limit: How many it has.
    """
    if active_slots < limit:
        return None
    return Hold(
        reason=Reason.DEPLOYMENT_LIMIT,
        summary=f"Held: all {limit} concurrency slots of the deployment are in use by "
        f"{active_slots} runs.",
        resolution="The run can start when one of these runs finishes, or if you increase the "
        "concurrency limit.",
    )


def kept_back(pool: PoolStatus, due: Sequence[tuple[str, str]]) -> dict[str, Hold]:
    """The due runs that Prefect hands out to no worker, each with the reason.

    Args:
        due: Id and queue of every run that waits and is due, the earliest one first.
    """
    holds: dict[str, Hold] = {}
    handed_out = 0
    queues = {queue.name: queue for queue in pool.queues}
    room = room_left(pool.concurrency_limit, pool.active)
    ranks = {queue.name: rank for rank, queue in enumerate(pool.queues)}
    used = dict.fromkeys(queues, 0)
    for run_id, name in sorted(due, key=lambda each: ranks.get(each[1], len(ranks))):
        queue = queues.get(name)
        hold = _paused(pool, queue) or _over_limit_of_queue(pool, queue, used.get(name, 0))
        if hold is None and room is not None and handed_out >= room:
            hold = _over_limit(pool.name, None, pool.concurrency_limit or 0, pool.active)
        if hold is not None:
            holds[run_id] = hold
            continue
        handed_out += 1
        used[name] = used.get(name, 0) + 1
    return holds


def _paused(pool: PoolStatus, queue: QueueStatus | None) -> Hold | None:
    if pool.is_paused:
        return Hold(
            reason=Reason.POOL_PAUSED,
            summary=f"Held: work pool {pool.name!r} is paused.",
            resolution=f"To resume the work pool, run `{resume_command(pool.name)}`.",
        )
    if queue is None or not queue.is_paused:
        return None
    command = resume_command(pool.name, queue.name)
    return Hold(
        reason=Reason.QUEUE_PAUSED,
        summary=f"Held: work queue {queue.name!r} is paused.",
        resolution=f"To resume the work queue, run `{command}`.",
    )


def _over_limit_of_queue(pool: PoolStatus, queue: QueueStatus | None, used: int) -> Hold | None:
    limit = None if queue is None else queue.concurrency_limit
    if queue is None or limit is None or used < max(0, limit - queue.active):
        return None
    return _over_limit(pool.name, queue.name, limit, queue.active)


def _over_limit(pool: str, queue: str | None, limit: int, active: int) -> Hold:
    what = named(pool, queue).replace("W", "w", 1)
    return Hold(
        reason=Reason.POOL_LIMIT if queue is None else Reason.QUEUE_LIMIT,
        summary=f"Held: {what} has a concurrency limit of {limit}, with "
        f"{count(active, 'active run')}.",
        resolution="Wait for an active run to finish, or remove the limit with "
        f"`{unlimited_command(pool, queue)}`.",
    )
