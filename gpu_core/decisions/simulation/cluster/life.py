"""A job on its way through a replay: its attempts, and what they cost it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gpu_core.decisions.model.attempts import Attempt
from gpu_core.decisions.model.cluster import Allocation
from gpu_core.decisions.model.workload import RunTime, Workload
from gpu_core.decisions.simulation.cluster.outcomes import JobOutcome, SimulatedAttempt
from gpu_core.decisions.simulation.cluster.progress import attempt_s, progress
from gpu_core.decisions.simulation.cluster.trace import TraceJob


class SpentTime(NamedTuple):
    """The part of an attempt's time that did no work that counts."""

    lost_s: float
    stalled_s: float
    stopped_s: float
    """The moment at which it stopped working. The time for which it holds its GPUs after it is
    lost, too."""


@dataclass(slots=True)
class JobLife:
    """The attempts of one job so far, and what is left of its work."""

    job: TraceJob
    workload: Workload
    left_s: float
    run_time: RunTime | None
    attempt: int = 0
    started_s: float = 0.0
    begins_s: float = 0.0
    """The moment at which the attempt begins to work: its nodes are there, and it has restarted."""
    nodes_came_s: float = 0.0
    zone: str | None = None
    """The zone of the attempt's first node; None: not stated."""
    spent: SpentTime | None = None
    """Of the attempt that is draining; None: it is not."""
    allocation: Allocation | None = None
    finished_s: float | None = None
    preemptions: int = 0
    was_preempted: bool = False
    """Its last attempt that is over ended so: the next restart is a cost of it."""
    interruptions: int = 0
    attempts: list[SimulatedAttempt] = field(default_factory=list)
    earlier: list[Attempt] = field(default_factory=list)
    """The same as the ledger would have them."""

    @property
    def works_s(self) -> float:
        """How long will the attempt work, with its checkpoints?"""
        job = self.job
        return attempt_s(self.left_s, job.checkpoint_interval_s, job.checkpoint_stall_s)

    def notice_s(self, gone: Mapping[str, float]) -> float | None:
        """How long before did it get notice that a node of it goes? None: none goes.

        Args:
            gone: The notice of each node that goes, in seconds.
        """
        assert self.allocation is not None  # noqa: S101 - asked of those who run
        shares = self.allocation.placement.shares
        return min((gone[share.node] for share in shares if share.node in gone), default=None)

    def stop(self, now_s: float, notice_s: float = 0.0) -> SpentTime:
        """End an attempt's work: what is saved counts."""
        if self.spent is not None:
            return self.spent
        job = self.job
        reached = progress(
            now_s - self.begins_s, job.checkpoint_interval_s, job.checkpoint_stall_s, notice_s
        )
        self.left_s -= reached.saved_s
        begun_s = min(now_s, self.begins_s) - self.started_s
        return SpentTime(begun_s + reached.lost_s, reached.stalled_s, now_s)

    def end_attempt(self, now_s: float, spent: SpentTime, *, was_interrupted: bool) -> None:
        """Note the attempt that is over, and what it means for the next one."""
        assert self.allocation is not None  # noqa: S101 - only who holds GPUs leaves
        job = self.job
        self.attempts.append(
            SimulatedAttempt(
                self.started_s,
                now_s,
                spent.lost_s + now_s - spent.stopped_s,
                self.allocation.placement.flavor,
                spent.stalled_s,
                was_interrupted,
                min(now_s, self.nodes_came_s) - self.started_s,
            )
        )
        saved_s = job.duration_s - self.left_s
        restart_s = max(0.0, min(now_s, self.begins_s) - self.started_s)
        cost_s = self.workload.preemption_cost_s
        if cost_s is not None and self.was_preempted:
            cost_s += restart_s
        self.was_preempted = not was_interrupted
        if self.was_preempted:
            cost_s = (cost_s or 0.0) + self.attempts[-1].lost_s - restart_s
        self.workload = replace(
            self.workload,
            preemption_cost_s=cost_s,
            attained_gpu_s=self.workload.attained_gpu_s + (now_s - self.started_s) * job.total_gpus,
            # The estimate less what is saved, never the truth: a scheduler that knows nothing
            # of run times does not learn them from a preemption.
            remaining_s=None
            if self.run_time is None
            else max(0.0, self.run_time.median_s - saved_s),
        )

    @property
    def outcome(self) -> JobOutcome:
        """The outcome of the job."""
        return JobOutcome(
            job=self.job,
            attempts=tuple(self.attempts),
            finished_s=self.finished_s,
            preemptions=self.preemptions,
            interruptions=self.interruptions,
        )
