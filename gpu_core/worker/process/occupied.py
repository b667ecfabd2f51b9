"""GPUs of this machine that somebody computes on without this pool."""

import logging
from collections.abc import Collection, Sequence
from dataclasses import replace

import psutil

from gpu_core.adapters.nvml import GpuDiscoveryError, GpuUsers
from gpu_core.decisions.cluster import Node
from gpu_core.worker.process.devices import VIRTUAL_PREFIX

_log = logging.getLogger("prefect.gpu.devices")


class OccupiedGpus:
    """Leaves GPUs out for as long as a process computes on them that is no run of this pool.

    Whose a process is cannot be said for sure, because a container has other process numbers than
    the driver. So a GPU is occupied if it has a process and no run of ours holds it.
    """

    def __init__(self) -> None:
        self._users = GpuUsers()
        self._occupied: dict[str, tuple[int, ...]] = {}

    def without_occupied(self, nodes: Sequence[Node], held: Collection[str]) -> tuple[Node, ...]:
        """The nodes, with the GPUs that others use among the unhealthy ones.

        Args:
            nodes: The machine.
            held: The GPUs that our runs hold.
        """
        ours = {gpu_id for node in nodes for gpu_id in node.gpu_ids}
        if all(gpu_id.startswith(VIRTUAL_PREFIX) for gpu_id in ours):
            return tuple(nodes)
        self._look(ours - set(held))
        return tuple(
            replace(node, unhealthy_gpu_ids=node.unhealthy_gpu_ids | occupied) if occupied else node
            for node in nodes
            for occupied in [self._occupied.keys() & set(node.gpu_ids)]
        )

    def close(self) -> None:
        """Let the driver go."""
        self._users.close()

    def _look(self, free: set[str]) -> None:
        try:
            users = self._users.process_ids()
        except GpuDiscoveryError as error:
            _log.warning("Who uses the GPUs of this machine is unknown: %s", error)
            return
        before = self._occupied
        self._occupied = {
            gpu_id: pids for gpu_id in users.keys() & free if (pids := _without_mps(users[gpu_id]))
        }
        for gpu_id in self._occupied.keys() - before.keys():
            names = ", ".join(map(_name, self._occupied[gpu_id]))
            _log.warning("%s is left out while somebody else uses it: %s", gpu_id, names)
        for gpu_id in before.keys() - self._occupied.keys():
            _log.info("%s is not used by others any more", gpu_id)


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
