"""The time that a job takes, from its operations and the hardware's limits, or its own history.

The slowest of three limits counts: arithmetic, memory bandwidth and communication, which overlap
(a roofline; Williams et al. 2009). Of its peak a part is reached, the utilization.

Sources: 6 operations for each parameter and token of training, 2 for inference, 2 more with full
recomputing: Kaplan et al. 2020, section 2.1; Narayanan et al. 2021, section 5.1. Communication:
Rajbhandari et al. 2020, section 7.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import quantiles

from gpu_core.decisions.catalog.gpu_types import GpuType
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI
from gpu_core.decisions.requests.requirements.estimates.memory import (
    Division,
    kv_bytes_per_token,
    trained_parameters,
    weight_bytes,
)
from gpu_core.decisions.requests.requirements.jobs.job import Job, Method, Recompute
from gpu_core.decisions.requests.requirements.jobs.models import AUDIO

PCIE_GB_PER_S = 32.0
"""Between GPUs without NVLink: what PCIe 4.0 x16 can do in one direction at most."""

_OTHER_GPU_TYPE_FACTOR = 1.3
"""How far the utilization of one GPU type is thought to be from that of another, either way.
Careful methods are 12% off (Habitat, Yu et al. 2021); this is a crude one."""


class Basis(StrEnum):
    """The basis of an estimate."""

    PRIOR = "prior"
    """The value that is usual for such jobs."""
    OBSERVED = "observed"
    """Earlier runs of the same deployment on the same GPU type."""
    TRANSFERRED = "transferred"
    """Earlier runs of the same deployment on another GPU type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Utilization:
    """The reached part of the limiting peak (for arithmetic: the MFU), with its bounds."""

    low: float
    likely: float
    high: float
    basis: Basis = Basis.PRIOR


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """The hardware that a job runs on."""

    gpu: GpuType
    gpus: int
    """Over all nodes."""
    gpu_share_milli: int = WHOLE_GPU_MILLI
    link_gb_per_s: float | None = None
    """The slowest link that the GPUs exchange over. None: there is one GPU, or it is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Duration:
    """The duration of the work without interruption, in seconds."""

    low_s: float
    likely_s: float
    high_s: float
    limit: str
    """Its bottleneck: `arithmetic`, `memory bandwidth` or `communication`."""
    basis: Basis


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedThroughput:
    """The throughput of earlier runs of the same deployment."""

    hardware: Hardware
    units_per_s: Sequence[float]
    """Tokens, prompts or images per second, as the job counts them; one number for each run."""


# Low, likely, high. Full training: 46% for PaLM (Chowdhery et al. 2022, table 3), 44 to 52% for
# Megatron-LM (Narayanan et al. 2021, table 1), with 30% below for less polished code. The others
# are estimates of ours: adapters make matrices small, 4-bit weights are unpacked first, and
# images often wait for their decoding on the CPU.
_PRIORS = {
    Method.FULL: (0.30, 0.40, 0.50),
    Method.LORA: (0.20, 0.35, 0.45),
    Method.QLORA: (0.15, 0.25, 0.35),
    Method.INFERENCE: (0.30, 0.45, 0.60),
}
_VISION_PRIORS = {True: (0.15, 0.30, 0.45), False: (0.05, 0.20, 0.40)}
# Speech is written token by token: Whisper large-v3 in batches of 24 transcribes 92 s of audio in
# each second on an A100, 2.3% of its peak (README of insanely-fast-whisper, 2024).
_SPEECH_PRIORS = {True: (0.10, 0.20, 0.35), False: (0.01, 0.023, 0.08)}
# Each step of diffusion is one large batch of convolutions and attention, without decoding.
_DIFFUSION_PRIORS = {True: (0.15, 0.30, 0.45), False: (0.20, 0.35, 0.50)}


def prior(job: Job) -> Utilization:
    """The part of the peak that is usual for such a job."""
    low, likely, high = _usual_bounds(job)
    return Utilization(low=low, likely=likely, high=high)


def _usual_bounds(job: Job) -> tuple[float, float, float]:
    model, is_training = job.model, job.method.is_training
    if model.is_language_model:
        return _PRIORS[job.method]
    if model.sample == AUDIO:
        return _SPEECH_PRIORS[is_training]
    if model.denoising_steps > 1:
        return _DIFFUSION_PRIORS[is_training]
    return _VISION_PRIORS[is_training]


def flop_per_unit(job: Job) -> float:
    """How many operations does one token, prompt or other sample of the job take?"""
    forward = job.model.forward_flop_per_sample
    if forward is not None:
        return forward * (3 if job.method.is_training else job.model.passes_per_sample)
    parameters = job.model.computed_parameters
    if not job.method.is_training:
        return 2.0 * parameters * job.sequence_length
    # Adapters: no gradient is computed for the frozen weights, which saves 2 of the 6.
    per_parameter = 6 if job.method is Method.FULL else 4
    again = 2 if job.recompute is Recompute.FULL else 0
    return float(parameters * (per_parameter + again))


def duration_of(
    job: Job, hardware: Hardware, division: Division, utilization: Utilization
) -> Duration | None:
    """How long does the job take on this hardware? None: the chip cannot compute so, or
    the connection of its GPUs is unknown.

    Args:
        division: What the GPUs divide between them; decides how much they exchange.
        utilization: Which part of the peak is reached.
    """
    limits = _limits_s(job, hardware, division)
    if limits is None:
        return None
    limit = max(limits, key=lambda name: limits[name])
    return Duration(
        low_s=limits[limit] / utilization.high,
        likely_s=limits[limit] / utilization.likely,
        high_s=limits[limit] / utilization.low,
        limit=limit,
        basis=utilization.basis,
    )


def learned(
    job: Job, observed: ObservedThroughput, division: Division, gpu_type: str
) -> Utilization:
    """The part of the peak that this job reaches on a GPU type, by its own history.

    Args:
        division: What the GPUs divided between them then.
        gpu_type: Where it is to run; on another type than observed the bounds are wider.

    Raises:
        InvalidInput: There is no throughput, one is not above zero, or such a job cannot run
            where they were observed.
    """
    if not observed.units_per_s or min(observed.units_per_s) <= 0:
        raise InvalidInput(
            "observed",
            "is no throughput",
            got=list(observed.units_per_s),
            allowed=f"{job.unit} per second, more than 0",
        )
    limits = _limits_s(job, observed.hardware, division)
    if limits is None:
        raise InvalidInput(
            "observed",
            "cannot be of such a job",
            got=observed.hardware.gpu.name,
            remedy=f"name a GPU type that computes in {job.precision}",
        )
    at_peak_per_s = job.amount / max(limits.values())
    low, likely, high = _spread([speed / at_peak_per_s for speed in observed.units_per_s])
    if observed.hardware.gpu.name == gpu_type:
        return Utilization(low=low, likely=likely, high=high, basis=Basis.OBSERVED)
    return Utilization(
        low=low / _OTHER_GPU_TYPE_FACTOR,
        likely=likely,
        high=high * _OTHER_GPU_TYPE_FACTOR,
        basis=Basis.TRANSFERRED,
    )


def _spread(values: Sequence[float]) -> tuple[float, float, float]:
    """10%, half and 90% of the values; one alone stands for all three."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    tenths = quantiles(values, n=10, method="inclusive")
    return tenths[0], tenths[4], tenths[8]


def _limits_s(job: Job, hardware: Hardware, division: Division) -> dict[str, float] | None:
    """How long would the job take at the peak of each part of the hardware?"""
    tflops = hardware.gpu.tflops(job.precision)
    exchanged = _exchanged_bytes(job, division)
    if tflops is None or (exchanged and hardware.link_gb_per_s is None):
        return None
    gpus = hardware.gpus * hardware.gpu_share_milli / WHOLE_GPU_MILLI
    bandwidth = hardware.gpu.bandwidth_gb_per_s * 1e9 * gpus
    limits = {
        "arithmetic": job.amount * flop_per_unit(job) / (tflops * 1e12 * gpus),
        "memory bandwidth": _read_bytes(job) / bandwidth,
    }
    if hardware.link_gb_per_s is not None:
        # All GPUs exchange at once; the work of a copy is divided between the copies.
        copies = hardware.gpus if job.method.is_training else hardware.gpus / division.gpus
        limits["communication"] = exchanged / copies / (hardware.link_gb_per_s * 1e9)
    return limits


def _read_bytes(job: Job) -> float:
    """Writing an answer reads the weights and the cache once for each token of all sequences."""
    shape = job.model.shape
    if job.method.is_training or shape is None:
        return 0.0
    steps = job.amount * job.output_tokens / job.batch_per_gpu
    cache = kv_bytes_per_token(shape, job.precision) * job.sequence_length * job.batch_per_gpu
    return steps * (job.model.parameters * weight_bytes(job) + cache)


def _exchanged_bytes(job: Job, division: Division) -> float:
    """The bytes that one copy of the model sends over its slowest link, in the whole job.

    Training: the gradients are reduced and gathered at each update of the weights; stage 2 reduces
    them at each batch; stage 3 also gathers the weights there, forward and backward. Inference,
    each token: the hidden state twice in each layer, twice over the ring.
    """
    n = division.gpus
    if n == 1:
        return 0.0
    part = (n - 1) / n
    shape = job.model.shape
    if not job.method.is_training:
        if shape is None:
            return 0.0
        return job.amount * job.sequence_length * shape.layers * shape.hidden * 2 * 4 * part
    batches = job.amount / (job.batch_per_gpu * (job.sequence_length if shape is not None else 1))
    return batches * _exchanged_bytes_of_batch(job, division.zero_stage) * part


def _exchanged_bytes_of_batch(job: Job, zero_stage: int) -> float:
    gradients = trained_parameters(job) * 2.0
    match zero_stage:
        case 3:
            return 2 * job.model.parameters * weight_bytes(job) + gradients
        case 2:
            return gradients + gradients / job.accumulation
        case _:
            return 2 * gradients / job.accumulation
