"""The moment since when a run is quiet, folded from its samples one by one: none is kept.

Each signal is quiet since the first of its last samples that are all known and under its threshold.
A sample without the signal begins that anew: what is unknown is never taken for quiet.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from gpu_core.decisions.telemetry.samples import GpuSample
from gpu_core.decisions.telemetry.summary import BUSY_RATIO

ACTIVE_POWER_RATIO = 0.35
"""Part of the power limit. gpu-pruner takes an A10G (limit 300 W) for active from 100 W on and an
A100 (400 W) from 150 W on, that is 33 and 38%; without work and with a context they draw less."""

ACTIVE_CORES = 0.05
"""Processor cores of the run. A Prefect engine that waits uses about 0.01 for its heartbeats."""

ACTIVE_BYTES_PER_S = 1_000_000.0
"""Bytes that the run reads and writes, from files and pipes: logs and heartbeats are far below."""

LONGEST_GAP = timedelta(seconds=120)
"""Between two samples: twice the longest interval that a sampler can be set to. After a longer gap
nothing counts as quiet that was before it."""

# A CUDA context takes some hundred MiB.
_TOUCHED_BYTES = 100 * 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """The state of one signal so far. Begin with `Signal()`: it was never known."""

    value: float | None = None
    """In the last sample; None: unknown."""
    quiet_since: datetime | None = None
    """Since when it is known and quiet; None: it is active, or unknown."""
    is_known: bool = False
    """Whether any sample had it: a device without it is not waited for."""

    def observed(self, value: float | None, active_from: float, at: datetime) -> "Signal":
        """With one more value. None, and NaN too, is not quiet."""
        if value is None:
            return replace(self, value=None, quiet_since=None)
        is_quiet = 0 <= value < active_from
        since = (self.quiet_since or at) if is_quiet else None
        return Signal(value=value, quiet_since=since, is_known=True)


def quiet_since(signals: Iterable[Signal]) -> datetime | None:
    """The moment since when all known signals are quiet; None: one is not, or none is known."""
    moments = [signal.quiet_since for signal in signals if signal.is_known]
    known = [moment for moment in moments if moment is not None]
    return max(known) if known and len(known) == len(moments) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuActivity:
    """The recent activity of one GPU of a run. Begin with `GpuActivity(gpu_id=...)`."""

    gpu_id: str
    utilization: Signal = Signal()
    sm_active: Signal = Signal()
    power: Signal = Signal()
    """As a part of its limit."""
    memory_used_bytes: int | None = None
    memory_lowest_bytes: int | None = None
    """The least that was in use: what the driver takes for itself."""
    was_touched: bool = False
    """Whether any process computed on it, or took memory, at any time."""

    @property
    def quiet_since(self) -> datetime | None:
        """The moment since when the GPU is quiet.

        None: it is not, or it is unknown whether kernels run.
        """
        if not (self.utilization.is_known or self.sm_active.is_known):
            return None
        return quiet_since((self.utilization, self.sm_active, self.power))

    def with_sample(self, sample: GpuSample | None, at: datetime) -> "GpuActivity":
        """With one more sample; None, or a GPU that is lost: nothing is known of this moment."""
        if sample is None or sample.is_lost:
            sample = GpuSample(gpu_id=self.gpu_id, at=at)
        used, lowest = sample.memory_used_bytes, self.memory_lowest_bytes
        if used is not None:
            lowest = used if lowest is None else min(lowest, used)
        activity = replace(
            self,
            utilization=self.utilization.observed(sample.utilization_ratio, BUSY_RATIO, at),
            sm_active=self.sm_active.observed(sample.sm_active_ratio, BUSY_RATIO, at),
            power=self.power.observed(_power_ratio(sample), ACTIVE_POWER_RATIO, at),
            memory_used_bytes=used,
            memory_lowest_bytes=lowest,
        )
        has_memory = used is not None and lowest is not None and used - lowest >= _TOUCHED_BYTES
        is_touched = has_memory or bool(sample.process_ids) or activity._computes()
        return replace(activity, was_touched=self.was_touched or is_touched)

    def _computes(self) -> bool:
        values = (self.utilization.value, self.sm_active.value)
        return any(value is not None and value >= BUSY_RATIO for value in values)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunActivity:
    """The recent activity of all GPUs of an attempt, and of its processes."""

    began_at: datetime
    at: datetime
    """Of the last sample."""
    gpus: tuple[GpuActivity, ...]
    cores: Signal = Signal()
    """Processor cores that the run uses."""
    io_bytes_per_s: Signal = Signal()
    """The bytes that it reads and writes."""

    @classmethod
    def of(
        cls, gpu_ids: Iterable[str], began_at: datetime, *, has_host: bool = False
    ) -> "RunActivity":
        """Of an attempt that begins with these GPUs.

        Args:
            gpu_ids: By UUID.
            began_at: Aware.
            has_host: Its processes are read too: they are not quiet until that is known.
        """
        gpus = tuple(GpuActivity(gpu_id=gpu_id) for gpu_id in gpu_ids)
        return cls(began_at=began_at, at=began_at, gpus=gpus, cores=Signal(is_known=has_host))

    @property
    def host_quiet_since(self) -> datetime | None:
        """The moment since when its processes do nothing; None: they work, or that is unknown."""
        return quiet_since((self.cores, self.io_bytes_per_s))

    @property
    def is_host_known(self) -> bool:
        """Was it ever known what its processes do?"""
        return self.cores.is_known or self.io_bytes_per_s.is_known

    def with_samples(
        self,
        samples: Mapping[str, GpuSample],
        at: datetime,
        *,
        cores: float | None = None,
        io_bytes_per_s: float | None = None,
    ) -> "RunActivity":
        """With the samples of one moment, by GPU id. One that is not later changes nothing."""
        if at <= self.at:
            return self
        if at - self.at > LONGEST_GAP:
            return self._observed({}, at, None, None)._observed(samples, at, cores, io_bytes_per_s)
        return self._observed(samples, at, cores, io_bytes_per_s)

    def _observed(
        self,
        samples: Mapping[str, GpuSample],
        at: datetime,
        cores: float | None,
        io_bytes_per_s: float | None,
    ) -> "RunActivity":
        return replace(
            self,
            at=at,
            gpus=tuple(gpu.with_sample(samples.get(gpu.gpu_id), at) for gpu in self.gpus),
            cores=self.cores.observed(cores, ACTIVE_CORES, at),
            io_bytes_per_s=self.io_bytes_per_s.observed(io_bytes_per_s, ACTIVE_BYTES_PER_S, at),
        )


def _power_ratio(sample: GpuSample) -> float | None:
    if sample.power_w is None or not sample.power_limit_w:
        return None
    return sample.power_w / sample.power_limit_w
