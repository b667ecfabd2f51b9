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
    """The one with the most free GPUs (worst fit), so that the fewest neighbors share a node."""
    FRAGMENTATION_AWARE = "fragmentation-aware"
    """The one whose room loses the least worth to what waits and runs now: GPUs, parts of them and
    the CPU of the same node stay usable together."""


class ConsolidationPolicy(Section):
    """Settings that control whether small runs are moved to make room for a large run. A run can
    only be moved if it is preemptible, does not have a higher priority, and fits on another node of
    the same kind. The run must also have saved a checkpoint and completed its minimum run time.
    """

    enabled: bool = False
    """Whether to enable consolidation."""
    waiting_s: PositiveDuration = Field(default=600, alias="waiting")
    """How long a large run must wait before other runs are moved."""
    max_moves: Annotated[int, Field(ge=1, le=16)] = 2
    """The maximum number of runs that can be moved at the same time."""
    min_gain: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 2.0
    """The minimum number of GPUs that must be able to start for each GPU that is moved."""


class PlacementPolicy(Section):
    """Settings that control which node is selected if a run fits on several nodes."""

    strategy: Strategy = Field(default=Strategy.BEST_FIT, strict=False)
    """The placement strategy. `best-fit` selects the node with the fewest GPUs remaining.
    `least-loaded` selects the node with the smallest fraction in use. `round-robin` selects the
    node with the fewest runs. `spread` selects the node with the most free GPUs.
    `fragmentation-aware` selects the node for which the remaining GPUs stay most useful to the runs
    that are currently waiting or running."""
    consolidation: ConsolidationPolicy = ConsolidationPolicy()
