"""The sums over the samples of a GPU: no sample is kept."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.decisions.telemetry.samples import HIGHEST_W, GpuSample

BUSY_RATIO = 0.05
"""From this utilization on a GPU is busy: under 5% counts as idle in the field's tools."""

_PERCENTILE = 0.95

# Over a longer gap the power of its two ends says nothing about what lies between.
_LONGEST_GAP_S = 10.0

JOULES_PER_KWH = 3_600_000.0

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTotals:
    """The samples of one GPU so far. Begin with `GpuTotals(gpu_id=...)`."""

    gpu_id: str
    is_simulated: bool = False
    samples: int = 0
    utilization_counts: tuple[int, ...] = (0,) * 101
    """How many samples had 0%, 1%, ... 100%."""
    utilization_sum: float = 0.0
    busy: int = 0
    sm_active_sum: float = 0.0
    sm_active_samples: int = 0
    memory_used_max_bytes: int | None = None
    temperature_max_c: float | None = None
    energy_j: float | None = None
    counter_j: float | None = None
    """The device's energy counter when it was last known."""
    counter_at: datetime | None = None
    """The moment of its last change."""
    estimated_j: float = 0.0
    """The part of `energy_j` that is known by power only, as the counter has not changed since."""
    power_w: float | None = None
    at: datetime | None = None

    @property
    def utilization_samples(self) -> int:
        """How many samples had a utilization?"""
        return sum(self.utilization_counts)

    def with_sample(self, sample: GpuSample) -> "GpuTotals":
        """The totals with one more sample. One that is not later than the last changes nothing."""
        if sample.is_lost or (self.at is not None and sample.at <= self.at):
            return self
        totals = self._with_ratios(sample)._with_energy(sample)
        return replace(
            totals,
            samples=self.samples + 1,
            memory_used_max_bytes=_larger(self.memory_used_max_bytes, sample.memory_used_bytes),
            temperature_max_c=_larger(self.temperature_max_c, sample.temperature_c),
            power_w=sample.power_w,
            at=sample.at,
        )

    def _with_ratios(self, sample: GpuSample) -> "GpuTotals":
        totals = self
        ratio = sample.utilization_ratio
        if ratio is not None:
            counts = list(self.utilization_counts)
            counts[round(100 * ratio)] += 1
            totals = replace(
                totals,
                utilization_counts=tuple(counts),
                utilization_sum=self.utilization_sum + ratio,
                busy=self.busy + (ratio >= BUSY_RATIO),
            )
        if sample.sm_active_ratio is None:
            return totals
        return replace(
            totals,
            sm_active_sum=self.sm_active_sum + sample.sm_active_ratio,
            sm_active_samples=self.sm_active_samples + 1,
        )

    def _with_energy(self, sample: GpuSample) -> "GpuTotals":
        """By the device's counter; by its power where it has none, and until it changes.

        The counter is read less often than the power. What power said in between is replaced.
        """
        before, now = self.counter_j, sample.energy_j
        if now is None or now == before:
            used_j = self._energy_by_power_j(sample)
            if used_j is None:
                return self
            estimated_j = self.estimated_j + used_j
            return replace(self, energy_j=(self.energy_j or 0.0) + used_j, estimated_j=estimated_j)
        counted = replace(self, counter_j=now, counter_at=sample.at, estimated_j=0.0)
        if before is None or self.counter_at is None:
            return counted
        # A counter that ran backwards was set to zero, as by a new driver.
        used_j = now if now < before else now - before
        if used_j > HIGHEST_W * (sample.at - self.counter_at).total_seconds():
            # No GPU draws that much: one of the two readings is false.
            power_j = self._energy_by_power_j(sample)
            known_j = self.energy_j if power_j is None else (self.energy_j or 0.0) + power_j
            return replace(counted, energy_j=known_j)
        return replace(
            counted, energy_j=max(0.0, (self.energy_j or 0.0) + used_j - self.estimated_j)
        )

    def _energy_by_power_j(self, sample: GpuSample) -> float | None:
        if self.at is None or sample.power_w is None or self.power_w is None:
            return None
        gap_s = (sample.at - self.at).total_seconds()
        return None if gap_s > _LONGEST_GAP_S else gap_s * (sample.power_w + self.power_w) / 2

    def summary(self) -> GpuSummary | None:
        """The summary of the samples; None if there is none."""
        if not self.samples:
            return None
        known = self.utilization_samples
        active = self.sm_active_samples
        return GpuSummary(
            gpu_id=self.gpu_id,
            samples=self.samples,
            is_simulated=self.is_simulated,
            utilization_mean_ratio=self.utilization_sum / known if known else None,
            utilization_p95_ratio=_percentile(self.utilization_counts) if known else None,
            busy_ratio=self.busy / known if known else None,
            sm_active_mean_ratio=self.sm_active_sum / active if active else None,
            memory_used_max_bytes=self.memory_used_max_bytes,
            temperature_max_c=self.temperature_max_c,
            energy_j=self.energy_j,
        )


def _larger(before: Number | None, now: Number | None) -> Number | None:
    if before is None or now is None:
        return now if before is None else before
    return max(before, now)


def _percentile(counts: Sequence[int]) -> float:
    """The lowest hundredth that 95% of the samples are at or under."""
    total, below = sum(counts), 0
    for percent, number in enumerate(counts):
        below += number
        if below >= _PERCENTILE * total:
            return percent / 100
    raise ValueError("no samples are available")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUse:
    """The activity of several GPUs together: those of an attempt, or of all attempts of a run."""

    samples: int = 0
    is_simulated: bool = False
    """At least one of them is a virtual GPU."""
    utilization_mean_ratio: float | None = None
    utilization_p95_ratio: float | None = None
    """Of the busiest of them."""
    busy_ratio: float | None = None
    sm_active_mean_ratio: float | None = None
    energy_j: float | None = None
    """All together; None as soon as one is unknown."""

    @property
    def energy_kwh(self) -> float | None:
        """The energy in kilowatt-hours."""
        return None if self.energy_j is None else self.energy_j / JOULES_PER_KWH


def gpu_use(summaries: Iterable[GpuSummary]) -> GpuUse:
    """The use of several GPUs together. Means are weighted by samples; without any all is None."""
    found = tuple(summaries)
    p95 = [each.utilization_p95_ratio for each in found if each.utilization_p95_ratio is not None]
    return GpuUse(
        samples=sum(each.samples for each in found),
        is_simulated=any(each.is_simulated for each in found),
        utilization_mean_ratio=_mean(found, lambda each: each.utilization_mean_ratio),
        utilization_p95_ratio=max(p95, default=None),
        busy_ratio=_mean(found, lambda each: each.busy_ratio),
        sm_active_mean_ratio=_mean(found, lambda each: each.sm_active_mean_ratio),
        energy_j=_sum([each.energy_j for each in found]),
    )


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _mean(
    summaries: Sequence[GpuSummary], value: Callable[[GpuSummary], float | None]
) -> float | None:
    known = [(each.samples, of_gpu) for each in summaries if (of_gpu := value(each)) is not None]
    weight = sum(samples for samples, _ in known)
    return sum(samples * of_gpu for samples, of_gpu in known) / weight if weight else None
