"""What it would be like to run a job on one offering, with each number of nodes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gpu_core.decisions.catalog.gpu_types import GPU_TYPES, GpuType, Precision
from gpu_core.decisions.catalog.offerings import SPOT, Catalog, InstanceType, Offering
from gpu_core.decisions.choosing.beside import storage_micro_usd, transfer_micro_usd
from gpu_core.decisions.choosing.interruption import Overhead, interruption_chance
from gpu_core.decisions.choosing.options import Cost, Option, Reason, Refusal
from gpu_core.decisions.choosing.wishes import Conditions, Wishes
from gpu_core.decisions.errors import InvalidInput, listed, nearest_name
from gpu_core.decisions.requirements.duration import (
    PCIE_GB_PER_S,
    Duration,
    Hardware,
    Observed,
    Utilisation,
    duration_of,
    learned,
    prior,
)
from gpu_core.decisions.requirements.fit import Fit, best_fit, powers_of_two
from gpu_core.decisions.requirements.job import Job
from gpu_core.decisions.requirements.memory import checkpoint_bytes, weight_bytes
from gpu_core.decisions.units import SECONDS_PER_HOUR

_BYTES_PER_GIB = 1024**3
_MIB_PER_GIB = 1024

# Inference writes down how far it is, not the model.
_PROGRESS_MARK_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """All that offerings are judged by."""

    job: Job
    catalog: Catalog
    wishes: Wishes
    conditions: Conditions
    overhead: Overhead
    observed: Observed | None


def evaluate(setting: Setting, offering: Offering) -> tuple[Option, ...] | Refusal:
    """Which ways are there to run the job on this offering? A refusal: none, whatever is wished.

    Args:
        setting: What it is judged by.
        offering: One of the setting's catalog.
    """
    if not setting.catalog.is_available(offering):
        return _not_there(offering)
    kind = setting.catalog.instance_type(offering)
    gpu = GPU_TYPES.get(kind.gpu_type)
    if gpu is None:
        return _unknown_gpu(offering, kind)
    if gpu.tflops(setting.job.precision) is None:
        return _no_fast_units(offering, gpu, setting.job.precision)
    results = [
        _with_nodes(setting, offering, kind, gpu, nodes)
        for nodes in powers_of_two(setting.wishes.max_nodes)
    ]
    options = tuple(result for result in results if isinstance(result, Option))
    refusals = [result for result in results if isinstance(result, Refusal)]
    # Of several refusals that of the most nodes says most: it is not for want of nodes.
    return options or refusals[-1]


def observed_on(gpu_type: str, gpus: int, units_per_s: Sequence[float]) -> Observed:
    """What was observed on these GPUs, all in one node?

    Raises:
        InvalidInput: Nobody knows the GPU type, or there is no GPU.
    """
    gpu = GPU_TYPES.get(gpu_type)
    if gpu is None or gpus < 1:
        raise InvalidInput(
            "observed",
            "is on no known GPU",
            got=f"{gpus} x {gpu_type}",
            allowed=f"1 or more of {listed(GPU_TYPES)}",
            nearest=None if gpu else nearest_name(gpu_type, GPU_TYPES),
        )
    link = gpu.nvlink_gb_per_s or PCIE_GB_PER_S
    hardware = Hardware(gpu=gpu, gpus=gpus, link_gb_per_s=link)
    return Observed(hardware=hardware, units_per_s=units_per_s)


def _with_nodes(
    setting: Setting, offering: Offering, kind: InstanceType, gpu: GpuType, nodes: int
) -> Option | Refusal:
    gpus = kind.gpu_count * nodes
    fit = best_fit(setting.job, gpus, memory_mib(kind, gpu))
    if not fit.fits:
        return _too_little_memory(offering, fit, gpus)
    hardware = Hardware(
        gpu=gpu,
        gpus=gpus,
        gpu_share_milli=kind.gpu_share_milli,
        link_gb_per_s=_link_gb_per_s(kind, gpu, fit),
    )
    work = duration_of(fit.job, hardware, fit.division, _utilisation(setting, gpu))
    if work is None:
        return Refusal(
            key=offering.key,
            reason=Reason.UNKNOWN_NETWORK,
            summary=f"needs {nodes} nodes, and nobody knows how fast their network is",
        )
    return _option(setting, offering, kind, nodes, fit, work)


def _option(
    setting: Setting,
    offering: Offering,
    kind: InstanceType,
    nodes: int,
    fit: Fit,
    work: Duration,
) -> Option | Refusal:
    conditions, is_spot = setting.conditions, offering.key.capacity_type == SPOT
    rate = conditions.storage_gb_per_s * 1e9 * nodes
    saved = checkpoint_bytes(setting.job)
    load_s = setting.job.model.parameters * weight_bytes(setting.job) / rate
    begin_s = conditions.startup_s + load_s
    life_s = conditions.spot_mean_life_s
    save_s = max(saved / rate, _PROGRESS_MARK_S)
    factor = setting.overhead(save_s, begin_s + saved / rate, life_s) if is_spot else 1.0
    if math.isinf(factor):
        return Refusal(
            key=offering.key,
            reason=Reason.NEVER_ENDS,
            summary=f"a save takes {save_s:,.0f} s, and an instance lives {life_s:,.0f} s",
        )
    walls = [begin_s + s * factor for s in (work.low_s, work.likely_s, work.high_s)]
    computes = [_compute_micro_usd(offering, nodes, wall_s) for wall_s in walls]
    stored_gib = (setting.wishes.data_gib or 0) + (
        conditions.kept_checkpoints * saved / _BYTES_PER_GIB
    )
    return Option(
        key=offering.key,
        gpu_type=kind.gpu_type,
        nodes=nodes,
        gpus=kind.gpu_count * nodes,
        fit=fit,
        work=work,
        wall_low_s=walls[0],
        wall_s=walls[1],
        wall_high_s=walls[2],
        fallback_s=begin_s + work.high_s if is_spot else 0.0,
        overhead=factor,
        interruption_chance=interruption_chance(walls[1], life_s) if is_spot else 0.0,
        cost=Cost(
            compute_low=computes[0],
            compute=computes[1],
            compute_high=computes[2],
            storage=storage_micro_usd(setting.catalog, offering.key, stored_gib, walls[1]),
            transfer=transfer_micro_usd(setting.catalog, setting.wishes, offering.key),
        ),
    )


def memory_mib(kind: InstanceType, gpu: GpuType) -> int:
    """How much memory does a run see on each GPU of this instance type?"""
    if kind.gpu_memory_mib is not None:
        return kind.gpu_memory_mib
    return gpu.reported_memory_mib or gpu.memory_gib * _MIB_PER_GIB


def _utilisation(setting: Setting, gpu: GpuType) -> Utilisation:
    observed = setting.observed
    if observed is None:
        return prior(setting.job)
    then = observed.hardware
    reported = then.gpu.reported_memory_mib or then.gpu.memory_gib * _MIB_PER_GIB
    fit = best_fit(setting.job, then.gpus, reported)
    return learned(fit.job, observed, fit.division, gpu.name)


def _link_gb_per_s(kind: InstanceType, gpu: GpuType, fit: Fit) -> float | None:
    """The slowest link between GPUs that share a copy; None: there is none, or nobody knows."""
    inside = gpu.nvlink_gb_per_s or PCIE_GB_PER_S
    if fit.division.gpus <= kind.gpu_count:
        return inside
    return None if kind.network_gbps is None else min(inside, kind.network_gbps / 8)


def _compute_micro_usd(offering: Offering, nodes: int, wall_s: float) -> int:
    return round(offering.price.micro_usd_per_hour * nodes * wall_s / SECONDS_PER_HOUR)


def _not_there(offering: Offering) -> Refusal:
    if offering.is_offered:
        return Refusal(
            key=offering.key,
            reason=Reason.NO_SPOT_CAPACITY,
            summary="its price for spot is that for on-demand: there is no spot here",
        )
    seen = offering.price.seen_until.date().isoformat()
    return Refusal(
        key=offering.key, reason=Reason.NOT_OFFERED, summary=f"was offered last on {seen}"
    )


def _unknown_gpu(offering: Offering, kind: InstanceType) -> Refusal:
    nearest = nearest_name(kind.gpu_type, GPU_TYPES)
    hint = f"; did you mean {nearest!r}?" if nearest else ""
    return Refusal(
        key=offering.key,
        reason=Reason.UNKNOWN_GPU_TYPE,
        summary=f"nobody knows how fast a {kind.gpu_type} is{hint}",
    )


def _no_fast_units(offering: Offering, gpu: GpuType, precision: Precision) -> Refusal:
    has = ", ".join(str(known) for known in gpu.dense_tflops)
    return Refusal(
        key=offering.key,
        reason=Reason.NO_FAST_UNITS,
        summary=f"a {gpu.name} does not compute in {precision}; it does in {has}",
    )


def _too_little_memory(offering: Offering, fit: Fit, gpus: int) -> Refusal:
    needed, usable = (size / _BYTES_PER_GIB for size in (fit.memory.bytes, fit.usable_bytes))
    on = f"each of {gpus} GPUs" if gpus > 1 else "its GPU"
    return Refusal(
        key=offering.key,
        reason=Reason.TOO_LITTLE_MEMORY,
        summary=f"needs {needed:,.1f} GiB on {on}, and {usable:,.1f} GiB can be used",
        times_too_large=needed / usable,
    )
