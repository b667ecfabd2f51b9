"""What is still to be given out in one planning cycle: GPUs that are free, and GPUs that come."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from gpu_core.decisions.cluster import Allocation, Node, Placement
from gpu_core.decisions.placement import FreeGpus


@dataclass(frozen=True, slots=True, kw_only=True)
class ComingGpu:
    """A GPU whose holder was told to end."""

    holder_id: str
    holder_name: str
    at: datetime | None
    """When it is free at the latest; None: unknown."""


class Room:
    """The GPUs that no one has been promised yet. Lives for one cycle.

    Args:
        nodes: The nodes, each with its GPUs in the order in which they are given out.
        allocations: Who holds GPUs now. A GPU that its node no longer lists does not count.
    """

    def __init__(self, nodes: Sequence[Node], allocations: Sequence[Allocation]) -> None:
        self._usable = {n.name: _usable_gpus(n) for n in nodes}
        held = {
            (share.node, gpu_id)
            for allocation in allocations
            for share in allocation.placement.shares
            for gpu_id in share.gpu_ids
        }
        self._free = {
            name: tuple(g for g in gpu_ids if (name, g) not in held)
            for name, gpu_ids in self._usable.items()
        }
        self._coming: dict[str, dict[str, ComingGpu]] = {name: {} for name in self._usable}
        for allocation in allocations:
            if allocation.is_draining:
                self.expect(allocation, allocation.drain_deadline_at)

    @property
    def free(self) -> FreeGpus:
        """What can be given out now."""
        return self._free

    def free_and_coming(self) -> FreeGpus:
        """The same and what is being given back, free ones first."""
        return {name: (*gpus, *self._coming[name]) for name, gpus in self._free.items()}

    def free_coming_and_held_by(self, holders: Iterable[Allocation]) -> FreeGpus:
        """The same and what these hold, as if they had been told to end."""
        gpus = {name: list(gpu_ids) for name, gpu_ids in self.free_and_coming().items()}
        for holder in holders:
            for node, gpu_ids in self.held_by(holder).items():
                gpus[node] += gpu_ids
        return {name: tuple(gpu_ids) for name, gpu_ids in gpus.items()}

    def held_by(self, holder: Allocation) -> dict[str, list[str]]:
        """Which usable GPUs does this workload hold, by node?"""
        held: dict[str, list[str]] = {}
        for share in holder.placement.shares:
            usable = self._usable.get(share.node, ())
            gpu_ids = [g for g in share.gpu_ids if g in usable]
            if gpu_ids:
                held[share.node] = gpu_ids
        return held

    def expect(self, holder: Allocation, at: datetime | None) -> None:
        """From now on the GPUs of this workload are coming."""
        coming = ComingGpu(
            holder_id=holder.workload.workload_id, holder_name=holder.workload.name, at=at
        )
        for node, gpu_ids in self.held_by(holder).items():
            self._coming[node].update(dict.fromkeys(gpu_ids, coming))

    def promise(self, placement: Placement) -> list[ComingGpu]:
        """Give these GPUs away; returns those among them that are still to come."""
        awaited = []
        for share in placement.shares:
            self._free[share.node] = tuple(
                g for g in self._free[share.node] if g not in share.gpu_ids
            )
            coming = self._coming[share.node]
            awaited += [coming.pop(g) for g in share.gpu_ids if g in coming]
        return awaited


def _usable_gpus(node: Node) -> tuple[str, ...]:
    return tuple(g for g in node.gpu_ids if g not in node.unhealthy_gpu_ids)
