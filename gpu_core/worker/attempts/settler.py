"""Attempts that ended: what is left of them is killed, then they are settled and reported."""

import logging
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

import anyio
from anyio.abc import TaskGroup
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun

from gpu_core.adapters.ledger import Ledger, UnknownAttempt
from gpu_core.adapters.prefect.flow_runs import is_flow_run_id
from gpu_core.adapters.prefect.states import restore_rescheduled
from gpu_core.decisions.attempts.phase import AttemptPhase
from gpu_core.decisions.attempts.settlement import Settlement
from gpu_core.decisions.attempts.startup_errors import is_load_error_logged
from gpu_core.decisions.model.attempt_exit import Exit
from gpu_core.decisions.model.attempts import Attempt, EndReason
from gpu_core.decisions.model.errors import sentences
from gpu_core.worker.attempts.closer import AttemptCloser
from gpu_core.worker.attempts.ending import (
    Ending,
    Published,
    allow_another_attempt,
    decide_ending,
    ends_run,
    excuse_of_end,
    has_begun,
    is_unexplained,
    publish,
    to_record,
)
from gpu_core.worker.attempts.final_states import final_name
from gpu_core.worker.attempts.last_ends import LastEnds
from gpu_core.worker.attempts.registry import AttemptRegistry, write_start
from gpu_core.worker.attempts.run_log import run_fields, run_log
from gpu_core.worker.attempts.run_reader import RunReader
from gpu_core.worker.attempts.settlement_retries import SettlementRetries
from gpu_core.worker.attempts.state import AttemptState, StartFailure
from gpu_core.worker.attempts.zombie_states import ZombieStateGuard
from gpu_core.worker.infrastructure import Infrastructure, NotStarted
from gpu_core.worker.operations.outage_errors import is_outage
from gpu_core.worker.operations.threads import in_thread
from gpu_core.worker.pending.publisher import Publisher
from gpu_core.worker.prefect.starts_first import StartsFirst
from gpu_core.worker.watch.outages import OutageWatch
from gpu_core.worker.watch.run_costs import RunCosts

_log = logging.getLogger("prefect.gpu.settler")

# Prefect's server answers one request after the other: where a hundred runs end together, those
# that start with the freed GPUs do not wait until it has heard of all of them.
_SETTLED_AT_ONCE = 4

# Two tracebacks: that of the cause, and that of what Prefect tried after it.
_PUBLISHED_LINES = 60


class Settler:
    """Settles attempts that ended, each in a task of its own.

    Args:
        tasks: Where settling runs, concurrently with cycles.
        wake: Called when GPUs became free or a run may compete again.
        costs: Logs what runs cost; None: nothing does.
        zombies: Guards runs whose last process may still live.
        outages: What the worker saw of the platform.
        last_ends: Why the last attempts of waiting runs ended.
        starts: Which starts are under way: ends are reported after them.
        hidden: A text without secrets: why an attempt ended is on the page of its run.
        bind: Writes down where an attempt was that is about to be settled; None: as planned.
        bind_finally: The same once nothing of it lives, where that was not all known before.
        note_end: Called with the reason of each end that was written down.
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
        costs: RunCosts | None,
        zombies: ZombieStateGuard,
        outages: OutageWatch,
        last_ends: LastEnds,
        starts: StartsFirst,
        hidden: Callable[[str], str] = str,
        bind: Callable[[AttemptState], Awaitable[None]] | None = None,
        bind_finally: Callable[[AttemptState], Awaitable[None]] | None = None,
        note_end: Callable[[EndReason], None] = lambda _reason: None,
    ) -> None:
        self._client = client
        self._ledger = ledger
        self._attempts = attempts
        self._infrastructure = infrastructure
        self._publisher = publisher
        self._tasks = tasks
        self._wake = wake
        self._costs = costs
        self._zombies = zombies
        self._outages = outages
        self._starts = starts
        self._runs = RunReader(client)
        self._last_ends = last_ends
        self._closer = AttemptCloser(client, ledger, infrastructure, logs_costs=costs is not None)
        self._hidden = hidden
        self._bind = bind
        self._bind_finally = bind_finally
        self._note_end = note_end
        self._lanes = anyio.Semaphore(_SETTLED_AT_ONCE)
        self._settling: set[str] = set()

    def find_ended(self, submitting: Collection[str], *, is_during_cycle: bool = False) -> None:
        """Settle, concurrently with cycles, every attempt whose main process is gone.

        Args:
            submitting: Runs that are being started at this moment.
            is_during_cycle: A cycle is under way: what it has just admitted is about to be started.
        """
        now = datetime.now(UTC)
        for running in self._attempts:
            with self._attempts.faults.of_run(running, "ended", now):
                if running.attempt.attempt_id in self._settling:
                    continue
                if running.phase is AttemptPhase.RELEASED:
                    self._begin(running)  # another worker saw that nothing of it lives
                if running.phase is AttemptPhase.RECOVERING or running.phase.has_ended:
                    continue
                if running.attempt.flow_run_id in submitting:
                    continue
                if is_during_cycle and running.attempt.started_at is None:
                    continue
                if not self._infrastructure.lives(running):
                    self._begin(running)

    def end_unstarted(self, running: AttemptState, failure: StartFailure) -> None:
        """Settle an attempt that could not be started, with what was made of it."""
        if not running.phase.has_ended:
            running.start_failure = failure
            self._begin(running)

    def _begin(self, running: AttemptState) -> None:
        if running.phase.holds_gpus:
            running.move_to(AttemptPhase.ENDING, datetime.now(UTC))
        self._settling.add(running.attempt.attempt_id)
        self._tasks.start_soon(self._settle_until_done, running)

    async def _settle_until_done(self, running: AttemptState) -> None:
        retries = SettlementRetries()
        final: str | None = None
        # One that another worker withdrew is settled elsewhere while this waits.
        while running.phase is not AttemptPhase.SETTLED:
            try:
                if retries.is_over and not running.phase.holds_gpus:
                    await self._close_unsettled(running, retries.fault or "")
                else:
                    final = await self._settle(running)
                break
            except Exception as error:
                pause_s = self._pause_s(running, retries, error)
                _log.debug("The error of the settlement", exc_info=True)
                with anyio.move_on_after(pause_s):
                    await self._outages.wait_for_return()
        self._settling.discard(running.attempt.attempt_id)
        await self._report(running, final)

    def _pause_s(
        self, running: AttemptState, retries: SettlementRetries, error: Exception
    ) -> float:
        """How long until the end of this attempt is settled again? Says an error of its own."""
        name, fields = running.record.name, run_fields(running)
        if isinstance(error, NotStarted):
            # The lease may be lost: the worker that acts settles it, and no run is at fault.
            _log.debug("Skipping finalization of flow run %r: %s", name, error, extra=fields)
            return retries.after_outage()
        if is_outage(error) or self._outages.is_api_away:
            pause_s = retries.after_outage()
            _log.warning(
                "Failed to finalize flow run %r: %s",
                name,
                sentences(str(error), f"retrying in {pause_s:.0f} seconds"),
                extra=fields,
            )
            return pause_s
        is_first = retries.fault is None
        text = self._hidden(f"{type(error).__name__}: {error}")
        pause_s = retries.after_fault(text)
        _log.error(
            "Failed to finalize flow run %r: %s",
            name,
            sentences(str(retries.fault), f"retrying in {pause_s:.0f} seconds"),
            extra=fields,
        )
        if is_first and is_flow_run_id(running.flow_run_id):
            what = (
                "the worker retries, and the GPUs remain allocated until then"
                if running.phase.holds_gpus
                else "the worker retries. The GPUs have been released"
            )
            report = "please report this error to the platform team"
            run_log(running).error(
                "Failed to finalize the run: %s", sentences(str(retries.fault), what, report)
            )
        return pause_s

    async def _close_unsettled(self, running: AttemptState, fault: str) -> None:
        """Close an attempt whose end could not be settled for a day; nothing of it lives.

        Otherwise it would count as running for ever, with its cost. The run is not tried again,
        because its next end could not be settled either; it is charged with no failure.
        """
        message = sentences(
            f"Failed to finalize the run for a day: {fault}", "the run is not retried"
        )
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
            await self._closer.close_unmeasured(running, ending)
        fields = run_fields(running, EndReason.CRASHED)
        _log.error("Closed attempt for flow run %r: %s", running.record.name, message, extra=fields)
        with suppress(Exception):  # where Prefect refuses it, its page has the line before
            run = await self._runs.of(running.flow_run_id)
            if run is not None and (run.state is None or not run.state.is_final()):
                await publish(self._client, running, run, settlement)
        self._forget(running)

    async def _settle(self, running: AttemptState) -> str | None:
        """Free its GPUs, then settle it. The name of the run's final state, where that is known."""
        if self._bind is not None and running.phase.holds_gpus:
            await self._bind(running)
        # Orphans too: no attempt may get these GPUs, nor the run another attempt, while one lives.
        if not await self._infrastructure.kill(running):
            raise RuntimeError("the processes of the attempt are still running")
        if running.phase.holds_gpus:
            await self._note_gone(running)
            running.move_to(AttemptPhase.RELEASED, running.gone_at or datetime.now(UTC))
            _log.debug("Released GPUs for flow run %r", running.record.name)
            self._wake()
        if not running.is_claimed:
            await in_thread(self._ledger.withdraw_attempt, running.attempt.attempt_id)
            self._forget(running)
            return None
        if self._bind_finally is not None:
            await self._bind_finally(running)
        # Its GPUs are free, so that nothing but its page waits for this.
        await self._starts.let_pass()
        while True:
            async with self._lanes:
                published = await self._judge(running)
            if published.stands:
                state = published.state
                return state.name if state is not None and state.is_final() else None

    async def _note_gone(self, running: AttemptState) -> None:
        """Write down how it ended before its GPUs are another's.

        Prefect hears of the end later. If this worker loses its lease or its life until then, the
        next one may find nothing else that saw the end: ended Jobs are deleted after a while.
        """
        if not running.is_claimed:
            return
        gone_at = datetime.now(UTC)
        try:
            exit_ = await self._exit_without_secrets(running)
            await in_thread(self._ledger.note_gone, running.attempt.attempt_id, gone_at, exit_)
        except Exception as error:
            if is_outage(error):
                raise  # nothing is admitted either
            # What concerns this run alone keeps no GPUs from others.
            name, fields = running.record.name, run_fields(running)
            _log.warning(
                "Failed to record the end of flow run %r: %s",
                name,
                sentences(str(error), "the worker retries when it finalizes the run"),
                extra=fields,
            )
            return
        # The exit is seen anew when it is judged: more of its output may be known by then.
        running.attempt = replace(running.attempt, gone_at=gone_at)

    async def _exit_without_secrets(self, running: AttemptState) -> Exit | None:
        """The end of the attempt, without secrets in its message."""
        found = await self._infrastructure.exit(running)
        if found is None or found.message is None:
            return found
        return replace(found, message=self._hidden(found.message))

    def _forget(self, running: AttemptState) -> None:
        """It is settled."""
        self._attempts.remove(running)
        self._infrastructure.settled(running)
        self._wake()

    async def _judge(self, running: AttemptState) -> Published:
        """Settle an attempt whose GPUs are free."""
        flow_run_id = running.attempt.flow_run_id
        await self._infrastructure.refresh([running])
        run = await self._run_as_it_ended(running)
        earlier = [a for a in await self._history(flow_run_id) if a.released_at is not None]
        await self._infrastructure.report_start(running)
        exit_ = running.attempt.exit or await self._infrastructure.exit(running)
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
        ending = decide_ending(
            *(running, run, exit_, earlier, running.gone_at or datetime.now(UTC), unbegun),
            has_begun=begun,
            held_gpus=begun or self._infrastructure.held_gpus(running),
            excuse=excuse,
        )
        message = self._hidden(ending.settlement.message)
        ending = replace(ending, settlement=replace(ending.settlement, message=message))
        await self._remember(running, ending)
        reason = ending.settlement.end_reason
        # A completion that Prefect has not heard of is a container's, which has no retries inside.
        may_start_again = (reason is not None and reason.has_run) and (
            ending.settlement.next_state not in (None, "Completed") or reason is EndReason.SUSPENDED
        )
        if run is not None and may_start_again:
            await allow_another_attempt(self._client, run, retries=ending.retries)
        published = await publish(self._client, running, run, ending.settlement)
        if not published.stands:
            return published
        if ending.settlement.next_state in ("AwaitingRetry", "Scheduled"):
            self._zombies.watch(running.flow_run_id, ending.settlement.message)
        await self._closer.close(running, ending, run)
        if reason is not None:
            self._note_end(reason)
            self._log_end(running, reason, ending.settlement.message)
        self._forget(running)
        return published

    async def _run_as_it_ended(self, running: AttemptState) -> FlowRun | None:
        """The flow run as Prefect has it, with the end that a SIGTERM came too late for."""
        run = await self._runs.of(running.flow_run_id)
        if run is not None and running.is_stop_requested:
            state = await restore_rescheduled(self._client, run, ends_run)
            if state is not None:
                return await self._runs.of(running.flow_run_id)
        return run

    def _log_end(self, running: AttemptState, reason: EndReason, message: str) -> None:
        if reason.has_run:  # otherwise the reason why it waits says it
            self._last_ends.note(running.attempt.flow_run_id, message)
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
        """Log the last lines of its output on the run's page, where nothing else explains the end.

        Lines with a traceback that its log has already are only returned.

        Returns:
            Them; empty: something else explains it, or there is no output.
        """
        if running.attempt.settlement is not None or not is_unexplained(running, run, exit_):
            return ()
        lines = await self._infrastructure.last_lines(running)
        if lines and not is_load_error_logged(lines):
            text = "\n".join(lines[-_PUBLISHED_LINES:])
            run_log(running).error("Last lines of the output:\n%s", text)
        return lines

    async def _remember(self, running: AttemptState, ending: Ending) -> None:
        """Write the decision down before anything follows from it."""
        record = to_record(ending, datetime.now(UTC))
        record["asked_for_micro_batch"] = running.asks_for_micro_batch
        if ending.settlement.end_reason is EndReason.HUNG:
            record["faulty_nodes"] = sorted(running.faulty_nodes)
        await in_thread(self._ledger.note_settlement, running.attempt.attempt_id, record)
        running.attempt = replace(running.attempt, settlement=record)

    async def _report(self, running: AttemptState, final: str | None) -> None:
        """Publish an end to people. Nothing depends on it: a failure is only logged.

        Args:
            final: The name of the run's final state; None: it has to be read.
        """
        flow_run_id = running.attempt.flow_run_id
        try:
            attempts = await self._history(flow_run_id)
            if final is None:
                final = final_name(await self._runs.of(running.flow_run_id))
            if final is not None:
                await self.finish(flow_run_id, final)
            if attempts:
                async with self._lanes:
                    await self._publisher.attempts(flow_run_id, attempts)
        except Exception:
            _log.warning(
                "Failed to report all details of the end of flow run %r",
                running.record.name,
                exc_info=True,
                extra=run_fields(running),
            )
        finally:
            if self._costs is not None:
                self._costs.wake()

    async def finish(self, flow_run_id: str, final: str) -> None:
        """Write the final state of a run down, whose cost is final with it."""
        self._last_ends.forget(flow_run_id)
        await self._closer.finish_run(flow_run_id, final)
        if self._costs is not None:
            self._costs.wake()

    async def _history(self, flow_run_id: str) -> tuple[Attempt, ...]:
        found = await in_thread(self._ledger.attempts_of, [flow_run_id])
        return found.get(flow_run_id, ())
