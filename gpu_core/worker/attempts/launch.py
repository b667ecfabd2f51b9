"""Starting an admitted run where its infrastructure runs it."""

import logging
from collections.abc import Mapping

import anyio
from prefect.client.orchestration import PrefectClient
from prefect.workers.base import BaseJobConfiguration

from gpu_core.adapters.ledger import Ledger, is_ledger_outage
from gpu_core.decisions.model.errors import sentences
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.requests.runs.run_context import RunContext
from gpu_core.worker.attempts.registry import with_start, write_start
from gpu_core.worker.attempts.run_log import (
    describe_placement,
    reasons_of_choice,
    run_fields,
    run_log,
    start_note,
)
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.infrastructure import Infrastructure
from gpu_core.worker.operations.outage_errors import RETRIED_IN_CYCLE
from gpu_core.worker.operations.threads import in_thread
from gpu_core.worker.operations.throttle import Throttle
from gpu_core.worker.pending.history import History
from gpu_core.worker.startup.connections import Connections, read_checkpoint_uri
from gpu_core.worker.startup.settings import GpuWorkerSettings

_log = logging.getLogger("prefect.gpu.launching")

# A change of the block in the UI reaches the runs that start so much later.
_STORE_AGE_S = 5.0


class Launching:
    """Starts runs; the scheduler has decided before that they may start."""

    def __init__(
        self,
        client: PrefectClient,
        pool: str,
        settings: GpuWorkerSettings,
        connections: Connections,
        ledger: Ledger,
        infrastructure: Infrastructure,
        history: History,
    ) -> None:
        self._client = client
        self._pool = pool
        self._settings = settings
        self._connections = connections
        self._ledger = ledger
        self._infrastructure = infrastructure
        self._history = history
        self._store_uri: str | None = None
        self._store_reads = Throttle(_STORE_AGE_S)

    async def launch(
        self, running: AttemptState, configuration: BaseJobConfiguration, policy: Policy
    ) -> str:
        """Start an admitted attempt. Returns what Prefect keeps as its infrastructure.

        Raises:
            Exception: What runs it could not be created.
        """
        # Before it costs anything: what was chosen may cost more than what was asked for.
        for what, why in reasons_of_choice(running).items():
            run_log(running).info("%s: %s", what, why)
        context = await self._infrastructure.context(running, await self._context(running, policy))
        started = await self._infrastructure.start(
            running, configuration, context, self._environment(running), policy
        )
        running.start(with_start(running.attempt, started), started.started_at)
        try:
            await in_thread(write_start, self._ledger, running.attempt)
        except BaseException as error:
            if not is_ledger_outage(error):
                # Prefect will mark the run as crashed: then nothing of it may live.
                await self._infrastructure.kill(running)
                raise
            # What was started continues; the next cycle that reaches the ledger writes it down.
            running.has_unwritten_start = True
            _log.warning(
                "Failed to record the start of flow run %r in the ledger: %s",
                running.record.name,
                sentences(str(error), RETRIED_IN_CYCLE),
                extra=run_fields(running),
            )
        run_log(running, Reason.STARTING).info(
            "Attempt %d %s", running.attempt.number, describe_placement(running, "started")
        )
        self._infrastructure.record_event(running, Reason.STARTING, start_note(running))
        self._infrastructure.watch(running)
        return started.identity

    async def _context(self, running: AttemptState, policy: Policy) -> RunContext:
        attempt, record, request = running.attempt, running.record, running.request
        checkpoint_uri = request.checkpoint_uri or await self._checkpoint_uri()
        return RunContext(
            flow_run_id=attempt.flow_run_id,
            attempt=attempt.number,
            attempt_id=attempt.attempt_id,
            name=record.name,
            gpu_type=attempt.gpu_type,
            checkpoint_uri=checkpoint_uri,
            checkpoint_interval_s=request.checkpoint_interval_s or policy.checkpoints.interval_s,
            checkpoint_interval_adapts=request.checkpoint_interval_s is None,
            checkpoints_kept=policy.checkpoints.keep,
            refuses_pickles=policy.checkpoints.refuse_pickles,
            requires_signatures=policy.checkpoints.require_signatures,
            capacity_life=self._history.capacity_life(attempt.gpu_type, attempt.capacity_type),
            micro_batch_divisor=running.workload.micro_batch_divisor,
            team=record.team,
            project=record.project,
            deployment=record.deployment,
        )

    async def _checkpoint_uri(self) -> str:
        """The store of runs that name none; read once for the many that start together."""
        now_s = anyio.current_time()
        if self._store_uri is None or self._store_reads.is_due(now_s):
            self._store_uri = await read_checkpoint_uri(
                self._client, self._settings, self._settings.resolved_state_dir(), self._pool
            )
            self._store_reads.start(now_s)
        return self._store_uri

    def _environment(self, running: AttemptState) -> Mapping[str, str]:
        known = {
            # A run that is asked to stop is requeued instead of being marked as crashed.
            "PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR": "reschedule",
            # What the runtime says about damaged checkpoints belongs on the run's page.
            "PREFECT_LOGGING_EXTRA_LOGGERS": "gpu_core",
            **self._mlflow_environment(),
            "MLFLOW_EXPERIMENT_NAME": running.record.experiment,
        }
        return {name: value for name, value in known.items() if value is not None}

    def _mlflow_environment(self) -> Mapping[str, str]:
        mlflow = self._connections.mlflow
        if mlflow is None:
            return {}
        if self._infrastructure.is_environment_private:
            return mlflow.environment()
        return mlflow.public_environment()
