"""How a place is chosen among several."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from gpu_core.decisions.model.section import PositiveDuration, Section


class Strategy(StrEnum):
    """Which node comes first among those where a workload fits. Equals go by name."""

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
    the CPU beside them stay usable together."""


class ConsolidationPolicy(Section):
    """Whether a few workloads move for a large one that would fit if the rest were in one piece.

    Only those move that are preemptible, have saved a checkpoint, have had their minimum run time
    and are no more urgent; each has a place on another node of the same kind.
    """

    enabled: bool = False
    waiting_s: PositiveDuration = Field(default=600, alias="waiting")
    """Only for whoever has waited for longer."""
    max_moves: Annotated[int, Field(ge=1, le=16)] = 2
    """So many workloads move at most."""
    min_gain: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 2.0
    """So many GPUs must be able to start for each GPU that moves."""


class PlacementPolicy(Section):
    """Where workloads go among the nodes that suit them."""

    strategy: Strategy = Field(default=Strategy.BEST_FIT, strict=False)
    consolidation: ConsolidationPolicy = ConsolidationPolicy()
