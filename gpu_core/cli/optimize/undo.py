"""`prefect-gpu optimize undo`: read the record, compare the deployment, set it back."""

import getpass
from collections.abc import Callable
from datetime import UTC, datetime

from prefect.client.orchestration import PrefectClient

from gpu_core.adapters.ledger.proposals import append_records, read_proposal
from gpu_core.adapters.ledger.source import open_to_read
from gpu_core.adapters.prefect.deployments import read_target, write_job_variables
from gpu_core.cli.shared.exit_codes import DONE, NO
from gpu_core.cli.shared.prefect_api import ask
from gpu_core.cli.shared.terminal import print_notice
from gpu_core.decisions.optimization.proposals.changes import (
    ChangeRefused,
    ChangeStep,
    Write,
    undo_step,
)
from gpu_core.decisions.optimization.proposals.records import ProposalRecord, undone


def run_undo(proposal_id: str, ledger_url: Callable[[], str], by: str | None) -> int:
    """Undo a proposal.

    Raises:
        InvalidInput: There is no such proposal, or an address cannot be used.
        LedgerError: The ledger cannot be read or written.
        ApiError: Prefect's server refused or failed.
    """
    with open_to_read(ledger_url()) as ledger:
        record = read_proposal(ledger, proposal_id)
        step = ask(lambda client: _set_back(client, record))
        if isinstance(step, ChangeRefused):
            print_notice(f"prefect-gpu optimize undo: {step.why}")
            return NO
        append_records(ledger, undone(record, by or getpass.getuser(), datetime.now(UTC)))
    names = ", ".join(sorted(record.proposal.job_variables))
    print(
        f"Reverted proposal {proposal_id}: restored the previous {names} of "
        f"{record.proposal.deployment}"
    )
    return DONE


async def _set_back(client: PrefectClient, record: ProposalRecord) -> ChangeStep:
    step = undo_step(record, await read_target(client, record.proposal.deployment))
    if isinstance(step, Write):
        await write_job_variables(client, step.target)
    return step
