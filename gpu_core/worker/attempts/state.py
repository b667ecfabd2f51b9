"""An attempt that holds GPUs, as the worker keeps it in mind."""

from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto
from pathlib import Path
from typing import NamedTuple

from prefect.client.schemas.responses import DeploymentResponse

from gpu_core.adapters.files.run_files import CheckpointReport
from gpu_core.decisions.attempts.phase import AttemptLife, AttemptPhase, PhaseStart, recorded_phase
from gpu_core.decisions.model.attempts import Attempt, EndReason, RunRecord
from gpu_core.decisions.model.cluster import Allocation, Placement
from gpu_core.decisions.model.virtual_nodes import planned_kind
from gpu_core.decisions.model.workload import Workload
from gpu_core.decisions.requests.runs.run_workload import RunLimits
from gpu_core.decisions.requests.variables.job_variables import GpuRequest


class StartFailureKind(Enum):
    """The next step when an attempt could not be started."""

    REFUSED = auto()
    """It can never be started as it is."""
    POSTPONED = auto()
    """What runs it does not take it now."""
    EXCUSED = auto()
    """The platform failed: the run is not charged."""


class StartFailure(NamedTuple):
    """The reason why an attempt ended before its flow started."""

    kind: StartFailureKind
    why: str
    """For the run's page, without secrets."""


# All phases of an attempt that ends before Prefect has given its run to a known worker.
_UNCLAIMED = frozenset(
    {
        AttemptPhase.ADMITTED,
        AttemptPhase.ENDING,
        AttemptPhase.RELEASED,
        AttemptPhase.SETTLED,
    }
)


@dataclass(slots=True, kw_only=True)
class AttemptState:
    """One open attempt. The ledger is the truth; this adds what the next minutes need."""

    attempt: Attempt
    record: RunRecord
    workload: Workload
    request: GpuRequest
    limits: RunLimits
    run_dir: Path
    phase_at_first: InitVar[AttemptPhase | None] = None
    """None: the phase that its row in the ledger implies."""
    deployment: DeploymentResponse | None = None
    """As it was when the attempt was planned."""
    variables: Mapping[str, object] = field(default_factory=dict)
    """All its job variables, for the infrastructure that reads more than `request` has."""
    report: CheckpointReport | None = None
    labels: Mapping[str, object] = field(default_factory=dict)
    """Of its flow run, as they were read last; empty where its reports are in its folder."""
    asks_for_micro_batch: bool = False
    """Its flow is known to have called `micro_batch()`."""
    faulty_nodes: frozenset[str] = frozenset()
    """Those of the ranks for which it is ended as hung; empty: each node may be at fault."""
    is_noted: bool = False
    """Prefect has, or is about to get, what runs it: its end has to clear that."""
    start_failure: StartFailure | None = None
    """The reason why it ends before it could work; None: nothing has said so."""
    has_unwritten_start: bool = False
    """What runs it was created, and the ledger was unavailable before it could be written down."""
    life: AttemptLife = field(init=False)
    """Its phases; changed by `move_to` alone."""

    def __post_init__(self, phase_at_first: AttemptPhase | None) -> None:
        attempt = self.attempt
        first = PhaseStart(phase_at_first or recorded_phase(attempt), attempt.admitted_at)
        self.life = AttemptLife(attempt.attempt_id, (first,))

    @property
    def phase(self) -> AttemptPhase:
        """The current phase of the attempt."""
        return self.life.phase

    def move_to(self, phase: AttemptPhase, at: datetime) -> None:
        """Enter the next phase: the only way in which the phase changes.

        Raises:
            IllegalTransition: That phase does not follow the current one.
        """
        self.life = self.life.moved_to(phase, at)

    def claim(self, now: datetime) -> None:
        """Note that Prefect has given the run to this worker."""
        if self.phase is AttemptPhase.ADMITTED:
            self.move_to(AttemptPhase.LAUNCHING, now)

    def start(self, attempt: Attempt, now: datetime) -> None:
        """Note what was created for it; one that was asked to stop meanwhile stays so."""
        self.attempt = attempt
        if self.phase in (AttemptPhase.ADMITTED, AttemptPhase.LAUNCHING):
            self.move_to(AttemptPhase.STARTED, now)

    @property
    def flow_run_id(self) -> str:
        """The flow run's id."""
        return self.attempt.flow_run_id

    def allocation(self) -> Allocation:
        """The attempt as the scheduler sees it."""
        attempt = self.attempt
        report = self.report
        return Allocation(
            workload=self.workload,
            attempt=attempt.number,
            placement=Placement(
                gpu_type=attempt.gpu_type,
                capacity_type=attempt.capacity_type,
                shares=attempt.held,
            ),
            admitted_at=attempt.admitted_at,
            began_at=self.began_at,
            begins_by=(
                None
                if self.limits.start_timeout_s is None
                else attempt.admitted_at + timedelta(seconds=self.limits.start_timeout_s)
            ),
            checkpointed_at=report.saved_at if report is not None else None,
            works_since=report.works_since if report is not None else None,
            # A report says that the run saves at its notice; before its first save none knows how
            # long that takes.
            save_s=None if report is None else report.duration_s or 0.0,
            restart_s=self.restart_s,
            is_draining=self.is_stop_requested,
            drain_deadline_at=attempt.drain_deadline_at,
            draining_for=attempt.preempted_by,
        )

    @property
    def restart_s(self) -> float | None:
        """How long would the next attempt take to its first new step?

        As long as this one took; until that is known, as long as starts of its deployment.
        """
        if self.report is not None and self.report.first_step_at is not None:
            took = self.report.first_step_at - self.attempt.admitted_at
            return max(0.0, took.total_seconds())
        changeover = self.workload.changeover
        return None if changeover is None else changeover.loss_s

    @property
    def is_claimed(self) -> bool:
        """Has Prefect given the run to this worker? Otherwise another machine's may have it."""
        return not _UNCLAIMED.issuperset(self.life.history)

    @property
    def began_at(self) -> datetime | None:
        """The start of its flow or container, from the run's state in Prefect; None: unknown."""
        return self.life.entered_at(AttemptPhase.RUNNING)

    @property
    def gone_at(self) -> datetime | None:
        """Since when none of its processes lives and its GPUs are free; None: it holds them."""
        return self.attempt.gone_at or self.life.entered_at(AttemptPhase.RELEASED)

    @property
    def is_stop_requested(self) -> bool:
        """Was it asked to stop, whether it has ended since or not?"""
        return self.attempt.drain_requested_at is not None

    def failure(self, kind: StartFailureKind) -> str | None:
        """The reason why it could not be started, if that is a failure of this kind."""
        found = self.start_failure
        return found.why if found is not None and found.kind is kind else None

    @property
    def awaited_kinds(self) -> tuple[str, ...]:
        """The kinds of nodes that it waits for, and that were not there when it was placed."""
        kinds = {planned_kind(share.node) for share in self.attempt.held}
        return tuple(sorted(kind for kind in kinds if kind is not None))

    @property
    def is_to_be_placed(self) -> bool:
        """Will another scheduler choose its nodes? They are only planned."""
        return self.attempt.bound_at is None and not self.awaited_kinds

    @property
    def drain_reason(self) -> EndReason | None:
        """The reason for the request to stop."""
        return self.attempt.drain_reason
