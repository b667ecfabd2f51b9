"""The plan of one cycle: commands, and one explanation per pending workload."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from gpu_core.decisions.model.cluster import Flavor, Placement
from gpu_core.decisions.model.reasons import Explanation


class Trigger(StrEnum):
    """The reason for which nodes should be added."""

    WAITING = "waiting"
    UTILIZATION = "utilization"
    QUEUED = "queued"
    CALENDAR = "calendar"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUp:
    """Add nodes of this flavor."""

    flavor: Flavor
    nodes: int
    """Nodes to add, at least 1."""
    target_nodes: int
    """The wanted number of nodes of the flavor; applying it twice has no further effect."""
    workload_ids: tuple[str, ...]
    """The workloads that need them, in queue order."""
    triggers: tuple[Trigger, ...]
    reason: str
    """One sentence with the numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleDown:
    """Remove this node: it is idle and no pending workload could use it."""

    node: str
    idle_since: datetime
    reason: str


ScaleHint = ScaleUp | ScaleDown


@dataclass(frozen=True, slots=True, kw_only=True)
class Admit:
    """Start the workload on these GPUs."""

    workload_id: str
    placement: Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Preempt:
    """Preempt this running workload for another one."""

    workload_id: str
    for_workload_id: str
    lost_gpu_s: int
    """What the victim has to repeat, in GPU-seconds: work that it does not save, and a restart."""
    lost_micro_usd: int | None
    """The same in money; None where a GPU is unpriced."""
    moves_to: Placement | None = None
    """The new placement of a workload that consolidation moves; None: it has none."""


Command = Admit | Preempt | ScaleHint


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The result of one planning cycle. It does not depend on the order of the input."""

    commands: tuple[Command, ...]
    """Starts and preemptions in the order of the decisions, then hints about scale."""
    explanations: Sequence[Explanation]
    """One for each pending workload, in queue order. Each is made when it is read."""
