"""Attempts as processes of this machine."""

import asyncio
import errno
import os
import shlex
import socket
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
from prefect.workers.base import BaseJobConfiguration

from gpu_core.adapters.files.activity_report import read_activity_report
from gpu_core.adapters.files.gpu_report import read_gpu_report, read_host_report
from gpu_core.adapters.files.micro_batch_report import has_asked_for_micro_batch
from gpu_core.adapters.files.progress_report import ProgressReport, read_progress_reports
from gpu_core.adapters.files.run_files import (
    Notice,
    read_checkpoint_report,
    read_exit_report,
    write_notice,
)
from gpu_core.adapters.host.stack_dumps import dump_stacks
from gpu_core.decisions.checkpoints.trust import SIGNING_KEY_HELP, SIGNING_KEY_VARIABLE
from gpu_core.decisions.model.attempt_exit import Exit
from gpu_core.decisions.model.attempts import Attempt, EndReason
from gpu_core.decisions.model.cluster import Allocation, Node
from gpu_core.decisions.model.errors import InvalidInput, sentences
from gpu_core.decisions.model.gpu_health import HeldGpu, move_reason
from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.decisions.model.host_summary import HostSummary
from gpu_core.decisions.model.measurements import Measurements
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI, Workload
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.requests.runs.run_context import RunContext
from gpu_core.decisions.requests.runs.run_environment import inherited_environment
from gpu_core.decisions.requests.variables.env_variable import env_of_process
from gpu_core.decisions.telemetry.history import GpuWindow
from gpu_core.decisions.telemetry.metrics import WorkerFacts
from gpu_core.decisions.telemetry.planning import measurements_of, utilization_by_workload
from gpu_core.decisions.telemetry.virtual_gpus import VIRTUAL_PREFIX
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.infrastructure import ObservedUse, Started, TerminationRequest, Unavailable
from gpu_core.worker.operations.outage_errors import OUTAGE_ERRNOS
from gpu_core.worker.operations.threads import in_thread
from gpu_core.worker.process.attempts.processes import PROGRAMS, LocalProcesses
from gpu_core.worker.process.gpus.devices import local_nodes, visible_devices
from gpu_core.worker.process.gpus.health_watch import HealthWatch
from gpu_core.worker.process.gpus.held import HeldGpus
from gpu_core.worker.process.gpus.occupied import OccupiedGpus
from gpu_core.worker.process.variables import GpuProcessJobConfiguration
from gpu_core.worker.startup.settings import GpuWorkerSettings

_SAMPLER = PROGRAMS / "attempt_sampler.py"


class ProcessInfrastructure:
    """The machine of this worker.

    Args:
        policy: Which virtual GPUs it has, where it has no real ones.
        wake: Called when a process ended.
        settings: What the machine is, and where it hears of its end.
    """

    def __init__(
        self, policy: Policy, wake: Callable[[], None], settings: GpuWorkerSettings
    ) -> None:
        self._nodes = local_nodes(policy, settings.capacity_type)
        self._settings = settings
        self._wake = wake
        self._processes = LocalProcesses()
        self._occupied = OccupiedGpus()
        self._held = HeldGpus(settings.resolved_state_dir())
        self._held_now: Mapping[str, HeldGpu] = {}
        self._health: HealthWatch | None = None

    @property
    def host(self) -> str:
        """This machine's name."""
        return socket.gethostname()

    @property
    def disk(self) -> Path | None:
        """The folder that contains the run folders."""
        return self._settings.resolved_state_dir()

    @property
    def is_fixed(self) -> bool:
        """This machine gets no other GPUs while the worker runs."""
        return True

    @property
    def is_environment_private(self) -> bool:
        """The environment of a process is for its user's eyes only."""
        return True

    @property
    def variable_names(self) -> frozenset[str]:
        """None: the template names all of them."""
        return frozenset()

    @property
    def fitted_by(self) -> object:
        """Nothing: a process gets no part of a GPU, and its CPU and memory are not counted."""
        return None

    def fitted(
        self,
        workload: Workload,
        variables: Mapping[str, object],
        policy: Policy,
        flow_name: str,
        *,
        has_deployment: bool,
    ) -> Workload:
        """The same: CPU and memory of this machine are not counted.

        Raises:
            InvalidInput: It wants a part of a GPU: processes get whole ones. Or its environment
                comes from objects of Kubernetes.
        """
        if isinstance(variables.get("env"), list):
            env_of_process(variables["env"])
        if not workload.shape.is_whole:
            raise InvalidInput(
                "gpu_fraction" if workload.shape.mig_profile is None else "mig_profile",
                "is not available on a gpu-process pool, which assigns whole GPUs",
                got=workload.shape.mig_profile or workload.shape.gpu_share_milli / WHOLE_GPU_MILLI,
                remedy="remove it or submit the run to a gpu-kubernetes pool",
            )
        return workload

    def keep_fitted(self, flow_run_ids: Collection[str]) -> None:
        """Nothing to forget."""

    async def observe(self, policy: Policy, allocations: Sequence[Allocation]) -> tuple[Node, ...]:
        """The machine as it was when the worker started, without the GPUs that others use now."""
        self._watch_health()
        held = {gpu_id for allocation in allocations for gpu_id in allocation.placement.gpu_ids}
        if self._health is not None:
            self._health.set_runs([each.placement.gpu_ids for each in allocations])
        nodes = await in_thread(self._occupied.without_occupied, self._nodes, held)
        self._held_now = await in_thread(self._held.read)
        ill = frozenset(self._held_now)
        return tuple(_without_ill(node, ill & {*node.gpu_ids}) for node in nodes)

    def _watch_health(self) -> None:
        """Begin to sample the machine's GPUs, with the first cycle of the acting worker."""
        if self._health is not None or not self._settings.sample_interval_s:
            return
        loop = asyncio.get_running_loop()
        real = [g for node in self._nodes for g in node.gpu_ids if not g.startswith(VIRTUAL_PREFIX)]
        self._health = HealthWatch(
            real,
            self._held,
            lambda: _call_in(loop, self._note_held),
            self._settings.sample_interval_s,
        )
        self._health.start()

    def _note_held(self) -> None:
        """A GPU was held: the next cycle ends what is on it."""
        self._held_now = self._held.read()
        self._wake()

    def allocations(
        self, attempts: Sequence[AttemptState], policy: Policy
    ) -> tuple[Allocation, ...]:
        """The planned placement: no other scheduler places a process."""
        return tuple(running.allocation() for running in attempts)

    def binding(
        self, running: AttemptState, unsettled: Sequence[AttemptState], policy: Policy
    ) -> None:
        """Never: a machine plans with itself only."""

    def final_binding(
        self, running: AttemptState, unsettled: Sequence[AttemptState], policy: Policy
    ) -> None:
        """Never: a machine plans with itself only."""

    async def context(self, running: AttemptState, context: RunContext) -> RunContext:
        """With the run's folder, its own devices, and what is known of the machine's end."""
        return replace(
            context,
            run_dir=str(running.run_dir),
            devices=running.attempt.gpu_ids,
            capacity_since=datetime.fromtimestamp(psutil.boot_time(), UTC),
            instance_metadata_url=self._settings.instance_metadata_url,
        )

    async def start(
        self,
        running: AttemptState,
        configuration: BaseJobConfiguration,
        context: RunContext,
        environment: Mapping[str, str],
        policy: Policy,
    ) -> Started:
        """Start the attempt's process in a session of its own.

        Raises:
            Unavailable: The machine has no room for it, its run folder cannot be used, or its
                checkpoints have to be signed and there is no key.
        """
        if not isinstance(configuration, GpuProcessJobConfiguration):
            raise TypeError(
                f"{type(configuration).__name__} is not a configuration of a gpu-process pool"
            )
        try:
            started = await in_thread(
                self._processes.start,
                _command(configuration.command),
                self._run_environment(configuration, context, environment),
                configuration.working_dir or running.run_dir,
                running.run_dir,
                self._sampler(running),
            )
        except OSError as error:
            if not _is_of_machine(error, running.run_dir):
                raise
            raise Unavailable(f"failed to start its process on {self.host}: {error}") from error
        return _started(datetime.now(UTC), started.pid, started.created_at)

    def _sampler(self, running: AttemptState) -> list[str]:
        """The program that samples the attempt's GPUs; empty: none does."""
        interval_s, gpu_ids = self._settings.sample_interval_s, running.attempt.gpu_ids
        if not interval_s or not gpu_ids:
            return []
        return [
            sys.executable,
            "-P",
            str(_SAMPLER),
            str(running.run_dir),
            str(interval_s),
            *gpu_ids,
        ]

    def _run_environment(
        self,
        configuration: GpuProcessJobConfiguration,
        context: RunContext,
        environment: Mapping[str, str],
    ) -> dict[str, str]:
        inherited = inherited_environment(os.environ, self._settings.pass_environment)
        # What the worker itself sets stays: a run without its mark would never be found.
        return {
            **{name: v for name, v in inherited.items() if name not in configuration.unset},
            **environment,
            **{name: value for name, value in configuration.env.items() if value is not None},
            **self._signing_key(context),
            **context.to_environment(),
            "CUDA_VISIBLE_DEVICES": visible_devices(context.devices),
        }

    def _signing_key(self, context: RunContext) -> dict[str, str]:
        """The variable with the key for checkpoints; empty: the worker has none.

        Raises:
            Unavailable: The policy requires signatures, which the run could not make.
        """
        key = self._settings.checkpoint_signing_key
        if key is not None:
            return {SIGNING_KEY_VARIABLE: key.get_secret_value()}
        if context.requires_signatures:
            raise Unavailable(
                sentences(
                    "the policy requires signed checkpoints but the worker has no signing key",
                    SIGNING_KEY_HELP,
                )
            )
        return {}

    async def find(self, attempts: Sequence[Attempt]) -> Mapping[str, Started]:
        """The launchers of these attempts, by the mark that all their processes carry."""
        marked = await in_thread(self._processes.marked)
        return {
            attempt.attempt_id: _launcher(marked[attempt.attempt_id])
            for attempt in attempts
            if marked.get(attempt.attempt_id)
        }

    def watch(self, running: AttemptState) -> None:
        """Wake the cycle when the launcher ends."""
        if running.attempt.pid is not None:
            self._processes.watch(running.attempt.pid, self._wake)

    def lives(self, running: AttemptState) -> bool:
        """Is its launcher alive? False also before it was started."""
        return self._processes.lives(running.attempt)

    def trouble(
        self, running: AttemptState, policy: Policy, now: datetime
    ) -> TerminationRequest | None:
        """It must leave a GPU that is held: that is a fault of the machine."""
        held = [self._held_now[g] for g in running.attempt.gpu_ids if g in self._held_now]
        if not held:
            return None
        return TerminationRequest(reason=EndReason.INTERRUPTED, message=move_reason(held))

    async def reconcile(self, attempts: Sequence[AttemptState], policy: Policy) -> None:
        """Nothing: Prefect runs in every one of them and reports it."""

    async def refresh(self, attempts: Sequence[AttemptState]) -> None:
        """Read the reports in the run folders."""
        for running in attempts:
            running.report = read_checkpoint_report(running.run_dir) or running.report
            running.asks_for_micro_batch |= has_asked_for_micro_batch(
                running.run_dir, running.attempt.attempt_id
            )

    async def notify(self, running: AttemptState, notice: Notice) -> None:
        """Write the notice file into the run's folder."""
        await in_thread(write_notice, running.run_dir, notice)

    def sees_its_cancellation(self, running: AttemptState) -> bool:
        """Prefect's launcher is around every process, and ends it."""
        return True

    async def terminate(self, running: AttemptState) -> None:
        """SIGTERM to the launcher, which hands it to Prefect's process."""
        self._processes.terminate(running.attempt)

    async def kill(self, running: AttemptState) -> bool:
        """SIGKILL to everything that carries the attempt's mark, orphans included."""
        return await in_thread(self._processes.kill, running.attempt.attempt_id)

    def is_placed_as_planned(self, policy: Policy) -> bool:
        """Yes: nothing else places processes."""
        return True

    def held_gpus(self, running: AttemptState) -> bool:
        """Always: its process starts on the GPUs of its plan."""
        return True

    async def report_start(self, running: AttemptState) -> None:
        """Its flow has reported it."""

    async def exit(self, running: AttemptState) -> Exit | None:
        """The exit that the launcher recorded; None: it has recorded none."""
        report = read_exit_report(running.run_dir)
        if report is None:
            return None
        return Exit(
            exit_code=report.exit_code, started_at=report.started_at, ended_at=report.ended_at
        )

    def with_devices(self, facts: WorkerFacts) -> WorkerFacts:
        """With the last samples of the machine's GPUs, and which of them are held."""
        if self._health is None:
            return facts
        held = {gpu_id: gpu.verdict for gpu_id, gpu in self._held_now.items()}
        verdicts = self._health.verdicts()
        return replace(
            facts,
            samples=self._health.samples,
            verdicts=verdicts | {gpu: each for gpu, each in held.items() if gpu in verdicts},
        )

    def take_gpu_windows(self) -> tuple[GpuWindow, ...]:
        """The minutes of the machine's GPUs that have ended since the last call."""
        return () if self._health is None else self._health.take_windows()

    async def gpu_summaries(self, running: AttemptState) -> tuple[GpuSummary, ...]:
        """The attempt's GPU samples, written by the run's sampler."""
        found = await in_thread(read_gpu_report, running.run_dir)
        return tuple(each for each in found if each.gpu_id in running.attempt.gpu_ids)

    async def observed_use(self, running: AttemptState) -> ObservedUse:
        """The GPU use that its sampler and its ranks recorded in the run's folder."""

        def read() -> ObservedUse:
            return ObservedUse(
                activity=read_activity_report(running.run_dir),
                progress=read_progress_reports(running.run_dir, running.attempt.attempt_id),
            )

        return await in_thread(read)

    def measurements(
        self,
        attempts: Sequence[AttemptState],
        nodes: Sequence[Node],
        allocations: Sequence[Allocation],
        policy: Policy,
        now: datetime,
    ) -> Measurements:
        """The GPU activity of each run. The GPUs of a machine are not shared."""
        window_s = policy.telemetry.planning_window_s
        if window_s is None or self._health is None:
            return Measurements()
        since = now - timedelta(seconds=window_s)
        return measurements_of(
            nodes,
            allocations,
            since,
            load_ratio={},
            utilization=utilization_by_workload(self._health.recent, allocations, since),
        )

    async def stacks(
        self, running: AttemptState, progress: Sequence[ProgressReport]
    ) -> Mapping[int, str]:
        """By a signal to each rank, which writes them into the run's folder."""
        return await in_thread(dump_stacks, running.run_dir, running.attempt.attempt_id, progress)

    async def host_summary(self, running: AttemptState) -> HostSummary | None:
        """The samples of its processes, written by the run's sampler."""
        return await in_thread(read_host_report, running.run_dir)

    async def last_lines(self, running: AttemptState) -> tuple[str, ...]:
        """From its output in the run's folder."""
        return await in_thread(self._processes.last_lines, running.run_dir)

    def record_event(self, running: AttemptState, reason: Reason | EndReason, note: str) -> None:
        """Nothing: a process is seen on its run's page alone."""

    def settled(self, running: AttemptState) -> None:
        """Nothing to forget."""

    async def close(self) -> None:
        """Stop watching."""
        if self._health is not None:
            self._health.close()
        self._occupied.close()
        self._processes.close()


# A machine that can make no further process has this one, too.
_OF_MACHINE = OUTAGE_ERRNOS | {errno.EAGAIN}


def _without_ill(node: Node, ill: frozenset[str]) -> Node:
    """The node with these GPUs held, which its machine is paid for all the same."""
    if not ill:
        return node
    machine = node.machine
    return replace(
        node,
        unhealthy_gpu_ids=node.unhealthy_gpu_ids | ill,
        machine=None if machine is None else replace(machine, faulty_gpus=len(ill)),
    )


def _call_in(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    loop.call_soon_threadsafe(function)


def _is_of_machine(error: OSError, run_dir: Path) -> bool:
    """Is it the machine's fault, and not that of the run's command or working directory?"""
    path = error.filename
    is_in_run_dir = isinstance(path, str | Path) and Path(path).is_relative_to(run_dir)
    return error.errno in _OF_MACHINE or is_in_run_dir


def _launcher(processes: Sequence[psutil.Process]) -> Started:
    created_at, pid = min((process.create_time(), process.pid) for process in processes)
    return _started(datetime.fromtimestamp(created_at, UTC), pid, created_at)


def _started(started_at: datetime, pid: int, created_at: float) -> Started:
    return Started(
        started_at=started_at,
        identity=f"{socket.gethostname()}:{pid}:{created_at:.2f}",
        pid=pid,
        pid_created_at=created_at,
    )


def _command(command: str | None) -> list[str]:
    """The command as arguments; `prefect` is this interpreter's, independent of PATH."""
    words = shlex.split(command or "prefect flow-run execute")
    if words and words[0] in ("prefect", "python"):
        module = ["-m", "prefect"] if words[0] == "prefect" else []
        return [sys.executable, *module, *words[1:]]
    return words
