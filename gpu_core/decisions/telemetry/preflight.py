"""May a GPU that was held be used again? What was checked of it, and what was not."""

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_core.decisions.model.errors import sentences
from gpu_core.decisions.model.units import count
from gpu_core.decisions.telemetry.health import HOT_SAMPLES, GpuHealth, HealthFinding
from gpu_core.decisions.telemetry.samples import GpuSample

NEEDED_SAMPLES = HOT_SAMPLES
"""As many as the condition needs that needs most of them in a row."""

_GIB = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class Computation:
    """The result of a small computation on a GPU."""

    library: str | None = None
    """The library that computed; None: none did."""
    compared_bytes: int = 0
    """Memory that was written, copied and compared."""
    fault: str | None = None
    """The fault, as a clause; None: there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPreflight:
    """The checks of one GPU."""

    samples: int
    finding: HealthFinding | None
    """The fault that the driver's facts show; None: they show none."""
    computation: Computation

    @property
    def has_passed(self) -> bool:
        """Did it pass all checks? What was not checked has not passed."""
        computed = self.computation.library is not None and self.computation.fault is None
        return computed and self.finding is None and self.samples >= NEEDED_SAMPLES

    @property
    def lines(self) -> list[str]:
        """The checks with their results, and those that were not made, a line each."""
        return [self._facts, self._computed]

    @property
    def _facts(self) -> str:
        what = "errors, rows of memory, temperature and XID errors"
        if self.finding is not None:
            return sentences(f"Driver: {self.finding.reason}", self.finding.remedy)
        if self.samples < NEEDED_SAMPLES:
            return f"Driver check skipped: {self.samples} of {NEEDED_SAMPLES} samples received."
        return f"Driver: {what} are well in {count(self.samples, 'sample')}."

    @property
    def _computed(self) -> str:
        of = self.computation
        if of.fault is not None:
            return f"Computation: {of.fault}."
        if of.library is None:
            return "Computation check skipped: neither PyTorch nor CuPy is installed."
        gib = of.compared_bytes / _GIB
        return (
            f"Computation: {gib:.1f} GiB of memory and a matrix multiplication were "
            f"verified ({of.library})."
        )


def preflight(gpu_id: str, samples: Sequence[GpuSample], computation: Computation) -> GpuPreflight:
    """The checks of a GPU: what its samples and its computation show.

    Args:
        gpu_id: The GPU.
        samples: Of it, the first one from before the computation and all others from after it.
        computation: What it computed.
    """
    health = GpuHealth(gpu_id=gpu_id)
    for sample in samples:
        health = health.with_sample(sample)
    return GpuPreflight(samples=len(samples), finding=health.finding, computation=computation)
