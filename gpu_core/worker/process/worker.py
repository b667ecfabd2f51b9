"""The worker type `gpu-process`: GPUs of this machine, runs as local processes."""

import anyio.abc
from prefect.workers.base import BaseWorker

from gpu_core.worker.base import GpuWorker
from gpu_core.worker.infrastructure import Infrastructure
from gpu_core.worker.operations.threads import in_thread
from gpu_core.worker.process.gpus.devices_lock import DevicesLock
from gpu_core.worker.process.infrastructure import ProcessInfrastructure
from gpu_core.worker.process.leadership.file_lock import FileLock
from gpu_core.worker.process.leadership.leadership import MachineLeadership
from gpu_core.worker.process.variables import GpuProcessJobConfiguration, GpuProcessVariables
from gpu_core.worker.run_submission import Submitted
from gpu_core.worker.startup.leadership import Leadership
from gpu_core.worker.startup.settings import file_name
from gpu_core.worker.watch.policy import PolicySource


class GpuProcessWorker(
    GpuWorker, BaseWorker[GpuProcessJobConfiguration, GpuProcessVariables, Submitted]
):
    """Schedules the runs of a work pool on the GPUs of this machine.

    One worker for each pool and machine acts; a second one is on standby.
    """

    type = "gpu-process"
    needs_state_folder = True
    job_configuration = GpuProcessJobConfiguration
    job_configuration_variables = GpuProcessVariables
    _display_name = "GPU Process"
    _description = (
        "Run flows on the GPUs of one machine, with priorities, gangs, preemption and resumption, "
        "and a cost for every run."
    )

    def _new_leadership(self) -> Leadership:
        return MachineLeadership(
            FileLock(self._state_dir / f"{file_name(self._work_pool_name)}.lock"),
            DevicesLock(),
        )

    async def _new_infrastructure(
        self, policies: PolicySource, _tasks: anyio.abc.TaskGroup
    ) -> Infrastructure:
        return await in_thread(
            ProcessInfrastructure, policies.current(), self._wake, self._gpu_settings
        )
