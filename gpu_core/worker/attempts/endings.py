"""Attempts that have to end, and attempts that did."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import anyio
from anyio.abc import TaskGroup
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun, StateType

from gpu_core.adapters.ledger import Ledger, UnknownAttempt
from gpu_core.adapters.prefect.flow_runs import read_flow_runs_by_id
from gpu_core.decisions.attempts.settlement import Settlement
from gpu_core.decisions.attempts.startup_errors import is_load_error_logged
from gpu_core.decisions.model.attempts import Attempt, EndReason
from gpu_core.decisions.model.units import count, format_duration
from gpu_core.decisions.model.workload import Workload
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.spot.run_budget import Spending
from gpu_core.decisions.spot.state import CapacityDecision
from gpu_core.worker.attempts.cost_log import CostLog
from gpu_core.worker.attempts.overwritten_states import restore_rescheduled
from gpu_core.worker.attempts.registry import AttemptRegistry, write_start
from gpu_core.worker.attempts.run_faults import is_outage
from gpu_core.worker.attempts.run_log import run_fields, run_log
from gpu_core.worker.attempts.run_reader import RunReader
from gpu_core.worker.attempts.settlement import (
    Ending,
    Published,
    allow_another_attempt,
    decide,
    ends_run,
    excuse_of_end,
    has_begun,
    is_unexplained,
    publish,
    to_record,
)
from gpu_core.worker.attempts.settlement_retries import SettlementRetries
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.attempts.termination import deadline, drain
from gpu_core.worker.attempts.zombie_states import ZombieStateGuard
from gpu_core.worker.infrastructure import Exit, Infrastructure
from gpu_core.worker.operations.threads import in_thread
from gpu_core.worker.operations.throttle import Throttle
from gpu_core.worker.pending.publisher import Publisher
from gpu_core.worker.prefect.starts_first import StartsFirst
from gpu_core.worker.watch.outages import OutageWatch

_log = logging.getLogger("prefect.gpu.endings")

# Prefect's own process ends a cancelled flow and takes up to 30 s for it; then we do.
_CANCEL_GRACE_S = 40

_CANCEL_POLL_S = 5.0

# Hooks of a flow run after its last state, and may upload what it made.
_LINGERS_S = 600
_CANCELLED = (StateType.CANCELLING, StateType.CANCELLED)

# Prefect's server answers one request after the other: where a hundred runs end together, those
# that start with the freed GPUs do not wait until it has been told of all of them.
_SETTLED_AT_ONCE = 8

# Two tracebacks: that of the cause, and that of what Prefect tried after it.
_TOLD_LINES = 60


class Endings:
    """Ends attempts in good order and settles those that ended.

    Args:
        tasks: Where draining and settling run beside the cycle.
        wake: Called when GPUs became free or a run may compete again.
        cost_log: Where costs are logged.
        strays: Looks after runs whose last process may live on.
        outages: What the worker saw of the platform.
        starts: Which starts are under way: ends are reported after them.
        hidden: A text without secrets: why an attempt ended is on the page of its run.
        land: Writes down where an attempt was that is about to be settled; None: as planned.
    """

    def __init__(
        self,
        *,
        client: PrefectClient,
        ledger: Ledger,
        attempts: AttemptRegistry,
        infrastructure: Infrastructure,
        publisher: Publisher,
        tasks: TaskGroup,
        wake: Callable[[], None],
        cost_log: CostLog,
        strays: ZombieStateGuard,
        outages: OutageWatch,
        starts: StartsFirst,
        hidden: Callable[[str], str] = str,
        land: Callable[[AttemptState], Awaitable[None]] | None = None,
    ) -> None:
        self._client = client
        self._ledger = ledger
        self._attempts = attempts
        self._infrastructure = infrastructure
        self._publisher = publisher
        self._tasks = tasks
        self._wake = wake
        self._cost_log = cost_log
        self._strays = strays
        self._outages = outages
        self._starts = starts
        self._runs = RunReader(client)
        self._hidden = hidden
        self._land = land
        self._cancel_polls = Throttle(_CANCEL_POLL_S)
        self._lanes = anyio.Semaphore(_SETTLED_AT_ONCE)
        self.stories: dict[str, str] = {}
        """Why a run's last attempt ended, for those that wait for their next one."""

    # -- telling attempts to end -----------------------------------------------------------------

    async def preempt(
        self, running: AttemptState, preemptor: Workload, policy: Policy, now: datetime
    ) -> None:
        """Take the GPUs of this attempt for a more urgent workload."""
        await self._begin(
            running,
            EndReason.PREEMPTED,
            grace_s=policy.preemption.grace_period_s,
            message=f"{preemptor.name!r} is more urgent ({preemptor.priority:,} against "
            f"{running.workload.priority:,} points) and needs "
            f"{count(preemptor.total_gpus, 'GPU')}.",
            now=now,
            preempted_by=preemptor.workload_id,
        )

    async def change_capacity(
        self, running: AttemptState, decision: CapacityDecision, policy: Policy, now: datetime
    ) -> None:
        """Let this attempt give way, so that its run moves to other capacity."""
        await self._begin(
            running,
            EndReason.PREEMPTED,
            grace_s=policy.preemption.grace_period_s,
            message=f"Moves to other capacity: {decision.reason}.",
            now=now,
        )

    async def stop_spent(
        self, running: AttemptState, spending: Spending, policy: Policy, now: datetime
    ) -> None:
        """End for good what has used up its budget, after it has saved."""
        await self._begin(
            running,
            EndReason.BUDGET_SPENT,
            grace_s=policy.preemption.grace_period_s,
            message=f"{spending.reason}; with a higher budget_usd it resumes from its newest "
            "checkpoint.",
            now=now,
        )

    async def end_decided(self, now: datetime) -> None:
        """End what people cancelled, or what has long been over, and does not end by itself."""
        started = {
            r.flow_run_id: r for r in self._attempts if r.attempt.started_at and r.has_valid_id
        }
        if not started or not self._cancel_polls.allows(anyio.current_time()):
            return
        runs = await read_flow_runs_by_id(self._client, started)
        for flow_run_id, running in started.items():
            with self._contained(running, now):
                await self._end_decided(running, runs.get(flow_run_id), now)

    def _contained(self, running: AttemptState, now: datetime) -> AbstractContextManager[None]:
        return self._attempts.faults.of_run(running, "ended", now)

    async def _end_decided(self, running: AttemptState, run: FlowRun | None, now: datetime) -> None:
        if run is not None and run.state_type not in _CANCELLED:
            if _lingers(run, now):
                fields = run_fields(running)
                _log.warning("The process of %r is ended: its run is over", run.name, extra=fields)
                await self._infrastructure.terminate(running)
            return
        if running.drain_reason is EndReason.CANCELLED:
            return
        done = "deleted" if run is None else "cancelled"
        await self._begin(
            running,
            EndReason.CANCELLED,
            grace_s=_CANCEL_GRACE_S,
            message=f"A person {done} the run.",
            now=now,
        )

    def poll_cancellations_soon(self) -> None:
        """Let the next cycle poll for cancelled runs, however recently the last one did."""
        self._cancel_polls.reset()

    async def end_overdue(self, policy: Policy, now: datetime) -> None:
        """End what runs longer than it may."""
        for running in self._attempts:
            limit_s = running.limits.max_duration_s
            if limit_s is None or running.is_draining or running.attempt.started_at is None:
                continue
            if (now - running.attempt.admitted_at).total_seconds() <= limit_s:
                continue
            with self._contained(running, now):
                await self._begin(
                    running,
                    EndReason.TIMED_OUT,
                    grace_s=policy.preemption.grace_period_s,
                    message=f"It ran longer than {format_duration(limit_s)}.",
                    now=now,
                )

    async def end_troubled(self, policy: Policy, now: datetime) -> None:
        """End what is where it can never work, or not any more."""
        for running in self._attempts:
            if running.is_draining or running.attempt.started_at is None:
                continue
            with self._contained(running, now):
                trouble = self._infrastructure.trouble(running, policy, now)
                if trouble is None:
                    continue
                if trouble.reason is EndReason.REFUSED:
                    if not running.is_ending:
                        self.refuse(running, trouble.message)
                    continue
                if trouble.reason is EndReason.POSTPONED:
                    if not running.is_ending:
                        self.postpone(running, trouble.message)
                    continue
                await self._begin(
                    running,
                    trouble.reason,
                    grace_s=policy.preemption.grace_period_s,
                    message=trouble.message,
                    now=now,
                )

    def resume_draining(self, attempts: Iterable[AttemptState]) -> None:
        """Go on with what another worker had told to end."""
        for running in attempts:
            if running.is_draining:
                self._tasks.start_soon(self._drain, running)

    async def _begin(
        self,
        running: AttemptState,
        reason: EndReason,
        *,
        grace_s: int,
        message: str,
        now: datetime,
        preempted_by: str | None = None,
    ) -> None:
        if running.is_ending and reason is not EndReason.CANCELLED:
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
            _log.exception("Run %r is killed instead of ended", name, extra=run_fields(running))
            with suppress(Exception):
                await self._infrastructure.kill(running)
            self._wake()

    # -- settling attempts that ended ------------------------------------------------------------

    def find_ended(self, submitting: set[UUID], *, is_beside_cycle: bool = False) -> None:
        """Settle, beside the cycle, every attempt whose main process is gone.

        Args:
            submitting: Runs that are being started at this moment.
            is_beside_cycle: A cycle is under way: what it has just admitted is about to be started.
        """
        being_started = {str(flow_run_id) for flow_run_id in submitting}
        for running in self._attempts:
            with self._contained(running, datetime.now(UTC)):
                if running.is_ending or running.attempt.flow_run_id in being_started:
                    continue
                if is_beside_cycle and running.attempt.started_at is None:
                    continue
                if running.is_stand_in:
                    continue
                if self._infrastructure.lives(running):
                    continue
                running.is_ending = True
                self._tasks.start_soon(self._settle_until_done, running)

    def refuse(self, running: AttemptState, why: str) -> None:
        """Settle an attempt that can never be started as it is, and what was made of it."""
        running.refusal = why
        running.is_ending = True
        self._tasks.start_soon(self._settle_until_done, running)

    def postpone(self, running: AttemptState, why: str) -> None:
        """Settle an attempt that would not be taken just now."""
        running.postponement = why
        running.is_ending = True
        self._tasks.start_soon(self._settle_until_done, running)

    def excuse(self, running: AttemptState, why: str) -> None:
        """Settle an attempt that the platform kept from being started."""
        running.excuse = why
        running.is_ending = True
        self._tasks.start_soon(self._settle_until_done, running)

    async def _settle_until_done(self, running: AttemptState) -> None:
        retries = SettlementRetries()
        final: str | None = None
        while True:
            try:
                if retries.is_over and running.is_gone:
                    await self._close_unsettled(running, retries.fault or "")
                else:
                    final = await self._settle(running)
                break
            except Exception as error:
                pause_s = self._pause_s(running, retries, error)
                _log.debug("Why it could not be settled", exc_info=True)
                with anyio.move_on_after(pause_s):
                    await self._outages.wait_for_return()
        await self._report(running, final)

    def _pause_s(
        self, running: AttemptState, retries: SettlementRetries, error: Exception
    ) -> float:
        """How long until the end of this attempt is settled again? Says an error of its own."""
        name, fields = running.record.name, run_fields(running)
        if is_outage(error) or self._outages.is_api_away:
            pause_s = retries.after_outage()
            _log.warning(
                "The end of %r is settled in %.0f s: %s", name, pause_s, error, extra=fields
            )
            return pause_s
        is_first = retries.fault is None
        text = self._hidden(f"{type(error).__name__}: {error}")
        pause_s = retries.after_fault(text)
        _log.error(
            "The end of %r is settled in %.0f s: %s", name, pause_s, retries.fault, extra=fields
        )
        if is_first and running.has_valid_id:
            what = "its GPUs are free" if running.is_gone else "it holds its GPUs until then"
            run_log(running).error(
                "Its end is settled later, and %s: %s. Show this to the platform team.",
                *(what, retries.fault),
            )
        return pause_s

    async def _close_unsettled(self, running: AttemptState, fault: str) -> None:
        """Close an attempt whose end could not be settled for a day; nothing of it lives.

        Otherwise it would count as running for ever, with its cost. The run is not tried again,
        because its next end could not be settled either; it is charged with no failure.
        """
        message = f"Its end could not be settled for a day: {fault}; it is not tried again."
        settlement = Settlement(
            end_reason=EndReason.CRASHED,
            is_charged_failure=False,
            next_state="Crashed",
            message=message,
        )
        ending = Ending(
            settlement=settlement,
            released_at=running.gone_at or datetime.now(UTC),
            exit_code=None,
            is_end_estimated=True,
        )
        with suppress(UnknownAttempt):
            await in_thread(self._close, running, ending)
        fields = run_fields(running, EndReason.CRASHED)
        _log.error("The attempt of %r is closed: %s", running.record.name, message, extra=fields)
        with suppress(Exception):  # whatever Prefect refuses, its page has the line before
            run = await self._runs.of(running)
            if run is not None and (run.state is None or not run.state.is_final()):
                await publish(self._client, running, run, settlement)
        self._attempts.remove(running)
        self._infrastructure.settled(running)
        self._wake()

    async def _settle(self, running: AttemptState) -> str | None:
        """Free its GPUs, then settle it. The name of the run's final state, where that is known."""
        if self._land is not None and not running.is_gone:
            await self._land(running)
        # Orphans too: nobody may get these GPUs, nor the run another attempt, while one lives.
        if not await self._infrastructure.kill(running):
            raise RuntimeError("its processes do not end")
        gone_at = running.gone_at
        if gone_at is None:
            gone_at = running.gone_at = datetime.now(UTC)
            _log.debug("The GPUs of %r are free", running.record.name)
            self._wake()
        if not running.is_claimed:
            await in_thread(self._ledger.withdraw_attempt, running.attempt.attempt_id)
            self._attempts.remove(running)
            self._infrastructure.settled(running)
            self._wake()
            return None
        # Its GPUs are free, so that nothing but its page waits for this.
        await self._starts.let_pass()
        while True:
            async with self._lanes:
                published = await self._judge(running, gone_at)
            if published.stands:
                state = published.state
                return state.name if state is not None and state.is_final() else None

    async def _judge(self, running: AttemptState, gone_at: datetime) -> Published:
        """Settle an attempt whose GPUs are free, since this moment."""
        flow_run_id = running.attempt.flow_run_id
        await self._infrastructure.refresh([running])
        run = await self._run_as_it_ended(running)
        earlier = [a for a in await self._history(flow_run_id) if a.released_at is not None]
        exit_ = await self._infrastructure.exit(running)
        await self._note_start(running, exit_)
        begun = run is not None and await has_begun(self._client, run)
        lines = await self._unexplained_output(running, run, exit_)
        is_flow = exit_ is not None and exit_.is_flow
        unbegun = lines if is_flow and not begun else ()
        excuse = excuse_of_end(
            *(running, run, exit_, lines, self._outages.seen),
            has_begun=begun,
            is_folder_gone=self._infrastructure.disk is not None and not running.run_dir.exists(),
        )
        ending = decide(
            *(running, run, exit_, earlier, gone_at, unbegun),
            has_begun=begun,
            held_gpus=begun or self._infrastructure.held_gpus(running),
            excuse=excuse,
        )
        message = self._hidden(ending.settlement.message)
        ending = replace(ending, settlement=replace(ending.settlement, message=message))
        await self._remember(running, ending)
        reason = ending.settlement.end_reason
        may_start_again = (reason is not None and reason.has_run) and (
            ending.settlement.next_state is not None or reason is EndReason.SUSPENDED
        )
        if run is not None and may_start_again:
            await allow_another_attempt(self._client, run, retries=ending.retries)
        published = await publish(self._client, running, run, ending.settlement)
        if not published.stands:
            return published
        if ending.settlement.next_state in ("AwaitingRetry", "Scheduled"):
            self._strays.watch(running.flow_run_id, ending.settlement.message)
        await in_thread(self._close, running, ending)
        self._attempts.remove(running)
        if reason is not None:
            self._tell_end(running, reason, ending.settlement.message)
        self._infrastructure.settled(running)
        self._wake()
        return published

    async def _run_as_it_ended(self, running: AttemptState) -> FlowRun | None:
        """The flow run as Prefect has it, with the end that a SIGTERM came too late for."""
        run = await self._runs.of(running)
        if run is not None and running.is_draining:
            state = await restore_rescheduled(self._client, run, ends_run)
            if state is not None:
                return await self._runs.of(running)
        return run

    def _tell_end(self, running: AttemptState, reason: EndReason, message: str) -> None:
        if reason.has_run:  # otherwise the reason why it waits says it
            self.stories[running.attempt.flow_run_id] = message
        text = f"Attempt {running.attempt.number} ended. {message}"
        run_log(running, reason).info("%s", text)
        self._infrastructure.record_event(running, reason, text)

    async def _note_start(self, running: AttemptState, exit_: Exit | None) -> None:
        """A worker that was killed before it could note the start may leave only the end to see."""
        started_at = exit_.started_at if exit_ is not None else None
        if running.attempt.started_at is None and started_at is not None:
            running.attempt = replace(running.attempt, started_at=started_at)
            running.has_unwritten_start = True
        if running.has_unwritten_start:
            await in_thread(write_start, self._ledger, running.attempt)
            running.has_unwritten_start = False

    async def _unexplained_output(
        self, running: AttemptState, run: FlowRun | None, exit_: Exit | None
    ) -> tuple[str, ...]:
        """Tell the run the last lines of its output, where nothing else explains the attempt's end.

        Lines with a traceback that its log has already are only returned.

        Returns:
            Them; empty: something else explains it, or there is no output.
        """
        if running.attempt.settlement is not None or not is_unexplained(running, run, exit_):
            return ()
        lines = await self._infrastructure.last_lines(running)
        if lines and not is_load_error_logged(lines):
            text = "\n".join(lines[-_TOLD_LINES:])
            run_log(running).error("The last lines of its output:\n%s", text)
        return lines

    async def _remember(self, running: AttemptState, ending: Ending) -> None:
        """Write the decision down before anything follows from it."""
        record = to_record(ending, datetime.now(UTC))
        await in_thread(self._ledger.note_settlement, running.attempt.attempt_id, record)
        running.attempt = replace(running.attempt, settlement=record)

    def _close(self, running: AttemptState, ending: Ending) -> None:
        attempt, report, settlement = running.attempt, running.report, ending.settlement
        if settlement.end_reason is None:
            self._ledger.withdraw_attempt(attempt.attempt_id)
            return
        self._ledger.close_attempt(
            attempt.attempt_id,
            released_at=ending.released_at,
            end_reason=settlement.end_reason,
            end_message=settlement.message,
            exit_code=ending.exit_code,
            is_charged_failure=settlement.is_charged_failure,
            is_end_estimated=ending.is_end_estimated,
            checkpoint=report.checkpoint if report is not None else None,
            checkpointed_at=report.saved_at if report is not None else None,
            restored_from=report.restored_from if report is not None else None,
            first_step_at=report.first_step_at if report is not None else None,
            expected_loss_s=report.expected_loss_s if report is not None else None,
        )

    async def _report(self, running: AttemptState, final: str | None) -> None:
        """Tell people and MLflow of an end. Nothing depends on it, so a failure is only logged.

        Args:
            final: The name of the run's final state; None: it has to be read.
        """
        flow_run_id = running.attempt.flow_run_id
        try:
            attempts = await self._history(flow_run_id)
            if final is None:
                final = _final_name(await self._runs.of(running))
            if final is not None:
                self.stories.pop(flow_run_id, None)
                await in_thread(self._ledger.finish_run, flow_run_id, final)
            if not attempts:
                return
            async with self._lanes:
                await self._publisher.attempts(running.flow_run_id, attempts)
            await in_thread(self._cost_log.log, flow_run_id)
        except Exception:
            _log.warning(
                "The end of %r is not reported in full",
                running.record.name,
                exc_info=True,
                extra=run_fields(running),
            )

    async def _history(self, flow_run_id: str) -> tuple[Attempt, ...]:
        found = await in_thread(self._ledger.attempts_of, [flow_run_id])
        return found.get(flow_run_id, ())

    async def learn_stories(self, flow_run_ids: Sequence[str]) -> None:
        """Why the last attempts of these runs ended, after a restart too."""
        unknown = [flow_run_id for flow_run_id in flow_run_ids if flow_run_id not in self.stories]
        if not unknown:
            return
        found: Mapping[str, tuple[Attempt, ...]] = await in_thread(
            self._ledger.attempts_of, unknown
        )
        for flow_run_id, attempts in found.items():
            taken = [a for a in attempts if a.has_run]
            if taken:
                self.stories[flow_run_id] = taken[-1].end_message or ""


def _lingers(run: FlowRun, now: datetime) -> bool:
    """Has its flow said long ago that it is done? Its process may hang, or a sidecar go on."""
    if run.state is None or run.state.type not in (StateType.COMPLETED, StateType.FAILED):
        return False
    return (now - run.state.timestamp).total_seconds() > _LINGERS_S


def _final_name(run: FlowRun | None) -> str | None:
    """The name of the run's final state; None while it is not over."""
    if run is None:
        return "Deleted"
    if run.state is None or not run.state.is_final():
        return None
    return run.state.name
