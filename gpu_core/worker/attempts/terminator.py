"""The attempts that have to stop: preempted, cancelled, over a limit, or where they cannot work."""

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

import anyio
from anyio.abc import TaskGroup
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun, StateType

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.prefect.flow_runs import (
    count_flow_runs_by_id,
    is_flow_run_id,
    read_flow_runs_by_id,
)
from gpu_core.decisions.attempts.phase import AttemptPhase
from gpu_core.decisions.attempts.preempted import why_preempted
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.units import format_duration
from gpu_core.decisions.model.workload import Workload
from gpu_core.decisions.policy.policy import Policy
from gpu_core.worker.attempts.draining import deadline, drain
from gpu_core.worker.attempts.registry import AttemptRegistry
from gpu_core.worker.attempts.run_log import run_fields, run_log
from gpu_core.worker.attempts.settler import Settler
from gpu_core.worker.attempts.state import AttemptState, StartFailure, StartFailureKind
from gpu_core.worker.infrastructure import Infrastructure
from gpu_core.worker.operations.patient_read import PATIENCE_S, PatientRead
from gpu_core.worker.operations.threads import in_thread
from gpu_core.worker.operations.throttle import Throttle
from gpu_core.worker.watch.decision_log import DecisionLog

_log = logging.getLogger("prefect.gpu.terminator")

# Prefect's own process ends a cancelled flow and takes up to 30 s for it; then we do.
_CANCEL_GRACE_S = 40

_CANCEL_POLL_S = 5.0

# Hooks of a flow run after its last state, and may upload what it made.
_LINGERS_S = 600
_CANCELLED = (StateType.CANCELLING, StateType.CANCELLED)
_IN_COURSE = (StateType.SCHEDULED, StateType.PENDING, StateType.RUNNING, StateType.PAUSED)

_START_FAILURES = {
    EndReason.REFUSED: StartFailureKind.REFUSED,
    EndReason.POSTPONED: StartFailureKind.POSTPONED,
}


class Terminator:
    """Asks attempts to stop, and drains them concurrently with cycles.

    Args:
        tasks: Where draining runs, concurrently with cycles.
        wake: Called when GPUs may have become free.
        settler: Ends at once what can never start.
        decisions: The log of decisions.
        hidden: A text without secrets, for Kubernetes Events.
    """

    def __init__(
        self,
        *,
        client: PrefectClient,
        ledger: Ledger,
        attempts: AttemptRegistry,
        infrastructure: Infrastructure,
        tasks: TaskGroup,
        wake: Callable[[], None],
        settler: Settler,
        decisions: DecisionLog,
        hidden: Callable[[str], str] = str,
    ) -> None:
        self._decisions = decisions
        self._client = client
        self._ledger = ledger
        self._attempts = attempts
        self._infrastructure = infrastructure
        self._tasks = tasks
        self._wake = wake
        self._settler = settler
        self._hidden = hidden
        self._cancel_polls = Throttle(_CANCEL_POLL_S)
        self._states = PatientRead(self._out_of_course, tasks, wake, PATIENCE_S)

    async def preempt(
        self, running: AttemptState, preemptor: Workload, policy: Policy, now: datetime
    ) -> None:
        """Take the GPUs of this attempt for a workload that the plan prefers."""
        why = why_preempted(running.workload, preemptor)
        await self.stop(
            running, EndReason.PREEMPTED, why, policy, now, preempted_by=preemptor.workload_id
        )

    async def stop(
        self,
        running: AttemptState,
        reason: EndReason,
        why: str,
        policy: Policy,
        now: datetime,
        *,
        preempted_by: str | None = None,
    ) -> None:
        """Stop this attempt after it has saved, within the policy's grace period.

        Args:
            reason: Whether the run resumes, fails or waits afterwards (`EndReason`).
            why: For people; the run's page and the ledger have it.
            preempted_by: The workload that gets its GPUs.
        """
        await self._drain_within(
            running,
            reason,
            grace_s=policy.preemption.grace_period_s,
            message=why,
            now=now,
            preempted_by=preempted_by,
        )

    def poll_cancellations_soon(self) -> None:
        """Let the next cycle poll for cancelled runs, however recently the last one did."""
        self._cancel_polls.reset()

    def ask_for_cancelled(self) -> None:
        """Ask what people cancelled or deleted, for the next `stop_cancelled`."""
        if not self._started() or self._states.is_wanted:
            return
        if self._cancel_polls.allows(anyio.current_time()):
            self._states.ask()

    async def stop_cancelled(self, now: datetime) -> None:
        """Stop what people cancelled or deleted, and what outlives its run for long."""
        self.ask_for_cancelled()
        if not self._started() or not self._states.is_wanted:
            return
        for running, run in await self._states.newest():
            # Another attempt of the run may have begun since.
            if self._attempts.of_run(running.flow_run_id) is running:
                with self._attempts.faults.of_run(running, "ended", now):
                    await self._stop_if_cancelled(running, run, now)

    def _started(self) -> dict[str, AttemptState]:
        return {
            running.flow_run_id: running
            for running in self._attempts
            if running.attempt.started_at and is_flow_run_id(running.flow_run_id)
        }

    async def _out_of_course(self) -> list[tuple[AttemptState, FlowRun | None]]:
        """The runs that do not wait, start or run by Prefect's state; None: the run was deleted.

        Nearly all do, and the server, which serves all workers, takes long to write each one down.
        """
        started = self._started()
        in_course = await count_flow_runs_by_id(self._client, started, in_states=_IN_COURSE)
        if in_course == len(started):
            return []
        runs = await read_flow_runs_by_id(self._client, started, not_in_states=_IN_COURSE)
        found: dict[str, FlowRun | None] = dict(runs)
        # One that ended between the two is in both. What was deleted meanwhile is found next time.
        if in_course + len(found) < len(started):
            there = await read_flow_runs_by_id(self._client, started)
            found.update(dict.fromkeys(started.keys() - there.keys()))
        return [(started[flow_run_id], run) for flow_run_id, run in found.items()]

    async def _stop_if_cancelled(
        self, running: AttemptState, run: FlowRun | None, now: datetime
    ) -> None:
        if run is not None and run.state_type not in _CANCELLED:
            if _lingers(run, now):
                fields = run_fields(running)
                _log.warning(
                    "Terminating process for flow run %r because the run has ended",
                    run.name,
                    extra=fields,
                )
                await self._infrastructure.terminate(running)
            return
        if running.drain_reason is EndReason.CANCELLED:
            return
        done = "deleted" if run is None else "cancelled"
        await self._drain_within(
            running,
            EndReason.CANCELLED,
            grace_s=_CANCEL_GRACE_S,
            message=f"The run was {done} by a user.",
            now=now,
        )

    async def stop_overdue(self, policy: Policy, now: datetime) -> None:
        """Stop what runs longer than its `max_duration`."""
        for running in self._attempts:
            limit_s = running.limits.max_duration_s
            if limit_s is None or not running.phase.is_up:
                continue
            if (now - running.attempt.admitted_at).total_seconds() <= limit_s:
                continue
            with self._attempts.faults.of_run(running, "ended", now):
                why = f"The run exceeded the maximum duration of {format_duration(limit_s)}."
                await self.stop(running, EndReason.TIMED_OUT, why, policy, now)

    async def stop_troubled(self, policy: Policy, now: datetime) -> None:
        """Stop what is where it can never work, or can work no longer."""
        for running in self._attempts:
            if not running.phase.is_up:
                continue
            with self._attempts.faults.of_run(running, "ended", now):
                trouble = self._infrastructure.trouble(running, policy, now)
                if trouble is None:
                    continue
                kind = _START_FAILURES.get(trouble.reason)
                if kind is not None:
                    self._settler.end_unstarted(running, StartFailure(kind, trouble.message))
                    continue
                await self.stop(running, trouble.reason, trouble.message, policy, now)

    def resume_draining(self, attempts: Iterable[AttemptState]) -> None:
        """Drain what another worker had asked to stop."""
        for running in attempts:
            if running.phase is AttemptPhase.DRAINING:
                self._tasks.start_soon(self._drain, running)

    async def _drain_within(
        self,
        running: AttemptState,
        reason: EndReason,
        *,
        grace_s: int,
        message: str,
        now: datetime,
        preempted_by: str | None = None,
    ) -> None:
        if running.phase is AttemptPhase.ADMITTED:
            return  # it is launched or withdrawn within a moment; the next cycle decides anew
        if running.phase.has_ended and reason is not EndReason.CANCELLED:
            return  # it ended by itself before; its end is only not written down yet
        deadline_at = deadline(now, grace_s)
        is_first = await in_thread(
            lambda: self._ledger.mark_draining(
                running.attempt.attempt_id,
                requested_at=now,
                reason=reason,
                deadline_at=deadline_at,
                message=message,
                preempted_by=preempted_by,
                decided=self._decisions.stop(running.attempt, reason, message, now, preempted_by),
            )
        )
        if not is_first:
            return
        running.attempt = replace(
            running.attempt,
            drain_requested_at=now,
            drain_reason=reason,
            drain_deadline_at=deadline_at,
            drain_message=message,
            preempted_by=preempted_by,
        )
        # A cancellation overrides a preemption under way; it may also have ended meanwhile.
        if not running.phase.is_stopping:
            running.move_to(AttemptPhase.DRAINING, now)
        run_log(running, reason).warning(
            "Must stop by %s UTC: %s", f"{deadline_at:%H:%M:%S}", message
        )
        note = f"Must stop by {deadline_at:%H:%M:%S} UTC: {message}"
        self._infrastructure.record_event(running, reason, self._hidden(note))
        self._tasks.start_soon(self._drain, running)

    async def _drain(self, running: AttemptState) -> None:
        try:
            await drain(running, self._infrastructure, self._wake)
        except Exception:
            # An error here must not end the worker, nor leave the GPUs held.
            name = running.record.name
            _log.exception(
                "Killing flow run %r because it did not stop",
                name,
                extra=run_fields(running),
            )
            with suppress(Exception):
                await self._infrastructure.kill(running)
            self._wake()


def _lingers(run: FlowRun, now: datetime) -> bool:
    """Is its flow long over by Prefect's state? Its process may hang, or a sidecar still run."""
    if run.state is None or run.state.type not in (StateType.COMPLETED, StateType.FAILED):
        return False
    return (now - run.state.timestamp).total_seconds() > _LINGERS_S
