"""The cost of an hour of a GPU, a CPU core and a GiB of memory, from one source at one time."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Prices of one source. Whole micro-USD per hour; None: unpriced, which is never free."""

    gpu_micro_usd_per_hour: int | None = None
    """Of a whole GPU; a part of a GPU costs that part."""
    cpu_micro_usd_per_hour: int | None = None
    """Of a CPU core. None with a price of GPUs: that price includes the rest of the machine."""
    gib_micro_usd_per_hour: int | None = None
    """Of a GiB of memory. None: as for CPU cores."""
    source: str
    """The source of the prices, as people read it: `policy`, `catalog: p4d.24xlarge use1-az4`."""
    as_of: datetime | None = None
    """Since when the source has had these prices; None: it does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceChange:
    """Other prices for an attempt that holds its GPUs already."""

    since: datetime
    rates: Rates
