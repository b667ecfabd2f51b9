"""The need of a job for a GPU: whether CPUs are good enough."""

from dataclasses import dataclass

from gpu_core.decisions.model.units import format_duration
from gpu_core.decisions.requests.requirements.estimates.duration import flop_per_unit
from gpu_core.decisions.requests.requirements.jobs.job import Job

CPU_TFLOPS = 0.2
"""The speed of 8 virtual CPUs: a third of 4 cores x 2.5 GHz x 64 operations (AVX-512 in fp32)."""

SHORT_S = 900
"""A CPU finishes a job of this length before a GPU machine has started and loaded."""

_YEAR_S = 365 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuAnswer:
    """The time that 8 virtual CPUs take, and whether that is good enough."""

    duration_s: float
    needs_gpu: bool
    why: str


def cpu_answer(job: Job) -> CpuAnswer:
    """Does the job need a GPU?"""
    duration_s = job.amount * flop_per_unit(job) / (CPU_TFLOPS * 1e12)
    needs_gpu = duration_s > SHORT_S
    takes = format_duration(duration_s) if duration_s < _YEAR_S else "more than a year"
    verdict = "required" if needs_gpu else "not required"
    return CpuAnswer(
        duration_s=duration_s,
        needs_gpu=needs_gpu,
        why=f"{verdict}, because the work takes {takes} on 8 CPUs",
    )
