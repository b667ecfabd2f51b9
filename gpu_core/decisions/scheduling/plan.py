"""What the scheduler decided, and why: commands to apply, and one explanation per workload."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from gpu_core.decisions.model.cluster import Flavor, Placement
from gpu_core.decisions.model.reasons import Explanation


class Trigger(StrEnum):
    """Why nodes should come."""

    WAITING = "waiting"
    UTILISATION = "utilisation"
    QUEUED = "queued"
    CALENDAR = "calendar"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUp:
    """There should be more nodes of this flavor."""

    flavor: Flavor
    nodes: int
    """Nodes to add, at least 1."""
    target_nodes: int
    """Nodes of the flavor there should then be: what a provisioner acts on, any number of times."""
    workload_ids: tuple[str, ...]
    """Who waits for them, in the order of the line."""
    triggers: tuple[Trigger, ...]
    reason: str
    """One sentence with the numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleDown:
    """This node may go: nothing runs on it and nobody waits for it."""

    node: str
    idle_since: datetime
    reason: str


ScaleHint = ScaleUp | ScaleDown


@dataclass(frozen=True, slots=True, kw_only=True)
class Admit:
    """Give the workload these GPUs and start it."""

    workload_id: str
    placement: Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Preempt:
    """Take the GPUs of this running workload for another one."""

    workload_id: str
    for_workload_id: str
    lost_gpu_s: int
    """Work since the last checkpoint, in GPU-seconds: what the victim has to do again."""
    lost_micro_usd: int | None
    """The same in money; None where a GPU is unpriced."""
    moves_to: Placement | None = None
    """Where there is room for it to start again: it was only in the way. None: nowhere is known."""


Command = Admit | Preempt | ScaleHint


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The outcome of one planning cycle. The same for any order of its input."""

    commands: tuple[Command, ...]
    """Who starts and who is preempted, in the order in which that was decided, then what is said
    about scale."""
    explanations: Sequence[Explanation]
    """One for each pending workload, in the order of the line. Each is made when it is read."""
