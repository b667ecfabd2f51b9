"""The estimate of a job on an instance type, in any place and at any price."""

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_core.decisions.catalog.gpu_types import GPU_TYPES, GpuType, Precision
from gpu_core.decisions.catalog.offerings import InstanceType
from gpu_core.decisions.catalog.product_names import nearest_gpu_types
from gpu_core.decisions.model.errors import InvalidInput, alternatives, listed
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI
from gpu_core.decisions.offerings.constraints import Constraints
from gpu_core.decisions.offerings.options import RefusalReason
from gpu_core.decisions.requests.requirements.estimates.duration import (
    PCIE_GB_PER_S,
    Duration,
    Hardware,
    ObservedThroughput,
    Utilization,
    duration_of,
    learned,
    prior,
)
from gpu_core.decisions.requests.requirements.estimates.fit import Fit, best_fit, powers_of_two
from gpu_core.decisions.requests.requirements.jobs.job import Job

_BYTES_PER_GIB = 1024**3
_MIB_PER_GIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The job on some nodes of an instance type."""

    nodes: int
    fit: Fit
    work: Duration


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRun:
    """The reason why the job cannot run there."""

    reason: RefusalReason
    summary: str
    times_too_large: float | None = None
    """The number of times that the memory would have to grow; None: that is not the reason."""


def runs_on(
    job: Job, kind: InstanceType, constraints: Constraints, observed: ObservedThroughput | None
) -> tuple[Run, ...] | NoRun:
    """The runs of the job on this instance type, on 1, 2, 4, ... nodes or the number asked for."""
    gpu = GPU_TYPES.get(kind.gpu_type)
    if gpu is None:
        return _unknown_gpu(kind)
    nodes_tried = _nodes(kind, constraints)
    if isinstance(nodes_tried, NoRun):
        return nodes_tried
    if gpu.tflops(job.precision) is None:
        return _no_fast_units(gpu, job.precision)
    utilization = _utilization(job, gpu, observed)
    results = [_with_nodes(job, kind, gpu, nodes, utilization) for nodes in nodes_tried]
    runs = tuple(result for result in results if isinstance(result, Run))
    # Of several reasons that of the most nodes says most: it is not for want of nodes.
    return runs or next(result for result in reversed(results) if isinstance(result, NoRun))


def observed_on(gpu_type: str, gpus: int, units_per_s: Sequence[float]) -> ObservedThroughput:
    """The observed throughput on these GPUs, all in one node.

    Raises:
        InvalidInput: The GPU type is unknown, or there is no GPU.
    """
    gpu = GPU_TYPES.get(gpu_type)
    if gpu is None or gpus < 1:
        raise InvalidInput(
            "observed",
            "does not use a known GPU",
            got=f"{gpus} x {gpu_type}",
            allowed=f"1 or more of {listed(GPU_TYPES)}",
            nearest=None if gpu else nearest_gpu_types(gpu_type, GPU_TYPES),
        )
    hardware = Hardware(gpu=gpu, gpus=gpus, link_gb_per_s=_inside_gb_per_s(gpu))
    return ObservedThroughput(hardware=hardware, units_per_s=units_per_s)


def _nodes(kind: InstanceType, constraints: Constraints) -> tuple[int, ...] | NoRun:
    """The numbers of nodes to try. `NoRun`: the GPUs are not those that are asked for."""
    if kind.gpu_share_milli < WHOLE_GPU_MILLI:
        return NoRun(
            reason=RefusalReason.PARTIAL_GPU,
            summary=f"provides only {kind.gpu_share_milli / WHOLE_GPU_MILLI:.3g} of the "
            f"{kind.gpu_type} GPU, but a whole GPU is required",
        )
    if constraints.gpu_types and kind.gpu_type not in constraints.gpu_types:
        return NoRun(
            reason=RefusalReason.OTHER_GPU_TYPE,
            summary=f"provides {kind.gpu_type} instead of {' or '.join(constraints.gpu_types)}",
        )
    if constraints.gpus is None:
        return tuple(powers_of_two(constraints.max_nodes))
    if constraints.gpus % kind.gpu_count:
        return NoRun(
            reason=RefusalReason.OTHER_GPU_COUNT,
            summary=f"has {kind.gpu_count} GPUs per node, which cannot be combined to "
            f"{constraints.gpus}",
        )
    return (constraints.gpus // kind.gpu_count,)


def _with_nodes(
    job: Job, kind: InstanceType, gpu: GpuType, nodes: int, utilization: Utilization
) -> Run | NoRun:
    gpus = kind.gpu_count * nodes
    fit = best_fit(job, gpus, kind.gpu_memory_mib or _reported_mib(gpu))
    if not fit.fits:
        return _too_little_memory(fit, gpus)
    hardware = Hardware(
        gpu=gpu,
        gpus=gpus,
        gpu_share_milli=kind.gpu_share_milli,
        link_gb_per_s=_link_gb_per_s(kind, gpu, fit),
    )
    work = duration_of(fit.job, hardware, fit.division, utilization)
    if work is None:
        return NoRun(
            reason=RefusalReason.UNKNOWN_NETWORK,
            summary=f"requires {nodes} nodes with an unknown network bandwidth",
        )
    return Run(nodes=nodes, fit=fit, work=work)


def _utilization(job: Job, gpu: GpuType, observed: ObservedThroughput | None) -> Utilization:
    if observed is None:
        return prior(job)
    then = observed.hardware
    fit = best_fit(job, then.gpus, _reported_mib(then.gpu))
    return learned(fit.job, observed, fit.division, gpu.name)


def _reported_mib(gpu: GpuType) -> int:
    return gpu.reported_memory_mib or gpu.memory_gib * _MIB_PER_GIB


def _link_gb_per_s(kind: InstanceType, gpu: GpuType, fit: Fit) -> float | None:
    """The slowest link between GPUs that share a copy; None: unknown."""
    inside = _inside_gb_per_s(gpu)
    if fit.division.gpus <= kind.gpu_count:
        return inside
    return None if kind.network_gbps is None else min(inside, kind.network_gbps / 8)


def _inside_gb_per_s(gpu: GpuType) -> float:
    return gpu.nvlink_gb_per_s or PCIE_GB_PER_S


def _unknown_gpu(kind: InstanceType) -> NoRun:
    meant = alternatives(nearest_gpu_types(kind.gpu_type, GPU_TYPES))
    hint = f". Did you mean {meant}?" if meant else ""
    return NoRun(
        reason=RefusalReason.UNKNOWN_GPU_TYPE,
        summary=f"the speed of a {kind.gpu_type} is unknown{hint}",
    )


def _no_fast_units(gpu: GpuType, precision: Precision) -> NoRun:
    has = ", ".join(str(known) for known in gpu.dense_tflops)
    return NoRun(
        reason=RefusalReason.NO_FAST_UNITS,
        summary=f"does not support {precision}, only {has}",
    )


def _too_little_memory(fit: Fit, gpus: int) -> NoRun:
    needed, usable = (size / _BYTES_PER_GIB for size in (fit.memory.bytes, fit.usable_bytes))
    on = f"each of {gpus} GPUs" if gpus > 1 else "the GPU"
    return NoRun(
        reason=RefusalReason.TOO_LITTLE_MEMORY,
        summary=f"requires {needed:,.1f} GiB on {on}, but only {usable:,.1f} GiB are usable",
        times_too_large=needed / usable,
    )
