"""Leader election among the workers of a machine, and ownership of the machine's GPUs."""

from gpu_core.adapters.nvml import GpuDiscoveryError
from gpu_core.worker.operations.threads import in_thread
from gpu_core.worker.process.gpus.devices import machine_gpus
from gpu_core.worker.process.gpus.devices_lock import DevicesLock
from gpu_core.worker.process.leadership.file_lock import FileLock


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
        """The known reason why this worker is not acting, as a clause."""
        if self._failure is not None:
            return self._failure
        if self._pool.is_held:
            holder = self._devices.holder
            of_whom = "" if holder is None else f" of the user {holder}"
            return f"the GPUs of this machine are in use by a worker of another pool{of_whom}"
        return "another worker on this machine is active for this pool"

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
