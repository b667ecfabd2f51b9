"""The steps that change a deployment: compare it with the proposal first, then set it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.pydantic_errors import known_names
from gpu_core.decisions.optimization.proposals.records import (
    ProposalRecord,
    ProposalState,
    measured_now,
    measured_until,
)
from gpu_core.decisions.optimization.proposals.target import Target, changed, is_set
from gpu_core.decisions.requests.variables.job_variables import GpuRequest, parse_request


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """The deployment gets these job variables."""

    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The deployment has the change already: a flow died between the change and its record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRefused:
    """Nothing is changed."""

    why: str


ChangeStep = Write | Done | ChangeRefused


def apply_step(
    record: ProposalRecord,
    current: Target | None,
    known: Iterable[ProposalRecord],
    now: datetime,
) -> ChangeStep:
    """The step that applies this proposal.

    A deployment is measured with one change at a time: what a second one saves would count twice.

    Args:
        record: The proposal with its state.
        current: The deployment as it is; None: it is gone.
        known: All proposals with their state.
        now: The moment that counts.
    """
    if not record.is_approved:
        return ChangeRefused(why="The proposal has not been approved.")
    return change_step(record, current, known, now)


def change_step(
    record: ProposalRecord,
    current: Target | None,
    known: Iterable[ProposalRecord],
    now: datetime,
) -> ChangeStep:
    """The step that would apply this proposal if it is approved. Args as for `apply_step`."""
    if record.state in (ProposalState.APPLIED, ProposalState.VERIFIED, ProposalState.UNDONE):
        return ChangeRefused(why=f"The proposal is already {record.state.value}.")
    if current is None or current.deployment_id != record.before.deployment_id:
        return ChangeRefused(why="The deployment no longer exists.")
    if current.digest == record.before.digest:
        other = measured_now(record, known, now)
        if other is not None:
            return ChangeRefused(why=_measured_text(other))
        return _write(current, record)
    if record.begun_at is not None and _before(current, record).digest == record.before.digest:
        return Done()
    return ChangeRefused(
        why="The job variables, entrypoint, work pool or work queue of the deployment have been "
        "modified since the proposal was created."
    )


def _write(current: Target, record: ProposalRecord) -> ChangeStep:
    """The change, unless no run could ask for what the deployment would then have."""
    target = changed(current, record.proposal)
    problem = _request_problem(target)
    if problem is not None and _request_problem(current) is None:
        return ChangeRefused(
            why=f"The change would prevent all runs of the deployment from starting: {problem}"
        )
    return Write(target=target)


def _request_problem(target: Target) -> str | None:
    """The reason why no run can ask for these job variables.

    None: it can, as far as they are ours.
    """
    ours = frozenset(known_names(GpuRequest))
    asked = {name: value for name, value in target.job_variables.items() if name in ours}
    try:
        parse_request(asked, ())
    except InvalidInput as error:
        return str(error)
    return None


def _measured_text(other: ProposalRecord) -> str:
    return (
        f"{other.proposal.proposal_id} is being measured on this deployment until "
        f"{measured_until(other):%Y-%m-%d %H:%M} UTC. Please run the flow again after this time."
    )


def undo_step(record: ProposalRecord, current: Target | None) -> ChangeStep:
    """The step that undoes this proposal.

    Other job variables may have changed since: only those of the proposal are set back.

    Args:
        record: The proposal with its state.
        current: The deployment as it is; None: it is gone.
    """
    nothing = ChangeRefused(
        why=f"The proposal is {record.state.value}, so there are no changes to revert."
    )
    if not _may_be_in_force(record):
        return nothing
    if current is None or current.deployment_id != record.before.deployment_id:
        return ChangeRefused(why="The deployment no longer exists.")
    if is_set(current, record.proposal.job_variables):
        return Write(target=_before(current, record))
    names = frozenset(record.proposal.job_variables)
    values = {name: v for name, v in current.job_variables.items() if name in names}
    if values == dict(record.before.values):
        return Done() if record.not_applied is None else nothing
    named = ", ".join(sorted(names))
    return ChangeRefused(
        why=f"No changes were made, because {named} has been modified since the "
        "proposal was applied."
    )


def _may_be_in_force(record: ProposalRecord) -> bool:
    """Has the deployment the change, or may it? A flow may have died between change and record."""
    if record.undone_at is not None:
        return False
    return record.applied_at is not None or record.begun_at is not None


def _before(current: Target, record: ProposalRecord) -> Target:
    """The deployment with the proposal's variables as they were before it."""
    without = current.without(frozenset(record.proposal.job_variables))
    return without.with_variables(record.before.values)


def approval_problem(
    answered_at: datetime | None, expires_at: datetime | None, *, is_answer: bool
) -> str | None:
    """The reason why this answer does not count; None: it does.

    Prefect lets a run go on from a pause also when someone sets its state by hand, and when it is
    retried: only an answer that was given in time counts.

    Args:
        answered_at: When the run was resumed; None: it was not.
        expires_at: When the question expired; None: not known.
        is_answer: An answer came with the resumption.
    """
    if not is_answer or answered_at is None:
        return "The flow run was resumed without a response."
    if expires_at is None:
        return "Unable to determine when the approval request expires."
    if answered_at > expires_at:
        return f"The approval request expired at {expires_at:%Y-%m-%d %H:%M} UTC."
    return None
