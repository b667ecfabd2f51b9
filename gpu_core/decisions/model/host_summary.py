"""The CPU and memory that a run's processes used: a few numbers that are kept permanently."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSummary:
    """Over all samples of one attempt, of its process and all that this started. None: unknown."""

    samples: int
    """How many samples there are, 1 or more; about one every ten seconds."""
    cores_mean: float | None = None
    """Mean processor cores in use."""
    cores_max: float | None = None
    """The most, over the seconds between two samples."""
    memory_max_bytes: int | None = None
    """The most memory at once; what processes share counts once."""
