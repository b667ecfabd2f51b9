"""Ending an attempt in good order: notice, save, SIGTERM, and SIGKILL at the end of the grace."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import anyio

from gpu_core.adapters.run_files import Notice, write_notice
from gpu_core.decisions.accounting import EndReason
from gpu_core.worker.processes import LocalProcesses
from gpu_core.worker.running import RunningAttempt
from gpu_core.worker.threads import in_thread

_log = logging.getLogger("prefect.gpu.draining")

# Of the grace period, what is kept for Prefect to end the flow after SIGTERM; SIGKILL follows.
_TERMINATION_S = 6.0

_LOOK_S = 0.1


def notice_window_s(grace_s: float) -> float:
    """How long may a run take to save after the notice, before SIGTERM follows?"""
    return grace_s - min(_TERMINATION_S, grace_s / 2)


async def drain(
    running: RunningAttempt, processes: LocalProcesses, on_changed: Callable[[], None]
) -> None:
    """End this attempt within its grace period. Everything it does may be done twice.

    The run learns by its notice file; one that keeps checkpoints gets the time to save, and
    SIGTERM follows the save or the end of that time. What still lives at the deadline is killed.
    A cancelled run is left to Prefect's own process first, which ends it by itself.
    """
    requested_at, deadline_at = _times(running)
    if running.drain_reason is EndReason.CANCELLED:
        leave_alone_until = deadline_at - timedelta(seconds=_TERMINATION_S)
        await _until(lambda: not _lives(running, processes), leave_alone_until)
        processes.terminate(running.attempt)
    else:
        await _ask(running, processes, requested_at, deadline_at)
    await _until(lambda: not _lives(running, processes), deadline_at)
    await in_thread(processes.kill, running.attempt.attempt_id)
    on_changed()


async def _ask(
    running: RunningAttempt,
    processes: LocalProcesses,
    requested_at: datetime,
    deadline_at: datetime,
) -> None:
    try:
        await in_thread(write_notice, running.run_dir, _notice(running, requested_at, deadline_at))
    except OSError:
        # Without a notice the run cannot save, but it has to end all the same.
        _log.exception("Run %r gets no notice", running.record.name)
    window = timedelta(seconds=notice_window_s((deadline_at - requested_at).total_seconds()))
    await _until(
        lambda: _has_answered(running) or not _lives(running, processes), requested_at + window
    )
    await _until(lambda: running.attempt.pid is not None or running.is_gone, deadline_at)
    processes.terminate(running.attempt)


def _times(running: RunningAttempt) -> tuple[datetime, datetime]:
    attempt = running.attempt
    if attempt.drain_requested_at is None or attempt.drain_deadline_at is None:
        raise ValueError(f"attempt {attempt.attempt_id} was not told to end")
    return attempt.drain_requested_at, attempt.drain_deadline_at


def _notice(running: RunningAttempt, requested_at: datetime, deadline_at: datetime) -> Notice:
    return Notice(
        reason=(running.drain_reason or EndReason.INTERRUPTED).value,
        message=running.attempt.drain_message or "",
        requested_at=requested_at,
        deadline_at=deadline_at,
    )


def deadline(requested_at: datetime, grace_s: int) -> datetime:
    """When is an attempt that is told to end now killed at the latest?"""
    return requested_at + timedelta(seconds=grace_s)


def _has_answered(running: RunningAttempt) -> bool:
    """Nothing to wait for: it saved after the notice, or it keeps no checkpoints at all."""
    running.refresh()
    return running.report is None or running.report.answers_notice


def _lives(running: RunningAttempt, processes: LocalProcesses) -> bool:
    """Is there, or will there be, a process? One that was admitted is about to have one."""
    if running.attempt.pid is None:
        return not running.is_gone
    return processes.lives(running.attempt)


async def _until(condition: Callable[[], bool], until: datetime) -> None:
    # What is waited for happens in other processes; nothing here could set an event.
    while not condition() and datetime.now(UTC) < until:  # noqa: ASYNC110
        await anyio.sleep(_LOOK_S)
