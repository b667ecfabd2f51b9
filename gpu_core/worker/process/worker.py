"""The worker type `gpu-process`: GPUs of this machine, runs as local processes."""

import anyio.abc
from prefect.workers.base import BaseWorker

from gpu_core.adapters.nvml import GpuDiscoveryError
from gpu_core.worker.base import GpuWorker, Leadership, Submitted
from gpu_core.worker.infrastructure import Infrastructure
from gpu_core.worker.operations.threads import in_thread
from gpu_core.worker.process.gpus.devices import machine_gpus
from gpu_core.worker.process.gpus.devices_lock import DevicesLock
from gpu_core.worker.process.gpus.file_lock import FileLock
from gpu_core.worker.process.infrastructure import ProcessInfrastructure
from gpu_core.worker.process.variables import GpuProcessJobConfiguration, GpuProcessVariables
from gpu_core.worker.settings import file_name
from gpu_core.worker.watch.policy import PolicySource


class GpuProcessWorker(
    GpuWorker, BaseWorker[GpuProcessJobConfiguration, GpuProcessVariables, Submitted]
):
    """Schedules the runs of a work pool on the GPUs of this machine.

    One worker for each pool and machine acts; a second one stands by.
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


class MachineLeadership:
    """One acting worker for each pool of a machine, and one pool for its real GPUs.

    Args:
        pool: The pool's lock.
        devices: The lock of the machine's GPUs. Virtual ones are for any pool that asks.
    """

    def __init__(self, pool: FileLock, devices: DevicesLock) -> None:
        self._pool = pool
        self._devices = devices
        self._failure: str | None = None

    async def acquire(self) -> bool:
        """Is this worker the acting one? Tries to become it; never blocks."""
        return self._pool.acquire() and await self._may_use_devices()

    @property
    def why_not(self) -> str:
        """Why this worker does not act, as far as it knows: a clause."""
        if self._failure is not None:
            return self._failure
        if self._pool.is_held:
            holder = self._devices.holder
            of_whom = "" if holder is None else f" of the user {holder}"
            return f"a worker of another pool{of_whom} uses the GPUs of this machine"
        return "another one acts for this pool"

    @property
    def is_standby(self) -> bool:
        """Is it known that another worker acts?"""
        return self._failure is None

    async def release(self) -> None:
        """Let another worker act."""
        self._pool.release()
        self._devices.release()

    async def _may_use_devices(self) -> bool:
        if self._devices.is_held:
            return self._devices.acquire()
        self._failure = None
        try:
            has_gpus = bool(await in_thread(machine_gpus))
        except GpuDiscoveryError as error:
            self._failure = str(error)
            return False
        return not has_gpus or self._devices.acquire()
