"""The sums over the samples of a run's processes: no sample is kept."""

from dataclasses import dataclass, replace

from gpu_core.decisions.model.host_summary import HostSummary
from gpu_core.decisions.model.units import format_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTotals:
    """The samples so far. Begin with `HostTotals()`."""

    samples: int = 0
    cores_sum: float = 0.0
    cores_samples: int = 0
    cores_max: float | None = None
    memory_max_bytes: int | None = None

    def with_sample(self, cores: float | None, memory_bytes: int | None) -> "HostTotals":
        """The totals with one more sample; None: unknown, as the cores of the first one."""
        if cores is None and memory_bytes is None:
            return self
        totals = replace(self, samples=self.samples + 1)
        if cores is not None:
            totals = replace(
                totals,
                cores_sum=self.cores_sum + cores,
                cores_samples=self.cores_samples + 1,
                cores_max=max(cores, self.cores_max or 0.0),
            )
        if memory_bytes is None:
            return totals
        return replace(totals, memory_max_bytes=max(memory_bytes, self.memory_max_bytes or 0))

    def summary(self) -> HostSummary | None:
        """The summary of the samples; None if there is none."""
        if not self.samples:
            return None
        known = self.cores_samples
        return HostSummary(
            samples=self.samples,
            cores_mean=self.cores_sum / known if known else None,
            cores_max=self.cores_max,
            memory_max_bytes=self.memory_max_bytes,
        )


def host_text(summary: HostSummary) -> str:
    """The run's use of its machine, as a clause.

    >>> host_text(HostSummary(samples=1, cores_mean=3.96, memory_max_bytes=12_884_901_888))
    '4.0 cores on average, at most 12.0 GiB of memory'
    """
    cores, memory = summary.cores_mean, summary.memory_max_bytes
    parts = [
        None if cores is None else f"{cores:.1f} cores on average",
        None if memory is None else f"at most {format_bytes(memory)} of memory",
    ]
    return ", ".join(part for part in parts if part)
