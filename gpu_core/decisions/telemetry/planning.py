"""Measurements that plans may read."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from statistics import fmean

from gpu_core.decisions.model.cluster import Allocation, Node
from gpu_core.decisions.model.measurements import Measurements, NodeLoad
from gpu_core.decisions.telemetry.history import GpuWindow


def measurements_of(
    nodes: Iterable[Node],
    allocations: Iterable[Allocation],
    since: datetime,
    *,
    load_ratio: Mapping[str, float],
    utilization: Mapping[str, float],
) -> Measurements:
    """The part of these measurements that plans may read.

    A workload that was admitted after the first of them is left out: they say little of it yet.

    Args:
        nodes: Those of the snapshot.
        allocations: Those of the snapshot.
        since: Where the measured minutes begin.
        load_ratio: As `NodeLoad.load_ratio`, by node; what is not between 0 and 1 is left out.
        utilization: By workload; what is not between 0 and 1 is left out.
    """
    measured = [each for each in allocations if each.admitted_at <= since]
    usable = {
        (node.name, gpu) for node in nodes for gpu in {*node.gpu_ids} - node.unhealthy_gpu_ids
    }
    held: dict[str, int] = {}
    for allocation in measured:
        for share in allocation.placement.shares:
            gpus = sum((share.node, gpu_id) in usable for gpu_id in share.gpu_ids)
            held[share.node] = held.get(share.node, 0) + gpus * share.share_milli
    ids = {allocation.workload.workload_id for allocation in measured}
    return Measurements(
        loads={
            node: NodeLoad(load_ratio=ratio, held_milli=held.get(node, 0))
            for node, ratio in load_ratio.items()
            if 0 <= ratio <= 1
        },
        utilization={
            workload_id: ratio
            for workload_id, ratio in utilization.items()
            if workload_id in ids and 0 <= ratio <= 1
        },
    )


def utilization_by_workload(
    windows: Iterable[GpuWindow], allocations: Iterable[Allocation], since: datetime
) -> dict[str, float]:
    """The part of the time in which the GPUs of each workload computed.

    A workload is left out as soon as the utilization of one of its GPUs is unknown.

    Args:
        windows: Minutes of GPUs that have ended.
        allocations: What holds GPUs.
        since: Minutes before this do not count.
    """
    by_gpu: dict[str, list[float | None]] = {}
    for window in windows:
        if window.minute >= since:
            ratio = window.summary.utilization_mean_ratio
            by_gpu.setdefault(window.summary.gpu_id, []).append(ratio)
    found = {}
    for allocation in allocations:
        of_gpus = [by_gpu.get(gpu_id, [None]) for gpu_id in allocation.placement.gpu_ids]
        ratios = [ratio for of_gpu in of_gpus for ratio in of_gpu]
        known = [ratio for ratio in ratios if ratio is not None]
        if known and len(known) == len(ratios):
            found[allocation.workload.workload_id] = fmean(known)
    return found
