"""Starting the process of an admitted run on its GPUs."""

import os
import shlex
import socket
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.accounting import Attempt
from gpu_core.decisions.policy import Policy
from gpu_core.decisions.run_context import RunContext
from gpu_core.worker.attempts import OpenAttempts
from gpu_core.worker.connections import Connections, read_checkpoint_uri
from gpu_core.worker.devices import visible_devices
from gpu_core.worker.processes import LocalProcesses
from gpu_core.worker.run_log import run_log
from gpu_core.worker.running import RunningAttempt
from gpu_core.worker.settings import GpuWorkerSettings
from gpu_core.worker.threads import in_thread
from gpu_core.worker.variables import GpuProcessJobConfiguration

# The worker's own settings hold the addresses and passwords of databases: no run needs them.
_WORKERS_OWN = ("PREFECT_INTEGRATIONS_GPU_", "PREFECT_SERVER_", "PREFECT_WORKER_")


class Launching:
    """Starts processes; the scheduler has decided before that they may start."""

    def __init__(
        self,
        client: PrefectClient,
        settings: GpuWorkerSettings,
        connections: Connections,
        ledger: Ledger,
        attempts: OpenAttempts,
        processes: LocalProcesses,
    ) -> None:
        self._client = client
        self._settings = settings
        self._connections = connections
        self._ledger = ledger
        self._attempts = attempts
        self._processes = processes

    async def launch(
        self, flow_run: FlowRun, configuration: GpuProcessJobConfiguration, policy: Policy
    ) -> RunningAttempt:
        """Start the process of an admitted run.

        Raises:
            LookupError: The run was not admitted.
            OSError: The process could not be created, for example because its folder is missing.
        """
        running = self._attempts.of_run(str(flow_run.id))
        if running is None or running.attempt.started_at is not None:
            raise LookupError(f"flow run {flow_run.id} was not admitted by this scheduler")
        environment = await self._environment(running, configuration, policy)
        folder = configuration.working_dir or running.run_dir
        started = await in_thread(
            self._processes.start,
            _command(configuration.command),
            environment,
            folder,
            running.run_dir,
        )
        started_at = datetime.now(UTC)
        running.attempt = replace(
            running.attempt,
            started_at=started_at,
            last_seen_at=started_at,
            pid=started.pid,
            pid_created_at=started.created_at,
        )
        try:
            await in_thread(
                lambda: self._ledger.mark_started(
                    running.attempt.attempt_id,
                    started_at=started_at,
                    pid=started.pid,
                    pid_created_at=started.created_at,
                )
            )
        except BaseException:
            # Prefect will mark the run as crashed: then nothing of it may live.
            self._processes.kill(running.attempt.attempt_id)
            raise
        run_log(running.record).info(
            "Attempt %d began on %s", running.attempt.number, _gpus(running.attempt)
        )
        return running

    async def _environment(
        self, running: RunningAttempt, configuration: GpuProcessJobConfiguration, policy: Policy
    ) -> dict[str, str]:
        attempt, record, request = running.attempt, running.record, running.request
        checkpoint_uri = request.checkpoint_uri or await read_checkpoint_uri(
            self._client, self._settings, self._settings.resolved_state_dir()
        )
        context = RunContext(
            flow_run_id=attempt.flow_run_id,
            attempt=attempt.number,
            attempt_id=attempt.attempt_id,
            name=record.name,
            devices=attempt.gpu_ids,
            gpu_type=attempt.gpu_type,
            run_dir=str(running.run_dir),
            checkpoint_uri=checkpoint_uri,
            checkpoint_interval_s=request.checkpoint_interval_s or policy.checkpoints.interval_s,
            checkpoints_kept=policy.checkpoints.keep,
            team=record.team,
            project=record.project,
            deployment=record.deployment,
        )
        environment = {
            **os.environ,
            # A run that is told to end goes back in line instead of being marked as crashed.
            "PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR": "reschedule",
            # What the runtime says about damaged checkpoints belongs on the run's page.
            "PREFECT_LOGGING_EXTRA_LOGGERS": "gpu_core",
            **_known(
                {
                    "MLFLOW_TRACKING_URI": self._connections.mlflow_tracking_uri,
                    "MLFLOW_EXPERIMENT_NAME": record.experiment,
                }
            ),
            **_known(configuration.env),
            **context.to_environment(),
            "CUDA_VISIBLE_DEVICES": visible_devices(attempt.gpu_ids),
        }
        unset = {name for name, value in configuration.env.items() if value is None}
        return {
            name: value
            for name, value in environment.items()
            if name not in unset and not name.startswith(_WORKERS_OWN)
        }


def _gpus(attempt: Attempt) -> str:
    if attempt.gpu_type is None:
        return "no GPU: it asked for none"
    names = ", ".join(attempt.gpu_ids)
    return f"{attempt.gpu_count} × {attempt.gpu_type} of {attempt.node}: {names}"


def process_identity(running: RunningAttempt) -> str:
    """What Prefect keeps as the run's infrastructure: host, process number and its start time."""
    attempt = running.attempt
    return f"{socket.gethostname()}:{attempt.pid}:{attempt.pid_created_at:.2f}"


def _command(command: str | None) -> list[str]:
    """The command as arguments; `prefect` is this interpreter's, whatever the path says."""
    words = shlex.split(command or "prefect flow-run execute")
    if words and words[0] in ("prefect", "python"):
        module = ["-m", "prefect"] if words[0] == "prefect" else []
        return [sys.executable, *module, *words[1:]]
    return words


def _known(values: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}
