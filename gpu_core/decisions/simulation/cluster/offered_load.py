"""How much of a cluster gets allocated when requests only come, and none ends?"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gpu_core.decisions.model.cluster import Node
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI, Shape
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.placement.workload_mix import rounded_mix
from gpu_core.decisions.policy.placement import Strategy

_LOOKS = frozenset(2**power for power in range(6, 20))
"""After how many requests the mix is computed: the worker does so in each cycle, but what follows
from a mix costs as much as some hundred requests, and it soon changes little."""

Placer = Callable[[Shape], bool]
"""Gives a request its place, and says whether there was one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedLoad:
    """The result of a sequence of requests. Percentages are of the cluster's GPUs."""

    offered: int
    failed: int
    """Requests that fitted nowhere when they came."""
    arrived_percent: float
    """The sum of all requests."""
    allocated_at_100_percent: float | None
    """The amount allocated up to the request with which all of the cluster was asked for, that
    included; None: not so much was asked for."""
    allocated_percent: float
    """The amount allocated when all requests have come."""


def offer(shapes: Iterable[Shape], gpus: int, place: Placer) -> OfferedLoad:
    """How much is allocated when these requests come one after the other?

    One that fits nowhere when it comes is lost; none ends, none moves. The protocol of FGD (Weng
    et al., ATC 2023), which offers 130% of the cluster.

    Args:
        gpus: GPUs of the cluster, at least 1.
    """
    capacity_milli = gpus * WHOLE_GPU_MILLI
    offered = failed = arrived_milli = allocated_milli = 0
    at_100_percent = None
    for shape in shapes:
        offered += 1
        arrived_milli += shape.total_gpu_milli
        if place(shape):
            allocated_milli += shape.total_gpu_milli
        else:
            failed += 1
        if at_100_percent is None and arrived_milli >= capacity_milli:
            at_100_percent = 100 * allocated_milli / capacity_milli
    return OfferedLoad(
        offered=offered,
        failed=failed,
        arrived_percent=100 * arrived_milli / capacity_milli,
        allocated_at_100_percent=at_100_percent,
        allocated_percent=100 * allocated_milli / capacity_milli,
    )


def by_strategy(nodes: Sequence[Node], strategy: Strategy) -> Placer:
    """Requests go where the worker would put them.

    Where the strategy weighs what is likely to come, that is learned from what has come so far.
    """
    room = ClusterInfo(nodes, strategy)
    offered: Counter[Shape] = Counter()

    def place(shape: Shape) -> bool:
        if strategy is Strategy.FRAGMENTATION_AWARE:
            offered[shape] += 1
            if offered.total() in _LOOKS:
                room.set_workload_mix(rounded_mix(offered))
        placement = room.find(shape)
        if placement is None:
            return False
        room.allocate(shape, placement)
        return True

    return place
