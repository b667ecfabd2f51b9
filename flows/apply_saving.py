"""Applies a proposal after it has been approved in the Prefect UI."""

from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

from prefect import flow, get_run_logger
from prefect.client.orchestration import get_client
from prefect.flow_runs import suspend_flow_run
from prefect.input import RunInput
from prefect.runtime import flow_run
from prefect.utilities.asyncutils import run_coro_as_sync
from pydantic import Field, ValidationError

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.proposals import (
    append_records,
    read_proposal,
    read_proposals,
)
from gpu_core.adapters.ledger.source import open_to_read
from gpu_core.adapters.prefect.deployments import (
    Resumption,
    read_resumption,
    read_target,
    write_job_variables,
)
from gpu_core.adapters.prefect.pool_ledger import pool_ledger_url
from gpu_core.decisions.optimization.proposals.changes import (
    ChangeRefused,
    Write,
    apply_step,
    approval_problem,
    change_step,
)
from gpu_core.decisions.optimization.proposals.records import (
    ProposalRecord,
    applied,
    begun,
    decided,
    not_applied,
)
from gpu_core.decisions.optimization.proposals.savings_report import dry_run_text, question
from gpu_core.decisions.optimization.proposals.target import Target

LONGEST_NAME = 200


class Answer(RunInput):
    """A person's answer. Without defaults, so that a resumption without input approves nothing."""

    decision: str = Field(pattern="^(approve|decline)$", title="approve or decline")
    name: str = Field(pattern=r"\S", max_length=LONGEST_NAME, title="Your name")


@flow(name="apply-saving")
def apply_saving(
    proposal_id: str,
    dry_run: bool = True,
    expires_s: Annotated[int, Field(gt=0)] = 72 * 3600,
    pool: str | None = None,
) -> None:
    """Asks for approval of a proposal, and then changes the deployment.

    The run is suspended while it waits for an answer, and does not use any GPUs or processes. The
    deployment is only changed if it has not been modified since the proposal was made.

    Args:
        proposal_id: The ID of the proposal, as shown by `prefect-gpu optimize` and in the artifact
            `gpu-savings`.
        dry_run: Only log the change, without asking for approval or changing the deployment.
        expires_s: The number of seconds for which the run waits for an answer.
        pool: The work pool from which the ledger is read. Defaults to the work pool of this run.

    Raises:
        InvalidInput: The proposal does not exist, or the pool does not have a ledger.
        LedgerError: The ledger cannot be read or written, or is of another version.
        RuntimeError: The run was resumed without an answer in time, or the deployment has changed
            or is measured with another change.
    """
    url: str = run_coro_as_sync(pool_ledger_url(pool, flow_run.id))
    with open_to_read(url) as ledger:
        record = read_proposal(ledger, proposal_id)
        if dry_run:
            log_dry_run(ledger, record)
            return
        if record.is_approved is None:
            record = ask_person(ledger, record, expires_s)
        if not record.is_approved or record.applied_at is not None:
            get_run_logger().info(
                "Proposal %s is already %s, no changes made", proposal_id, record.state.value
            )
            return
        change_deployment(ledger, record)


def log_dry_run(ledger: Ledger, record: ProposalRecord) -> None:
    """Log the change, or why it is not possible."""
    target = run_coro_as_sync(find_target(record.proposal.deployment))
    step = change_step(record, target, read_proposals(ledger).values(), datetime.now(UTC))
    problem = step.why if isinstance(step, ChangeRefused) else None
    get_run_logger().info(dry_run_text(record.proposal, problem))


def ask_person(ledger: Ledger, record: ProposalRecord, expires_s: int) -> ProposalRecord:
    """Suspend this run until a person answers, and record the answer.

    A resumed run starts again and calls this a second time. The key of the question is the version
    of the proposal: an answer about an earlier version is not an answer about this one.

    Raises:
        RuntimeError: The run was resumed without an answer in time.
    """
    asked = Answer.with_initial_data(description=question(record.proposal))
    try:
        answer = suspend_flow_run(wait_for_input=asked, timeout=expires_s, key=record.version)
    except ValidationError as error:
        if error.title != Answer.__name__:
            raise
        answer = None  # the state was set by hand: the run has no input
    own_id = UUID(str(flow_run.id))
    came: Resumption = run_coro_as_sync(find_resumption(own_id))
    problem = approval_problem(came.resumed_at, came.expires_at, is_answer=answer is not None)
    if answer is None or problem is not None:
        raise RuntimeError(f"{record.proposal.proposal_id} was not approved. {problem}")
    now, is_approved = datetime.now(UTC), answer.decision == "approve"
    append_records(
        ledger,
        decided(record, is_approved=is_approved, by=answer.name, flow_run_id=str(own_id), now=now),
    )
    # Two runs may ask about one proposal: the first answer counts.
    return read_proposal(ledger, record.proposal.proposal_id)


def change_deployment(ledger: Ledger, record: ProposalRecord) -> None:
    """Change the deployment if it is as it was, and record the result.

    Raises:
        RuntimeError: It has changed, is gone or is measured with another change; nothing was
            changed.
    """
    name, deployment = record.proposal.proposal_id, record.proposal.deployment
    target = run_coro_as_sync(find_target(deployment))
    step = apply_step(record, target, read_proposals(ledger).values(), datetime.now(UTC))
    if isinstance(step, ChangeRefused):
        append_records(ledger, not_applied(record, step.why, datetime.now(UTC)))
        raise RuntimeError(f"{name} was not applied. {step.why}")
    if isinstance(step, Write):
        # After a crash this record distinguishes the flow's own change from a person's.
        append_records(ledger, begun(record, datetime.now(UTC)))
        run_coro_as_sync(set_target(step.target))
    append_records(ledger, applied(record, datetime.now(UTC)))
    get_run_logger().info("Applied proposal %s to %s", name, deployment)


async def find_target(name: str) -> Target | None:
    """The deployment as it is; None: it is gone."""
    async with get_client() as client:
        return await read_target(client, name)


async def set_target(target: Target) -> None:
    """Change the deployment."""
    async with get_client() as client:
        await write_job_variables(client, target)


async def find_resumption(flow_run_id: UUID) -> Resumption:
    """The decision with which this run was resumed."""
    async with get_client() as client:
        return await read_resumption(client, flow_run_id)
