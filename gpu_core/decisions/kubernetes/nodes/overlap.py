"""GPUs that two attempts have in the plan, because another scheduler has placed one of them there.

Kueue and the kube-scheduler do not know what was planned: a pod may be bound to GPUs that another
attempt, which still waits for its admission, was placed on.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from gpu_core.decisions.model.cluster import Allocation, NodeShare, Placement
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI


def without_overlap(allocations: Iterable[Allocation]) -> tuple[Allocation, ...]:
    """The part of each allocation that none before it holds.

    Args:
        allocations: Those that are bound before those that are still to be placed.
    """
    taken: Counter[tuple[str, str]] = Counter()
    return tuple(_left_of(allocation, taken) for allocation in allocations)


def is_overlapping(placement: Placement, taken_milli: Mapping[tuple[str, str], int]) -> bool:
    """Do others hold so much of one of these GPUs that the placement is not left whole?

    Args:
        taken_milli: Thousandths that others hold, by node and GPU.
    """
    return any(
        taken_milli.get((share.node, gpu_id), 0) + share.share_milli > WHOLE_GPU_MILLI
        for share in placement.shares
        if not share.mig_starts
        for gpu_id in share.gpu_ids
    )


def _left_of(allocation: Allocation, taken: Counter[tuple[str, str]]) -> Allocation:
    placement = allocation.placement
    shares = tuple(_left_of_share(share, taken) for share in placement.shares)
    if shares == placement.shares:
        return allocation
    return replace(allocation, placement=replace(placement, shares=shares))


def _left_of_share(share: NodeShare, taken: Counter[tuple[str, str]]) -> NodeShare:
    if share.mig_starts:
        return share  # one GPU has several instances, each with its place
    left = tuple(
        gpu_id
        for gpu_id in share.gpu_ids
        if taken[share.node, gpu_id] + share.share_milli <= WHOLE_GPU_MILLI
    )
    for gpu_id in left:
        taken[share.node, gpu_id] += share.share_milli
    return share if left == share.gpu_ids else replace(share, gpu_ids=left)
