"""GPUs of this machine that other processes than this pool's use, or that do not answer."""

import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import psutil

from gpu_core.adapters.nvml import GpuDiscoveryError
from gpu_core.decisions.model.cluster import Node
from gpu_core.decisions.model.errors import ended
from gpu_core.decisions.telemetry.virtual_gpus import VIRTUAL_PREFIX
from gpu_core.worker.process.gpus.gpu_usage import ProcessesByGpu, UsageReader

_log = logging.getLogger("prefect.gpu.devices")

VALID_S = 60.0
"""How long the last reading of NVML counts. After that a GPU is free only if NVML says so."""


class OccupiedGpus:
    """Leaves GPUs out for as long as a process computes on them that is no run of this pool.

    Whose a process is cannot be said for sure, because a container has other process numbers than
    the driver. So a GPU is occupied if it has a process and no run of ours holds it. A GPU that
    does not answer is left out as well, and without a reading for `VALID_S` every GPU that no run
    of ours holds. An attempt that runs keeps its GPUs.

    Args:
        clock_s: Seconds that never go back.
        reader: Asks NVML.
    """

    def __init__(
        self, clock_s: Callable[[], float] = time.monotonic, reader: UsageReader | None = None
    ) -> None:
        self._clock_s = clock_s
        self._reader = reader or UsageReader(clock_s)
        self._occupied: dict[str, tuple[int, ...]] = {}
        self._silent: frozenset[str] = frozenset()
        # The GPUs of the machine have just been discovered.
        self._read_at_s = clock_s()
        self._failure: str | None = None
        self._is_unknown = False

    def without_occupied(self, nodes: Sequence[Node], held: Collection[str]) -> tuple[Node, ...]:
        """The nodes, with the GPUs that others use or that are unknown among the unhealthy ones.

        Args:
            nodes: The machine.
            held: The GPUs that our runs hold.
        """
        ours = {gpu_id for node in nodes for gpu_id in node.gpu_ids}
        if all(gpu_id.startswith(VIRTUAL_PREFIX) for gpu_id in ours):
            return tuple(nodes)
        free = ours - set(held)
        self._look(ours, free)
        left_out = {*self._occupied, *self._silent, *(free if self._is_unknown else ())}
        return tuple(
            replace(node, unhealthy_gpu_ids=node.unhealthy_gpu_ids | (left_out & {*node.gpu_ids}))
            for node in nodes
        )

    def close(self) -> None:
        """Release the driver."""
        self._reader.close()

    def _look(self, ours: set[str], free: set[str]) -> None:
        try:
            usage = self._reader.read(ours)
        except GpuDiscoveryError as error:
            self._note_failure(str(error))
            return
        self._note_answer()
        self._note_silent(frozenset(ours - usage.keys()))
        self._note_occupied(usage, free)

    def _note_failure(self, failure: str) -> None:
        """Log it once, and again when the last reading no longer counts."""
        if self._failure is None:
            _log.warning(
                "Failed to list the processes on the GPUs of this machine: %s Using the "
                "previous list for up to %.0f seconds.",
                *(ended(failure), VALID_S),
            )
            self._failure = failure
        if not self._is_unknown and self._clock_s() - self._read_at_s > VALID_S:
            _log.error(
                "No runs are started on the GPUs of this machine until NVML responds: %s "
                "Check whether `nvidia-smi` works. Active runs are not affected.",
                ended(failure),
            )
            self._is_unknown = True

    def _note_answer(self) -> None:
        self._read_at_s = self._clock_s()
        if self._failure is not None:
            _log.warning("NVML is available again")
        self._failure, self._is_unknown = None, False

    def _note_silent(self, silent: frozenset[str]) -> None:
        for gpu_id in sorted(silent - self._silent):
            _log.error("Excluding %s because it does not respond to NVML", gpu_id)
        for gpu_id in sorted(self._silent - silent):
            _log.warning("%s is responding to NVML again", gpu_id)
        self._silent = silent

    def _note_occupied(self, usage: ProcessesByGpu, free: set[str]) -> None:
        before = self._occupied
        self._occupied = {
            gpu_id: pids for gpu_id in usage.keys() & free if (pids := _without_mps(usage[gpu_id]))
        }
        for gpu_id in self._occupied.keys() - before.keys():
            names = ", ".join(map(_name, self._occupied[gpu_id]))
            _log.warning("Excluding %s because it is in use by another process: %s", gpu_id, names)
        for gpu_id in before.keys() - self._occupied.keys():
            _log.info("%s is no longer in use by another process", gpu_id)


def _without_mps(pids: Sequence[int]) -> tuple[int, ...]:
    """Without the server of MPS, which stays when its last client has ended."""
    return tuple(pid for pid in pids if _program(pid) != "nvidia-cuda-mps-server")


def _program(pid: int) -> str | None:
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return None


def _name(pid: int) -> str:
    program = _program(pid)
    return f"process {pid}" if program is None else f"process {pid} ({program})"
