"""The outcome of a replay: what became of each job and of the nodes."""

from dataclasses import dataclass

from gpu_core.decisions.model.cluster import Flavor
from gpu_core.decisions.simulation.cluster.nodes import NodeStay
from gpu_core.decisions.simulation.cluster.trace import TraceJob


@dataclass(frozen=True, slots=True)
class SimulatedAttempt:
    """One attempt: from its admission until its GPUs were free again."""

    start_s: float
    end_s: float
    lost_s: float
    """The time of it without progress: waiting for nodes, restarting, repeated work, leaving."""
    flavor: Flavor | None
    """None: it held no GPU."""
    stalled_s: float = 0.0
    """The time of it in which the job stood still for checkpoints."""
    was_interrupted: bool = False
    """It ended because a node went away under it."""
    nodes_came_after_s: float = 0.0
    """The time of it that was over when the last of its nodes was there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """The outcome of one job."""

    job: TraceJob
    attempts: tuple[SimulatedAttempt, ...]
    finished_s: float | None
    """The moment of its end. None: it never finished."""
    preemptions: int
    interruptions: int
    """The number of times that a node went away under it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """The outcome of a replay, one entry for each job, in the order of the trace."""

    outcomes: tuple[JobOutcome, ...]
    cycles: int
    """The number of times that the planner was asked."""
    node_stays: tuple[NodeStay, ...] = ()
    """The times at which nodes were there, or on their way."""
