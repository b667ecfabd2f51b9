"""The choice of a place among several."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from gpu_core.decisions.model.section import PositiveDuration, Section


class Strategy(StrEnum):
    """The order of the nodes where a workload fits. Equals go by name."""

    BEST_FIT = "best-fit"
    """The one with the fewest free GPUs left over, so that whole nodes stay whole."""
    LEAST_LOADED = "least-loaded"
    """The one that has the smallest part of its GPUs in use."""
    ROUND_ROBIN = "round-robin"
    """The one with the fewest workloads on it now: all get one before any gets a second."""
    SPREAD = "spread"
    """The one with the most free GPUs (worst fit), so that the fewest neighbours share a node."""
    FRAGMENTATION_AWARE = "fragmentation-aware"
    """The one whose room loses the least worth to what waits and runs now: GPUs, parts of them and
    the CPU of the same node stay usable together."""


class ConsolidationPolicy(Section):
    """Whether small runs move so that a large run fits.

    A run moves only if it is preemptible, has no higher priority, and fits on another node of the
    same kind. It must also have saved a checkpoint and have run for its minimum run time.
    """

    enabled: bool = False
    """Whether runs move."""
    waiting_s: PositiveDuration = Field(default=600, alias="waiting")
    """How long the large run has waited before others move for it."""
    max_moves: Annotated[int, Field(ge=1, le=16)] = 2
    """The largest number of runs that move at once."""
    min_gain: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 2.0
    """The number of GPUs that start for each GPU that moves, at least."""


class PlacementPolicy(Section):
    """The choice among the nodes that fit a run."""

    strategy: Strategy = Field(default=Strategy.BEST_FIT, strict=False)
    """`best-fit`: the fewest free GPUs left over. `least-loaded`: the smallest fraction in use.
    `round-robin`: the fewest runs. `spread`: the most free GPUs. `fragmentation-aware`: what is
    left stays most useful to the runs that wait and run now."""
    consolidation: ConsolidationPolicy = ConsolidationPolicy()
