"""How a place is chosen among several."""

from enum import StrEnum

from pydantic import Field

from gpu_core.decisions.policy_base import Section


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


class PlacementPolicy(Section):
    """Where workloads go among the nodes that suit them."""

    strategy: Strategy = Field(default=Strategy.BEST_FIT, strict=False)
