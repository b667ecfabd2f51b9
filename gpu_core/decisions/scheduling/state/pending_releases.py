"""Assignment of GPUs that draining workloads are about to release."""

from collections.abc import Container, Iterator
from dataclasses import replace

from gpu_core.decisions.model.cluster import NodeShare, Placement
from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.scheduling.state.cluster_state import SchedulerState


def free_first(state: SchedulerState, shape: Shape, placement: Placement) -> Placement:
    """The placement on the same nodes, with free GPUs before those still held."""
    if not shape.is_whole:
        return placement
    shares = []
    for share in placement.shares:
        free_now = set(state.current.cluster[share.node].free_ids)
        free = sorted(
            state.after_draining.cluster[share.node].free_ids, key=lambda gpu: gpu not in free_now
        )
        shares.append(NodeShare(node=share.node, gpu_ids=tuple(free[: shape.gpu_count])))
    return replace(placement, shares=tuple(shares))


def awaited_from(
    state: SchedulerState, draining: Container[str], placement: Placement
) -> list[tuple[str, int]]:
    """The draining workloads that hold GPUs of the placement, with the number of each, by id."""
    awaited: dict[str, int] = {}
    for share in placement.shares:
        for holding in state.holdings.on(share.node):
            if holding.workload_id in draining:
                held = {
                    gpu
                    for theirs in holding.allocation.placement.shares
                    if theirs.node == share.node
                    for gpu in theirs.gpu_ids
                }
                common = len(held.intersection(share.gpu_ids))
                if common:
                    awaited[holding.workload_id] = awaited.get(holding.workload_id, 0) + common
    return sorted(awaited.items())


def free_parts(state: SchedulerState, placement: Placement) -> Iterator[Placement]:
    """The whole GPUs of the placement that are free now, by node."""
    for share in placement.shares:
        free = set(state.current.cluster[share.node].free_ids)
        ids = tuple(gpu for gpu in share.gpu_ids if gpu in free)
        if ids:
            yield replace(placement, shares=(NodeShare(node=share.node, gpu_ids=ids),))
