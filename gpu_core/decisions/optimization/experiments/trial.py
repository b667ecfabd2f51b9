"""One configuration of inference, with what its repeats measured and what they cost."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpu_core.decisions.catalog.gpu_types import Precision
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.units import MICRO_USD_PER_USD, SECONDS_PER_HOUR

_COUNTED = 1_000


class Origin(StrEnum):
    """The origin of a number."""

    MEASURED = "measured"
    PROJECTED = "projected"
    """By the estimates of `requirements.duration`: nothing ran."""
    COMPUTED = "computed"
    """By a simulation with measured times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The setting that is varied."""

    device: str
    """A GPU type, or `cpu`."""
    batch_size: int
    precision: Precision
    processes: int = 1
    """That use the device at the same time."""

    def __str__(self) -> str:
        """As people read it: `t4, fp16, batch 8`."""
        shared = f", {self.processes} processes" if self.processes > 1 else ""
        return f"{self.device}, {self.precision}, batch {self.batch_size}{shared}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """One measurement of a configuration."""

    inferences_per_s: float
    """Of all its processes together."""
    p99_s: float
    """The latency that 99 of 100 inferences do not exceed: from a batch's start to its end."""
    quality: float | None = None
    """Such as the accuracy, 0 to 1; None: not measured."""
    batches_s: tuple[float, ...] = ()
    """How long each batch took, in the order in which they ran; empty: not kept."""

    def __post_init__(self) -> None:
        """Refuse what no measurement gives."""
        for name in ("inferences_per_s", "p99_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise InvalidInput(name, "is no measurement", got=value, allowed="more than 0")
        if self.quality is not None and not math.isfinite(self.quality):
            raise InvalidInput("quality", "is no measurement", got=self.quality, allowed="a number")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """The work of one process in a repeat."""

    batch_size: int
    batches_s: tuple[float, ...]
    """How long each batch took, one at least."""
    took_s: float
    """From the start of the first batch to the end of the last one."""
    quality: float | None = None


def p99_of(latencies_s: Sequence[float]) -> float:
    """The latency that 99 of 100 do not exceed, by nearest rank.

    Args:
        latencies_s: One at least, in any order; of fewer than 100 it is the slowest one.
    """
    return sorted(latencies_s)[math.ceil(0.99 * len(latencies_s)) - 1]


def repeat_of(processes: Sequence[Timed]) -> Repeat:
    """The repeat of processes that worked at the same time, one at least."""
    batches_s = tuple(taken for each in processes for taken in each.batches_s)
    qualities = [each.quality for each in processes if each.quality is not None]
    is_known = len(qualities) == len(processes)
    return Repeat(
        inferences_per_s=sum(len(p.batches_s) * p.batch_size / p.took_s for p in processes),
        p99_s=p99_of(batches_s),
        quality=math.fsum(qualities) / len(qualities) if is_known else None,
        batches_s=batches_s,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A configuration that was measured."""

    setting: Setting
    micro_usd_per_hour: int
    """Of the device."""
    repeats: tuple[Repeat, ...]
    """One at least."""

    def __post_init__(self) -> None:
        """Refuse what was not measured."""
        if not self.repeats:
            raise InvalidInput("repeats", "are missing", got=0, allowed="1 or more")

    @property
    def usd_per_1k(self) -> tuple[float, ...]:
        """The cost of 1,000 inferences in each repeat, on a device that is never idle."""
        return tuple(
            usd_per_1k(self.micro_usd_per_hour, each.inferences_per_s) for each in self.repeats
        )

    @property
    def p99_s(self) -> tuple[float, ...]:
        """The latency of each repeat."""
        return tuple(each.p99_s for each in self.repeats)

    @property
    def quality(self) -> tuple[float, ...] | None:
        """The quality of each repeat; None: one has none."""
        known = tuple(each.quality for each in self.repeats if each.quality is not None)
        return known if len(known) == len(self.repeats) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The measurements of one device."""

    device: str
    what: str
    """The workload in a few words."""
    trials: tuple[Trial, ...]
    not_run: tuple[tuple[Setting, str], ...]
    """Configurations that the device does not have, each with the reason."""


def usd_per_1k(micro_usd_per_hour: int, inferences_per_s: float) -> float:
    """The cost of 1,000 inferences on a device that is never idle, in USD.

    Args:
        micro_usd_per_hour: The price of the device, 0 or more.
        inferences_per_s: Over 0.

    >>> usd_per_1k(3_600_000, 100.0)
    0.01
    """
    usd_per_s = micro_usd_per_hour / MICRO_USD_PER_USD / SECONDS_PER_HOUR
    return usd_per_s * _COUNTED / inferences_per_s
