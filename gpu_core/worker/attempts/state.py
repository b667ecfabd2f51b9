"""An attempt that holds GPUs, as the worker keeps it in mind."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from prefect.client.schemas.responses import DeploymentResponse

from gpu_core.adapters.files.run_files import CheckpointReport
from gpu_core.decisions.model.attempts import Attempt, EndReason, RunRecord
from gpu_core.decisions.model.cluster import Allocation, Placement
from gpu_core.decisions.model.virtual_nodes import planned_kind
from gpu_core.decisions.model.workload import Workload
from gpu_core.decisions.requests.job_variables import GpuRequest, RunLimits


@dataclass(slots=True, kw_only=True)
class AttemptState:
    """One open attempt. The ledger is the truth; this adds what the next minutes need."""

    attempt: Attempt
    record: RunRecord
    workload: Workload
    request: GpuRequest
    limits: RunLimits
    run_dir: Path
    deployment: DeploymentResponse | None = None
    """As it was when the attempt was planned."""
    variables: Mapping[str, object] = field(default_factory=dict)
    """All its job variables, for the infrastructure that reads more than `request` has."""
    report: CheckpointReport | None = None
    is_claimed: bool = False
    """Prefect has given the run to this worker. Otherwise another machine's may have it."""
    refusal: str | None = None
    """Why it can never be started as it is; None: nothing has said so."""
    postponement: str | None = None
    """Why what runs it would not take it just now; None: nothing has said so."""
    excuse: str | None = None
    """What of the platform's kept it from being started; None: nothing did."""
    is_noted: bool = False
    """Prefect is told what runs it, or is about to be: its end has to clear that."""
    has_unwritten_start: bool = False
    """What runs it was created, and the ledger was away before it could be written down."""
    began_at: datetime | None = None
    """When its flow or container began, by Prefect's state of the run; None: not seen yet."""
    is_stand_in: bool = False
    """Its run is still to be read: what is known is enough to keep its GPUs, not to settle it."""
    is_ending: bool = False
    """Its launcher ended; what it left behind is being killed, and then it is settled."""
    gone_at: datetime | None = None
    """Since when none of its processes lives and its GPUs are free; it is being settled."""

    @property
    def flow_run_id(self) -> UUID:
        """The flow run's id, as Prefect's client wants it."""
        return UUID(self.attempt.flow_run_id)

    @property
    def has_valid_id(self) -> bool:
        """Can Prefect know its run? Not where its row in the ledger is damaged."""
        try:
            UUID(self.attempt.flow_run_id)
        except ValueError:
            return False
        return True

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
            is_draining=attempt.drain_requested_at is not None,
            drain_deadline_at=attempt.drain_deadline_at,
            draining_for=attempt.preempted_by,
        )

    @property
    def is_gone(self) -> bool:
        """Are its GPUs free?"""
        return self.gone_at is not None

    @property
    def is_draining(self) -> bool:
        """Has it been told to end?"""
        return self.attempt.drain_requested_at is not None

    @property
    def awaited_kinds(self) -> tuple[str, ...]:
        """Which kinds of nodes does it wait for, that were not there when it was placed?"""
        kinds = {planned_kind(share.node) for share in self.attempt.held}
        return tuple(sorted(kind for kind in kinds if kind is not None))

    @property
    def drain_reason(self) -> EndReason | None:
        """What it was told to end for."""
        return self.attempt.drain_reason
