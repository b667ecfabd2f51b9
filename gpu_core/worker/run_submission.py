"""How the worker starts an admitted run, in place of Prefect's own submission."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import anyio
import anyio.abc
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.exceptions import PrefectSignal
from prefect.flows import Flow
from prefect.futures import PrefectFlowRunFuture
from prefect.states import Pending
from prefect.utilities.engine import propose_state
from prefect.workers.base import BaseJobConfiguration, BaseWorker, BaseWorkerResult

from gpu_core.adapters.prefect.flow_runs import read_flow_runs_by_id
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.worker.attempts.job_configuration import configured
from gpu_core.worker.attempts.run_log import describe_placement
from gpu_core.worker.attempts.state import StartFailure, StartFailureKind
from gpu_core.worker.infrastructure import NotStarted, Postponed, Refused
from gpu_core.worker.operations.outage_errors import platform_failure
from gpu_core.worker.prefect.batch_loader import BatchLoader
from gpu_core.worker.prefect.bound_flows import enqueue, enqueue_again
from gpu_core.worker.prefect.starts_first import StartsFirst
from gpu_core.worker.scheduler import GpuScheduler
from gpu_core.worker.startup.secrecy import Secrets

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


class RunSubmission(_Mixin):
    """Hands runs that the scheduler has admitted to the infrastructure, and queues bound flows.

    Prefect calls it for each run that a cycle returns. A run that cannot start goes back to the
    scheduler, which decides what becomes of it.
    """

    starts_at_once = 1
    """How many runs are handed to the infrastructure at a time."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._scheduler: GpuScheduler | None = None
        self._secrets = Secrets()
        self._is_stopping = False
        self._writers = anyio.Semaphore(self.starts_at_once)
        self._starts = StartsFirst()
        self._waiting = BatchLoader(
            lambda ids: read_flow_runs_by_id(self.client, ids, in_states=[StateType.SCHEDULED])
        )

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
