"""The drivers that raise or lower a day's cost, and the amount of each."""

from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction


class Driver(StrEnum):
    """The driver that has changed. Stable: alerts match on it."""

    NEW = "New"
    """A deployment that the days before do not have."""
    STOPPED = "Stopped"
    """A deployment that only the days before have."""
    RUNS = "Runs"
    """The number of its runs."""
    RUN_TIME = "RunTime"
    """The time that a run works."""
    GPU_COUNT = "GpuCount"
    """The number of GPUs that a run holds."""
    IDLE = "Idle"
    """Held GPUs that were measured to be idle."""
    RETRIES = "Retries"
    """Work lost with failed attempts of runs that were tried again."""
    FAULTS = "Faults"
    """Work lost with runs that failed once."""
    INTERRUPTIONS = "Interruptions"
    """Work lost, and starts repeated, because GPUs were taken away."""
    NODE_WAIT = "NodeWait"
    """GPUs held before the process was created: a pod that waits, an image that is pulled."""
    PRICE = "Price"
    """The price of the same GPU type, capacity type and zone."""
    GPU_TYPE = "GpuType"
    """Another GPU type, at another price."""
    CAPACITY_TYPE = "CapacityType"
    """Spot or on-demand."""
    ZONE = "Zone"
    """Another zone, at another price."""
    CPU_AND_MEMORY = "CpuAndMemory"
    """CPU and memory with a price of their own, for each GPU-hour."""
    OTHER = "Other"
    """The part that the known runs do not explain."""


Number = int | Fraction
Level = str | Number | None
"""A value before or now: a name, or an amount; None: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostDriver:
    """One change, and what it costs exactly."""

    driver: Driver
    subject: str
    """A deployment; for prices and places a GPU type and capacity type."""
    exact_micro_usd: Number
    source: str
    """The deployment that it was found at."""
    before: Level = None
    now: Level = None

    def times(self, factor: Number) -> "CostDriver":
        """The same change at a multiple of its cost."""
        return replace(self, exact_micro_usd=self.exact_micro_usd * factor)
