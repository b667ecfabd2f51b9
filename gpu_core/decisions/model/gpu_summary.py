"""The activity of one GPU in one attempt: a few numbers that are kept permanently."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSummary:
    """Over all samples of one GPU during one attempt. Ratios are 0 to 1; None: unknown."""

    gpu_id: str
    samples: int
    """How many samples there are, 1 or more; about one a second."""
    is_simulated: bool = False
    """Of a virtual GPU: made up from the processor time of the run, never measured."""
    utilization_mean_ratio: float | None = None
    """Mean part of the time in which a kernel ran."""
    utilization_p95_ratio: float | None = None
    """95% of the samples are at or under it, to the hundredth."""
    busy_ratio: float | None = None
    """Part of the samples in which the GPU was busy."""
    sm_active_mean_ratio: float | None = None
    """Mean part of the multiprocessors that worked; GPUs from Hopper on."""
    memory_used_max_bytes: int | None = None
    temperature_max_c: float | None = None
    energy_j: float | None = None
    """Joules from the first sample to the last."""
