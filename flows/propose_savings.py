"""Proposes changes that save money, based on the usage ledger."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.runtime import flow_run
from prefect.utilities.asyncutils import run_coro_as_sync

from gpu_core.adapters.files.catalog_file import load_catalog
from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.optimization import read_optimization
from gpu_core.adapters.ledger.policy_in_force import policy_in_file, policy_in_force
from gpu_core.adapters.ledger.proposals import append_records, read_proposals
from gpu_core.adapters.ledger.source import open_to_read
from gpu_core.adapters.prefect.deployments import read_target
from gpu_core.adapters.prefect.pool_ledger import pool_ledger_url, pool_of_run
from gpu_core.decisions.catalog import DEFAULT_CATALOG
from gpu_core.decisions.catalog.offerings import combined
from gpu_core.decisions.optimization.proposals.period import Period
from gpu_core.decisions.optimization.proposals.proposal import Proposal
from gpu_core.decisions.optimization.proposals.records import (
    ProposalRecord,
    declined_lately,
    is_new,
    proposed,
)
from gpu_core.decisions.optimization.proposals.savings_report import ARTIFACT_KEY, savings_page
from gpu_core.decisions.optimization.proposals.target import Before, Target, is_set

Targets = dict[str, Target | None]


@flow(name="propose-savings")
def propose_savings(
    day: date | None = None,
    with_generated: bool = False,
    pool: str | None = None,
    policy: Path | None = None,
) -> None:
    """Proposes changes to deployments that would save money, together with the evidence.

    This flow does not change any deployments. If you run the flow again for the same day, no
    additional proposals are made.

    Args:
        day: The day after the 28 days to analyze, in UTC. Defaults to the day of this run.
        with_generated: Whether to include generated runs.
        pool: The work pool from which the ledger is read. Defaults to the work pool of this run.
        policy: The path to a policy file. Defaults to the policy that was in force on the workers
            of the pool at the end of the 28 days.

    Raises:
        InvalidInput: The pool does not have a ledger, or the policy cannot be used.
        LedgerError: The ledger cannot be read or written, or is of another version.
    """
    now = datetime.now(UTC)
    day = day or flow_run.scheduled_start_time.date()
    given = policy_in_file(policy)
    period, own_pool = Period.before(day), run_coro_as_sync(pool_of_run(pool, flow_run.id))
    url: str = run_coro_as_sync(pool_ledger_url(own_pool, flow_run.id))
    with open_to_read(url) as ledger:
        in_force = policy_in_force(given, ledger, own_pool, min(now, period.window.end))
        get_run_logger().info("Simulating proposals with %s", in_force.origin)
        found = read_optimization(
            ledger,
            period,
            now,
            policy=in_force.policy,
            catalog=combined((load_catalog(DEFAULT_CATALOG), ledger.catalog())),
            pool=pool,
            with_generated=with_generated,
        )
        changes = [each for each in found.proposals if not each.is_by_hand]
        targets: Targets = run_coro_as_sync(read_targets(changes))
        declined = declined_of(changes, read_proposals(ledger), now)
        asked = [each for each in changes if each.proposal_id not in declined]
        record_new(ledger, asked, targets, now)
        records = read_proposals(ledger)
    missing = [each.proposal_id for each in changes if targets[each.deployment] is None]
    publish_savings(savings_page(found, records.values(), missing, declined))
    get_run_logger().info("Proposed %d changes", len(asked))


def declined_of(
    proposals: Sequence[Proposal], known: Mapping[str, ProposalRecord], now: datetime
) -> dict[str, ProposalRecord]:
    """The answers of people that still count, by the id of the proposal."""
    answers = {each.proposal_id: declined_lately(each, known.values(), now) for each in proposals}
    return {name: answer for name, answer in answers.items() if answer is not None}


def record_new(
    ledger: Ledger, proposals: Sequence[Proposal], targets: Targets, now: datetime
) -> None:
    """Record proposals that are new, and those whose deployment has changed since."""
    # The deployments were read before: a change that one of these proposals made since is recorded.
    known = read_proposals(ledger)
    for proposal in proposals:
        target = targets[proposal.deployment]
        if target is None or is_set(target, proposal.job_variables):
            continue
        before = Before.of(target, proposal)
        if is_new(known.get(proposal.proposal_id), before):
            append_records(ledger, proposed(proposal, before, now))


async def read_targets(proposals: Sequence[Proposal]) -> Targets:
    """The deployments of these proposals; None: this server does not have it."""
    async with get_client() as client:
        names = sorted({proposal.deployment for proposal in proposals})
        return {name: await read_target(client, name) for name in names}


@task(cache_policy=NO_CACHE)
def publish_savings(page: str) -> None:
    """Publish the page where people look."""
    create_markdown_artifact(
        page, key=ARTIFACT_KEY, description="Proposed changes to reduce GPU cost"
    )
