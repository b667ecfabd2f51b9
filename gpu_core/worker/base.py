"""Common code of the worker types: leader election, and the loop around the cycle."""

import logging
import os
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack, ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import anyio
import anyio.abc
import httpx
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.responses import WorkerFlowRunResponse
from prefect.exceptions import PrefectSignal
from prefect.flows import Flow
from prefect.futures import PrefectFlowRunFuture
from prefect.settings import get_current_settings
from prefect.states import Pending
from prefect.utilities.engine import propose_state
from prefect.workers.base import BaseJobConfiguration, BaseWorker, BaseWorkerResult

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.prefect.flow_runs import read_flow_runs_by_id
from gpu_core.adapters.prefect.request_errors import why_failed
from gpu_core.decisions.checks.prefect.api_address import check_api_address
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.requests.variables.compact_schema import compact_form
from gpu_core.worker.attempts.job_configuration import configured
from gpu_core.worker.attempts.run_log import describe_placement
from gpu_core.worker.attempts.state import StartFailure, StartFailureKind
from gpu_core.worker.infrastructure import Infrastructure, NotStarted, Postponed, Refused
from gpu_core.worker.operations.cycle_failures import CycleFailures
from gpu_core.worker.operations.cycle_loop import CycleLoop
from gpu_core.worker.operations.garbage import RareGarbageCollection
from gpu_core.worker.operations.health import HealthMonitor, WorkerState
from gpu_core.worker.operations.health_routes import serve_health, serve_metrics
from gpu_core.worker.operations.json_lines import log_json_lines
from gpu_core.worker.operations.metrics import WorkerMetrics
from gpu_core.worker.operations.outage_errors import is_outage, is_unanswered, platform_failure
from gpu_core.worker.operations.throttle import LastSaid
from gpu_core.worker.prefect.batch_loader import BatchLoader
from gpu_core.worker.prefect.bound_flows import enqueue, enqueue_again
from gpu_core.worker.prefect.run_events import listen_to_run_events
from gpu_core.worker.prefect.starts_first import StartsFirst
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
from gpu_core.worker.startup.secrecy import Secrets, hidden_in_logs, prefect_keys, secrets_of
from gpu_core.worker.startup.stopping import stop_on_sigterm
from gpu_core.worker.startup.stores import WorkerStores
from gpu_core.worker.watch.policy import PolicySource

# How long it may take to close what the worker holds: less than `LONGEST_STOP_S`.
_RELEASE_RESOURCES_S = 5.0

# How often the event loop shows that it runs: often against the shortest time after which a worker
# counts as stuck.
_HEARTBEAT_S = 1.0

# What Prefect gets as the infrastructure of a run that has none.
_NOTHING = "none"

# Prefect registers every subclass of its worker as a type that people may choose: what the types
# share is mixed in before it.
if TYPE_CHECKING:
    _Mixin = BaseWorker[Any, Any, Any]
else:
    _Mixin = object


class Submitted(BaseWorkerResult):
    """That the run was started; how it ends is settled by the scheduler."""


class GpuWorker(_Mixin):
    """The scheduler of a work pool in a Prefect worker.

    One worker acts; a second one is on standby. Runs outlive the worker; the next one takes over.
    """

    _documentation_url = "https://docs.prefect.io/v3/concepts/workers"

    needs_state_folder = False
    """Do runs need the folder that this machine keeps for the worker?"""

    starts_at_once = 1
    """How many runs are handed to the infrastructure at a time."""

    @classmethod
    def get_default_base_job_template(cls) -> dict[str, Any]:
        """The template of a new pool, whose form costs Prefect's server less for each run."""
        template = super().get_default_base_job_template()
        return {**template, "variables": compact_form(template["variables"])}

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # A worker that is only asked to submit a flow must not end the process that asked.
        self._gpu_settings, self._mistakes = read_settings(os.environ)
        # Pools are made by `prefect-gpu setup`: one of a misspelt name would be served in silence.
        self._create_pool_if_not_found = False
        self._policies: PolicySource | None = None
        self._is_pool_checked = False
        self._leadership = self._new_leadership()
        self._scheduler: GpuScheduler | None = None
        self._scheduling: anyio.abc.TaskGroup | None = None
        self._secrets = Secrets()
        self._stores = WorkerStores(self._gpu_settings, self._work_pool_name, self._secrets)
        self._tasks: anyio.abc.TaskGroup | None = None
        self._gpu_stack = AsyncExitStack()
        self._log_stack = ExitStack()
        self._pass = anyio.Lock()
        self._writers = anyio.Semaphore(self.starts_at_once)
        self._starts = StartsFirst()
        self._is_publishing = False
        self._waiting = BatchLoader(
            lambda ids: read_flow_runs_by_id(self.client, ids, in_states=[StateType.SCHEDULED])
        )
        self._garbage = RareGarbageCollection()
        self._loop = CycleLoop(
            lambda: self.get_and_submit_flow_runs(),
            self._sleep_s,
            lambda: self._logger,
            between=self._garbage.look,
        )
        self._why_standby = LastSaid()
        self._failures = CycleFailures(self._work_pool_name, self.type, self._secrets.hidden)
        self._is_stopping = False
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

    async def _submit_run(self, flow_run: FlowRun) -> None:
        """Start an admitted run, with less than half of the requests of Prefect's own method.

        Deployment and flow were read when the run was planned; a second state and the labels of
        the worker would say nothing that the run's page has not.
        """
        # Few at a time: Prefect's SQLite answers writers that meet with an error, after which its
        # client waits two seconds. One after the other, eight starts take less than that.
        with self._starts.start():
            await self._start_in_turn(flow_run)

    async def _start_in_turn(self, flow_run: FlowRun) -> None:
        async with self._writers:
            try:
                if not self._is_stopping and await self._propose_pending_state(flow_run):
                    await self._start(flow_run)
            except Exception:
                # What Prefect's API answers here would end the worker.
                self._logger.exception(
                    "Skipping flow run %s in this scheduling cycle",
                    flow_run.id,
                    extra={"flow_run_id": str(flow_run.id)},
                )
            finally:
                self._release_limit_slot(flow_run.id)
                self._submitting_flow_run_ids.discard(flow_run.id)
                if self._cancelling_observer is not None:
                    self._cancelling_observer.remove_in_flight_flow_run_id(flow_run.id)

    async def _propose_pending_state(self, flow_run: FlowRun) -> bool:
        scheduler = self._scheduler
        if scheduler is None:
            return False  # another worker acts by now
        flow_run_id = str(flow_run.id)
        # Published while it starts, why it waits would make it Scheduled again, and run twice.
        await scheduler.wait_until_published()
        # Prefect would start a run again that another machine's worker has completed.
        if await self._waiting.of(flow_run_id) is None:
            return False
        running = scheduler.admitted(flow_run_id)
        # What waits for a node may be pending for minutes: its page says what for.
        where = f"Attempt {running.attempt.number} {describe_placement(running, 'starts')}."
        try:
            state = await propose_state(self.client, Pending(message=where), flow_run.id)
        except PrefectSignal as refusal:
            self.get_flow_run_logger(flow_run).info(
                "Aborted submission of this flow run. Server sent an abort signal: %s", refusal
            )
            return False
        except Exception:
            # The server may have accepted it. Then only this worker can put the run back.
            running.claim(datetime.now(UTC))
            raise
        if not state.is_pending():
            self.get_flow_run_logger(flow_run).info(
                "Aborted submission of this flow run: Server returned state %s", state.name
            )
            return False
        scheduler.claim(flow_run_id)
        return True

    async def _start(self, flow_run: FlowRun) -> None:
        scheduler = self._scheduler
        if scheduler is None:
            return  # the acting worker finds that nothing runs it
        try:
            configuration = await configured(
                self.job_configuration,
                flow_run,
                scheduler.admitted(str(flow_run.id)),
                client=self.client,
                work_pool=self.work_pool,
                worker={"worker_name": self.name, "worker_id": self.backend_id},
            )
            self._emit_flow_run_submitted_event(configuration)
            submitted = await self.run(flow_run, configuration)
        except Refused as refusal:
            self._end_unstarted(scheduler, flow_run, StartFailureKind.REFUSED, str(refusal))
            return
        except Exception as error:
            why = platform_failure(error)
            if why is not None:
                self.get_flow_run_logger(flow_run).warning(
                    "Skipping this flow run in this scheduling cycle: %s", why
                )
                self._end_unstarted(scheduler, flow_run, StartFailureKind.EXCUSED, why)
                return
            message = self._secrets.hidden(
                f"Failed to submit flow run to infrastructure: {type(error).__name__}: {error}"
            )
            self.get_flow_run_logger(flow_run).exception(message)
            await self._propose_crashed_state(flow_run, message)
            return
        if self._runs_task_group is not None and submitted.identifier != _NOTHING:
            self._runs_task_group.start_soon(self._note, str(flow_run.id), submitted.identifier)

    async def _note(self, flow_run_id: str, identifier: str) -> None:
        """Let Prefect know what runs it, after those that start."""
        await self._starts.let_pass()
        async with self._writers:
            if self._scheduler is None or not self._scheduler.begin_note(flow_run_id):
                return
            try:
                await self.client.update_flow_run(UUID(flow_run_id), infrastructure_pid=identifier)
            except Exception:
                self._logger.exception(
                    "Failed to set `infrastructure_pid` on flow run %s",
                    flow_run_id,
                    extra={"flow_run_id": flow_run_id},
                )

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
                "Failed to read the work pool; will retry on the next poll: %s",
                error,
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
                        "Failed to publish pending reasons; will retry on the next cycle"
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

    async def run(
        self,
        flow_run: FlowRun,
        configuration: BaseJobConfiguration,
        task_status: anyio.abc.TaskStatus[Any] | None = None,
    ) -> Submitted:
        """Start an admitted run; the scheduler follows it from there."""
        identity = await self._launched(flow_run, configuration)
        if task_status is not None:
            task_status.started(identity)
        return Submitted(identifier=identity, status_code=0)

    async def _launched(self, flow_run: FlowRun, configuration: BaseJobConfiguration) -> str:
        # An error here would mark the run as crashed. What was admitted and has nothing that runs
        # it is found by the acting worker, this one or another, which requeues the run.
        scheduler = self._scheduler
        if scheduler is None:
            return _NOTHING
        try:
            return await scheduler.launch(flow_run, configuration)
        except NotStarted as error:
            self.get_flow_run_logger(flow_run).warning(
                "Skipping this flow run in this scheduling cycle: %s", error
            )
        except Postponed as error:
            self._end_unstarted(scheduler, flow_run, StartFailureKind.POSTPONED, str(error))
        except (Refused, InvalidInput) as error:
            self._end_unstarted(scheduler, flow_run, StartFailureKind.REFUSED, str(error))
        return _NOTHING

    def _end_unstarted(
        self, scheduler: GpuScheduler, flow_run: FlowRun, kind: StartFailureKind, why: str
    ) -> None:
        if scheduler is self._scheduler:  # otherwise another worker acts by now
            failure = StartFailure(kind, self._secrets.hidden(why))
            scheduler.end_unstarted(str(flow_run.id), failure)

    # -- flows that are bound to the pool --------------------------------------------------------

    async def submit(
        self,
        flow: Flow[..., Any],
        parameters: dict[str, Any] | None = None,
        job_variables: dict[str, Any] | None = None,
        flow_run: FlowRun | None = None,
    ) -> PrefectFlowRunFuture[Any]:
        """Queue a run of the flow in this pool; a worker that was started admits it.

        Args:
            flow: What to run.
            parameters: Of the flow.
            job_variables: Of the run.
            flow_run: A run to queue again instead of a new one, with the flow as it is now.
        """
        if flow_run is None:
            return await super().submit(flow, parameters, job_variables)
        await enqueue_again(self.client, self.work_pool, flow, flow_run)
        return PrefectFlowRunFuture(flow_run_id=flow_run.id)

    async def _initiate_run(self, flow_run: FlowRun, _configuration: BaseJobConfiguration) -> None:
        # Prefect's own workers start here what is submitted with them, past every queue.
        await enqueue(self.client, flow_run)

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
