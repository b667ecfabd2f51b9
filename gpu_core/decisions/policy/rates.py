"""Policy section `rates`: your own prices of a GPU, a CPU core and a GiB of memory."""

from collections.abc import Mapping

from pydantic import Field

from gpu_core.decisions.model.section import Name, PriceMicroUsd, Section


class CapacityRates(Section):
    """The hourly prices of one capacity type, in USD."""

    gpu: Mapping[Name, PriceMicroUsd] = Field(default={})
    """The price of a whole GPU, by GPU type. If a run uses a part of a GPU, only that part of the
    price is charged."""
    cpu_core: PriceMicroUsd | None = None
    """The price of each CPU core that a run requests. If not set, CPU cores are included in the
    price of the GPU."""
    memory_gib: PriceMicroUsd | None = None
    """The price of each GiB of memory that a run requests. If not set, memory is included in the
    price of the GPU."""
