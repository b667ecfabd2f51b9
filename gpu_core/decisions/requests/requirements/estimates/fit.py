"""On how many GPUs a job fits, and what has to be divided between them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpu_core.decisions.requests.requirements.estimates.memory import (
    USABLE_FRACTION,
    WHOLE,
    Division,
    Memory,
    memory_per_gpu,
)
from gpu_core.decisions.requests.requirements.jobs.job import Job, Recompute

_BYTES_PER_MIB = 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The fit of a job on some GPUs."""

    job: Job
    """With what was left open decided."""
    division: Division
    memory: Memory
    usable_bytes: int
    """Of each GPU."""

    @property
    def fits(self) -> bool:
        """Is there room for it?"""
        return self.memory.bytes <= self.usable_bytes


def best_fit(job: Job, gpus: int, gpu_memory_mib: int) -> Fit:
    """The best division of the job over these GPUs: as little as fits, else as much as possible.

    Dividing more costs communication, and recomputing a third more arithmetic: each is done only
    where it is needed, and recomputing last.

    Args:
        job: What is to be done; a ZeRO stage or a recomputing that it states is kept.
        gpus: 1 or more.
    """
    usable = int(gpu_memory_mib * _BYTES_PER_MIB * USABLE_FRACTION)
    fits = [
        Fit(
            job=decided,
            division=division,
            memory=memory_per_gpu(decided, division),
            usable_bytes=usable,
        )
        for decided in _decided(job)
        for division in _divisions(decided, gpus)
    ]
    return next((fit for fit in fits if fit.fits), fits[-1])


def least_gpus(job: Job, gpu_memory_mib: int, most_gpus: int) -> Fit | None:
    """The fit of the job on the fewest GPUs of this memory; None: it does not even fit on the most.

    Args:
        most_gpus: Powers of two up to here are tried.
    """
    for gpus in powers_of_two(most_gpus):
        fit = best_fit(job, gpus, gpu_memory_mib)
        if fit.fits:
            return fit
    return None


def _decided(job: Job) -> tuple[Job, ...]:
    if job.recompute is not None or not (job.method.is_training and job.model.is_language_model):
        return (job,)
    return tuple(replace(job, recompute=r) for r in (Recompute.SELECTIVE, Recompute.FULL))


def _divisions(job: Job, gpus: int) -> Iterator[Division]:
    """From the one that exchanges least to the one that takes least memory."""
    if not job.method.is_training:
        yield from (Division(gpus=n) for n in powers_of_two(gpus))
    elif gpus == 1:
        yield WHOLE
    else:
        stages = range(4) if job.zero_stage is None else (job.zero_stage,)
        yield from (Division(gpus=gpus, zero_stage=stage) for stage in stages)


def powers_of_two(most: int) -> Iterator[int]:
    """1, 2, 4 and so on, up to `most`."""
    number = 1
    while number <= most:
        yield number
        number *= 2
