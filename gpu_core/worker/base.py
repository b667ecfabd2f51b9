"""Common code of the worker types: leader election, and the loop around the cycle."""

import logging
import os
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack, ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import httpx
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import WorkerFlowRunResponse
from prefect.settings import get_current_settings

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.prefect.request_errors import why_failed
from gpu_core.decisions.checks.prefect.api_address import check_api_address
from gpu_core.decisions.model.errors import sentences
from gpu_core.decisions.requests.variables.compact_schema import compact_form
from gpu_core.worker.infrastructure import Infrastructure
from gpu_core.worker.operations.cycle_failures import CycleFailures
from gpu_core.worker.operations.cycle_loop import CycleLoop
from gpu_core.worker.operations.garbage import RareGarbageCollection
from gpu_core.worker.operations.health import HealthMonitor, WorkerState
from gpu_core.worker.operations.health_routes import serve_health, serve_metrics
from gpu_core.worker.operations.json_lines import log_json_lines
from gpu_core.worker.operations.metrics import WorkerMetrics
from gpu_core.worker.operations.outage_errors import is_outage, is_unanswered
from gpu_core.worker.operations.throttle import LastSaid
from gpu_core.worker.prefect.run_events import listen_to_run_events
from gpu_core.worker.run_submission import RunSubmission
from gpu_core.worker.scheduler import GpuScheduler
from gpu_core.worker.startup.checks import (
    EXIT_CODE,
    CannotStart,
    check_machine,
    check_pool,
    check_prefect,
    no_contact,
    read_settings,
    refusal_in,
)
from gpu_core.worker.startup.leadership import Leadership
from gpu_core.worker.startup.secrecy import hidden_in_logs, prefect_keys, secrets_of
from gpu_core.worker.startup.stopping import stop_on_sigterm
from gpu_core.worker.startup.stores import WorkerStores
from gpu_core.worker.watch.policy import PolicySource

# How long it may take to close what the worker holds: less than `LONGEST_STOP_S`.
_RELEASE_RESOURCES_S = 5.0

# How often the event loop shows that it runs: often against the shortest time after which a worker
# counts as stuck.
_HEARTBEAT_S = 1.0


class GpuWorker(RunSubmission):
    """The scheduler of a work pool in a Prefect worker.

    One worker acts; a second one is on standby. Runs outlive the worker; the next one takes over.
    """

    _documentation_url = "https://docs.prefect.io/v3/concepts/workers"

    needs_state_folder = False
    """Do runs need the folder that this machine keeps for the worker?"""

    @classmethod
    def get_default_base_job_template(cls) -> dict[str, Any]:
        """The template of a new pool, whose form costs Prefect's server less for each run."""
        template = super().get_default_base_job_template()
        return {**template, "variables": compact_form(template["variables"])}

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # A worker that is only asked to submit a flow must not end the process that asked.
        self._gpu_settings, self._mistakes = read_settings(os.environ)
        # `prefect-gpu setup` makes pools: one of a misspelled name would be served in silence.
        self._create_pool_if_not_found = False
        self._policies: PolicySource | None = None
        self._is_pool_checked = False
        self._leadership = self._new_leadership()
        self._scheduling: anyio.abc.TaskGroup | None = None
        self._stores = WorkerStores(self._gpu_settings, self._work_pool_name, self._secrets)
        self._tasks: anyio.abc.TaskGroup | None = None
        self._gpu_stack = AsyncExitStack()
        self._log_stack = ExitStack()
        self._pass = anyio.Lock()
        self._is_publishing = False
        self._garbage = RareGarbageCollection()
        self._loop = CycleLoop(
            lambda: self.get_and_submit_flow_runs(),
            self._sleep_s,
            lambda: self._logger,
            between=self._garbage.look,
        )
        self._why_standby = LastSaid()
        self._failures = CycleFailures(self._work_pool_name, self.type, self._secrets.hidden)
        # A flow that is bound to the pool makes a worker too, to submit with: it schedules nothing.
        self._is_started = False
        self._metrics = WorkerMetrics(self._work_pool_name)
        self._health = HealthMonitor(get_current_settings().worker.query_seconds)

    # -- what a worker type brings ---------------------------------------------------------------

    def _new_leadership(self) -> Leadership:
        raise NotImplementedError

    async def _new_infrastructure(
        self, policies: PolicySource, tasks: anyio.abc.TaskGroup
    ) -> Infrastructure:
        raise NotImplementedError

    # -- Prefect's life cycle ------------------------------------------------------------------

    async def start(self, *arguments: Any, **options: Any) -> None:
        """Schedule until SIGTERM or SIGINT.

        Raises:
            SystemExit: A person has to change something first, as is said on stderr; code 2.
        """
        self._is_started = True
        is_json = self._gpu_settings.log_format == "json"
        if is_json:
            log_json_lines(self._work_pool_name, self.name)
            options["printer"] = self._logger.info
        try:
            self._check_machine()
            with stop_on_sigterm(self._stop, self._cancel_scheduling):
                await super().start(*arguments, **options)
        except BaseException as error:
            refusal = refusal_in(error)
            if refusal is None:
                raise
            text = self._secrets.hidden(f"prefect worker start: {refusal}")
            if is_json:
                self._logger.critical("%s", text)
            else:
                print(text, file=sys.stderr, flush=True)
            raise SystemExit(EXIT_CODE) from None

    def _check_machine(self) -> None:
        check_prefect()
        check_api_address(get_current_settings().api.url)
        self._policies = check_machine(
            self._gpu_settings, self._mistakes, needs_folder=self.needs_state_folder
        )
        if self._policies.notice is not None:
            self._logger.warning(self._policies.notice)

    async def sync_with_backend(self) -> None:
        """Look at the pool before the first contact, which would begin to serve it."""
        if self._is_started and not self._is_pool_checked:
            try:
                await check_pool(self.client, self._work_pool_name, self.type, self._work_queues)
            except httpx.TransportError as error:
                self._logger.warning("%s", no_contact(str(self.client.api_url), error))
                raise
            self._is_pool_checked = True
        try:
            await super().sync_with_backend()
        except (httpx.TransportError, httpx.HTTPStatusError) as error:
            # Prefect's loop ends the worker after twelve failures: in an outage of half an hour.
            if not self._has_successfully_synced or not is_unanswered(error):
                raise
            self._logger.warning("Failed to send worker heartbeat: %s", why_failed(error))

    def _stop(self) -> None:
        """Start no run from now on."""
        self._is_stopping = True
        self._health.note_stop()

    def _cancel_scheduling(self) -> None:
        """Cancel what decides and carries out, without waiting for anything."""
        for group in (self._tasks, self._scheduling):
            if group is not None:
                group.cancel_scope.cancel()

    async def setup(self) -> None:
        """Connect; a worker that was started also listens for what should start a cycle at once."""
        known = (*prefect_keys(), *self._gpu_settings.secrets(), *secrets_of(os.environ))
        self._secrets.add(known)
        self._log_stack.enter_context(hidden_in_logs(self._secrets))
        await super().setup()
        if not self._is_started:
            return
        self._log_stack.enter_context(self._garbage)
        self._tasks = await self._gpu_stack.enter_async_context(anyio.create_task_group())
        serve_health(self._health)
        serve_metrics(self._metrics.facts)
        self._tasks.start_soon(self._show_that_loop_runs)
        self._tasks.start_soon(
            listen_to_run_events, lambda: self.work_pool.id, self._note_run_event, self._logger
        )
        self._tasks.start_soon(self._loop.run)
        self._tasks.start_soon(self._release_while_cycle_waits)

    async def _setup_cancellation_observer(self) -> None:
        if self._is_started:
            await super()._setup_cancellation_observer()

    async def teardown(self, *exc_info: Any) -> None:
        """Stop scheduling. Runs continue."""
        try:
            if self._tasks is not None:
                self._tasks.cancel_scope.cancel()
                await self._gpu_stack.aclose()
                self._tasks = None
            # Prefect waits here for what is being submitted, which still needs the scheduler.
            await super().teardown(*exc_info)
        finally:
            # A worker that is asked to stop is cancelled: what others wait for is released anyway.
            with anyio.move_on_after(_RELEASE_RESOURCES_S, shield=True):
                await self._release_resources()
            self._log_stack.close()

    async def _release_resources(self) -> None:
        await self._stop_scheduling()
        self._stores.close()
        await self._leadership.release()

    def is_worker_still_polling(self, query_interval_seconds: float) -> bool:  # noqa: ARG002
        """Would a restart not help? Prefect's health server asks; the interval is known."""
        return self._health.health().is_live

    async def get_and_submit_flow_runs(self) -> list[FlowRun]:
        """One cycle: start what the plan admits, then publish why the others wait."""
        async with self._pass:
            if not self._has_successfully_synced:
                self._health.note_cycle(WorkerState.WAITING, "Waiting for the Prefect API.")
            submitted = await super().get_and_submit_flow_runs()
        if self._scheduler is not None and self._scheduling is not None:
            self._scheduling.start_soon(self._publish, self._scheduler)
        return submitted

    async def _publish(self, scheduler: GpuScheduler) -> None:
        # One at a time: with a slow server those of all cycles would take every lane of starts.
        if not self._is_publishing:
            self._is_publishing = True
            try:
                await self._publish_news(scheduler)
            finally:
                self._is_publishing = False
        # Starts need not wait for this.
        try:
            await scheduler.refresh_pool()
        except Exception as error:
            self._logger.debug(
                "Failed to read the work pool: %s",
                sentences(str(error), "the worker retries with the next poll"),
                exc_info=True,
            )

    async def _publish_news(self, scheduler: GpuScheduler) -> None:
        """Publish the newest plan, and then that of the cycles which have ended meanwhile."""
        while scheduler.has_news:
            await self._starts.let_pass()
            async with self._writers:
                try:
                    await scheduler.publish()
                except Exception:
                    self._logger.exception(
                        "Failed to publish pending reasons. The worker retries in the next cycle."
                    )

    async def _get_scheduled_flow_runs(self) -> list[WorkerFlowRunResponse]:
        if self._is_stopping:
            return []
        # Any exception that is not an HTTP error would end the worker process.
        try:
            scheduler = await self._acting_scheduler()
            if scheduler is None:
                self._note_standby()
                return []
            found = await scheduler.cycle(self._template, self._submitting)
            self._failures.note_success()
            self._health.note_cycle(WorkerState.ACTING)
            return found
        except CannotStart:
            raise
        except Exception as error:
            state = WorkerState.WAITING if is_outage(error) else WorkerState.FAILING
            self._health.note_cycle(state, self._secrets.hidden(f"{type(error).__name__}: {error}"))
            is_scheduling = self._scheduler is not None
            self._failures.note(error, self._logger, is_scheduling=is_scheduling)
            return []

    def _note_standby(self) -> None:
        state = WorkerState.STANDBY if self._leadership.is_standby else WorkerState.WAITING
        self._health.note_cycle(state, self._secrets.hidden(self._leadership.why_not))

    # -- becoming the acting worker --------------------------------------------------------------

    async def _acting_scheduler(self) -> GpuScheduler | None:
        """The scheduler, if this worker is the acting one for its pool."""
        if self._tasks is None:
            return self._scheduler
        if not await self._leadership.acquire():
            await self._stop_scheduling()
            why_not = self._leadership.why_not
            if self._why_standby.is_news(why_not):
                self._logger.warning("Worker is on standby: %s", why_not)
            return None
        self._why_standby.forget()
        if self._scheduler is None:
            await self._start_scheduling(self._tasks)
        return self._scheduler

    async def _start_scheduling(self, tasks: anyio.abc.TaskGroup) -> None:
        connections = await self._stores.connect(self.client)
        ledger = await self._opened_ledger()
        policies = self._policies or PolicySource(self._gpu_settings.policy_path)
        scheduling: anyio.abc.TaskGroup = await tasks.start(_hold_tasks)
        try:
            scheduler = GpuScheduler(
                client=self.client,
                pool=self._work_pool_name,
                queues=self._work_queues,
                settings=self._gpu_settings,
                connections=connections,
                ledger=ledger,
                policies=policies,
                infrastructure=await self._new_infrastructure(policies, scheduling),
                tasks=scheduling,
                wake=self._wake,
                starts=self._starts,
                hidden=self._secrets.hidden,
                metrics=self._metrics,
            )
            await scheduler.recover(self._template)
        except BaseException:
            scheduling.cancel_scope.cancel()
            raise
        self._scheduler, self._scheduling = scheduler, scheduling
        self._failures.note_scheduling()
        self._logger.info("Scheduling %s", scheduler.describe())

    async def _opened_ledger(self) -> Ledger:
        """The pool's ledger, opened when it is asked for first."""
        return await self._stores.ledger(self.client)

    async def _stop_scheduling(self) -> None:
        """Stop deciding and carrying out; runs continue, for the next acting worker."""
        scheduler, scheduling = self._scheduler, self._scheduling
        self._scheduler = self._scheduling = None
        self._metrics.forget()
        if scheduling is not None:
            scheduling.cancel_scope.cancel()
        names = await scheduler.close() if scheduler is not None else []
        if names:
            self._logger.info(
                "%d flow runs are still running and will be recovered by the next worker: %s",
                len(names),
                ", ".join(names),
            )

    @property
    def _submitting(self) -> frozenset[str]:
        """The flow runs that Prefect's worker is handing to `run` at this moment."""
        return frozenset(map(str, self._submitting_flow_run_ids))

    @property
    def _state_dir(self) -> Path:
        return self._gpu_settings.resolved_state_dir()

    @property
    def _template(self) -> Mapping[str, Any]:
        return self.work_pool.base_job_template

    # -- waking up -------------------------------------------------------------------------------

    def _wake(self) -> None:
        self._loop.wake()

    async def _release_while_cycle_waits(self) -> None:
        """Notice ends also while a cycle waits for an answer."""
        await self._loop.release_while_cycle_waits(self._pass.locked, self._release_ended)

    def _release_ended(self) -> None:
        if self._scheduler is not None:
            self._scheduler.release_ended(self._submitting)

    def _sleep_s(self) -> float:
        """Until the next run that is known becomes due; Prefect's own polling is the safety net."""
        due_at = self._scheduler.next_due_at if self._scheduler is not None else None
        if due_at is None:
            return 60.0
        return max(0.05, (due_at - datetime.now(UTC)).total_seconds())

    async def _show_that_loop_runs(self) -> None:
        while True:
            scheduler = self._scheduler
            self._health.note_loop(is_api_away=scheduler is not None and scheduler.is_api_away)
            await anyio.sleep(_HEARTBEAT_S)

    def _note_run_event(self, state: str) -> None:
        if state == "Cancelling" and self._scheduler is not None:
            self._scheduler.terminator.poll_cancellations_soon()
        self._wake()


async def _hold_tasks(
    *, task_status: anyio.abc.TaskStatus[anyio.abc.TaskGroup] = anyio.TASK_STATUS_IGNORED
) -> None:
    """A group of tasks that ends as one: what one stay as the acting worker has started."""
    async with anyio.create_task_group() as group:
        task_status.started(group)
        await anyio.sleep_forever()


logging.getLogger("prefect.gpu").addHandler(logging.NullHandler())
