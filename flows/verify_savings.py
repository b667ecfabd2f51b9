"""Verifies applied proposals by comparing measured and predicted savings."""

from datetime import UTC, datetime

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.runtime import flow_run
from prefect.utilities.asyncutils import run_coro_as_sync

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.proposals import append_records, read_proposals
from gpu_core.adapters.ledger.source import open_to_read
from gpu_core.adapters.prefect.deployments import read_target
from gpu_core.adapters.prefect.pool_ledger import pool_ledger_url
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.model.attempts import Provenance
from gpu_core.decisions.optimization.proposals.changes import Done, apply_step
from gpu_core.decisions.optimization.proposals.records import (
    ProposalRecord,
    applied,
    is_due,
    is_unfinished,
    measured_until,
    verified,
)
from gpu_core.decisions.optimization.proposals.run_facts import run_facts
from gpu_core.decisions.optimization.proposals.savings_report import record_section
from gpu_core.decisions.optimization.proposals.target import Target
from gpu_core.decisions.optimization.proposals.verification import (
    SavingVerdict,
    verification_sentence,
    verify_saving,
)

ARTIFACT_KEY = "gpu-savings-verified"


@flow(name="verify-savings")
def verify_savings(now: datetime | None = None, pool: str | None = None) -> None:
    """Measures the savings of applied proposals, and publishes the results, including losses.

    Each proposal is measured once, when its days are over. If there are too few runs, it is
    measured by a later run of this flow.

    Args:
        now: The current time, for a report of a past day. Defaults to the time of this run.
        pool: The work pool from which the ledger is read. Defaults to the work pool of this run.

    Raises:
        InvalidInput: The pool does not have a ledger.
        LedgerError: The ledger cannot be read or written, or is of another version.
    """
    now = now or datetime.now(UTC)
    url: str = run_coro_as_sync(pool_ledger_url(pool, flow_run.id))
    with open_to_read(url) as ledger:
        finish_begun(ledger)
        for record in read_proposals(ledger).values():
            if is_due(record, now):
                measure(ledger, record, now)
        records = read_proposals(ledger)
    publish_score(f"# Savings, measured\n\n{record_section(records.values())}\n")


def finish_begun(ledger: Ledger) -> None:
    """Record changes as applied whose flow has died between the change and its record."""
    known = read_proposals(ledger)
    for record in known.values():
        if not is_unfinished(record):
            continue
        target = run_coro_as_sync(find_target(record.proposal.deployment))
        now = datetime.now(UTC)
        if isinstance(apply_step(record, target, known.values(), now), Done):
            append_records(ledger, applied(record, now))
            get_run_logger().info(
                "Proposal %s was applied by a flow run that crashed", record.proposal.proposal_id
            )


async def find_target(name: str) -> Target | None:
    """The deployment as it is; None: it is gone."""
    async with get_client() as client:
        return await read_target(client, name)


def measure(ledger: Ledger, record: ProposalRecord, now: datetime) -> None:
    """Measure one proposal and record the result."""
    proposal, applied_at, until = record.proposal, record.applied_at, measured_until(record)
    if applied_at is None or until is None:
        return
    window = Window(applied_at, until)
    # Generated runs say nothing about a saving that was predicted from measured ones.
    provenance = None if proposal.has_generated else Provenance.MEASURED
    usage = ledger.usage(window.start, now, provenance=provenance, pool=proposal.pool)
    of_deployment = [r for r in usage if r[0].deployment == proposal.deployment]
    found = verify_saving(proposal, run_facts(of_deployment, window, now))
    said = verification_sentence(proposal, found)
    get_run_logger().info("%s: %s", proposal.proposal_id, said)
    if found.verdict is not SavingVerdict.UNKNOWN:
        append_records(ledger, verified(record, found, said, now))


@task(cache_policy=NO_CACHE)
def publish_score(page: str) -> None:
    """Publish the page where people look."""
    create_markdown_artifact(page, key=ARTIFACT_KEY, description="Measured and predicted savings")
