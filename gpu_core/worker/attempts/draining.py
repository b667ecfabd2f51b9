"""Ending an attempt in good order: notice, save, SIGTERM, and SIGKILL at the end of the grace."""

import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import anyio

from gpu_core.adapters.files.run_files import Notice
from gpu_core.decisions.attempts.phase import AttemptPhase
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.worker.attempts.run_log import run_fields
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.infrastructure import Infrastructure

_log = logging.getLogger("prefect.gpu.draining")

# Of the grace period, what is kept for Prefect to end the flow after SIGTERM; SIGKILL follows.
_TERMINATION_S = 6.0

_POLL_S = 0.1


def notice_window_s(grace_s: float) -> float:
    """How long may a run take to save after the notice, before SIGTERM follows?"""
    return grace_s - min(_TERMINATION_S, grace_s / 2)


async def drain(
    running: AttemptState, infrastructure: Infrastructure, on_changed: Callable[[], None]
) -> None:
    """End this attempt within its grace period. Everything it does may be done twice.

    The run learns by its notice; one that keeps checkpoints gets the time to save, and
    SIGTERM follows the save or the end of that time. What still lives at the deadline is killed.
    A cancelled run is left to Prefect's own process first, where there is one: it ends by itself.
    """
    requested_at, deadline_at = _times(running)
    is_cancelled = running.drain_reason is EndReason.CANCELLED

    async def is_over() -> bool:
        return not _lives(running, infrastructure)

    if is_cancelled and infrastructure.sees_its_cancellation(running):
        await _until(is_over, deadline_at - timedelta(seconds=_TERMINATION_S))
        await _unless_settled(running, infrastructure.terminate)
    else:
        await _ask(running, infrastructure, requested_at, deadline_at)
    await _until(is_over, deadline_at)
    await _unless_settled(running, infrastructure.kill)
    on_changed()


async def _ask(
    running: AttemptState,
    infrastructure: Infrastructure,
    requested_at: datetime,
    deadline_at: datetime,
) -> None:
    try:
        await infrastructure.notify(running, _notice(running, requested_at, deadline_at))
    except Exception:
        # Without a notice the run cannot save, but it has to end all the same.
        name, fields = running.record.name, run_fields(running)
        _log.exception("Failed to send stop notice to flow run %r", name, extra=fields)

    async def is_answered() -> bool:
        if not _lives(running, infrastructure):
            return True
        await infrastructure.refresh([running])
        # One that keeps no checkpoints at all has nothing to save.
        return running.report is None or running.report.answers_notice

    async def is_started() -> bool:
        return running.attempt.started_at is not None or not running.phase.holds_gpus

    window = timedelta(seconds=notice_window_s((deadline_at - requested_at).total_seconds()))
    await _until(is_answered, requested_at + window)
    await _until(is_started, deadline_at)
    await _unless_settled(running, infrastructure.terminate)


def _times(running: AttemptState) -> tuple[datetime, datetime]:
    attempt = running.attempt
    if attempt.drain_requested_at is None or attempt.drain_deadline_at is None:
        raise ValueError(f"attempt {attempt.attempt_id} was not asked to stop")
    return attempt.drain_requested_at, attempt.drain_deadline_at


def _notice(running: AttemptState, requested_at: datetime, deadline_at: datetime) -> Notice:
    return Notice(
        reason=(running.drain_reason or EndReason.INTERRUPTED).value,
        message=running.attempt.drain_message or "",
        requested_at=requested_at,
        deadline_at=deadline_at,
    )


def deadline(requested_at: datetime, grace_s: int) -> datetime:
    """The latest moment at which an attempt is killed that is asked to stop now."""
    return requested_at + timedelta(seconds=grace_s)


def _lives(running: AttemptState, infrastructure: Infrastructure) -> bool:
    """Is there, or will there be, a process? One that was admitted is about to have one."""
    if running.attempt.started_at is None:
        return running.phase.holds_gpus
    return infrastructure.lives(running)


async def _unless_settled(
    running: AttemptState, end: Callable[[AttemptState], Awaitable[object]]
) -> None:
    """Nothing of a settled attempt lives, and nothing would forget what is noted of it now."""
    if running.phase is not AttemptPhase.SETTLED:
        await end(running)


async def _until(condition: Callable[[], Awaitable[bool]], until: datetime) -> None:
    # What is waited for happens in other processes; nothing here could set an event.
    while not await condition() and datetime.now(UTC) < until:  # noqa: ASYNC110
        await anyio.sleep(_POLL_S)
