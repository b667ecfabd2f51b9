"""Policy section `rates`: your own prices of a GPU, a CPU core and a GiB of memory."""

from collections.abc import Mapping

from pydantic import Field

from gpu_core.decisions.model.section import Name, PriceMicroUsd, Section


class CapacityRates(Section):
    """The prices of an hour on one capacity type, in USD."""

    gpu: Mapping[Name, PriceMicroUsd] = Field(default={})
    """Of a whole GPU, by GPU type; a part of a GPU costs that part."""
    cpu_core: PriceMicroUsd | None = None
    """Of a CPU core that a run requests; None: the price of a GPU includes it."""
    memory_gib: PriceMicroUsd | None = None
    """Of a GiB of memory that a run requests; None: the price of a GPU includes it."""
