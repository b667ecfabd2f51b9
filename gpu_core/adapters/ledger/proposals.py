"""The records of proposals in the ledger's log of decisions."""

from datetime import datetime

from gpu_core.adapters.ledger.database import Logged
from gpu_core.adapters.ledger.store import Ledger
from gpu_core.decisions.model.decision_chain import Decision
from gpu_core.decisions.model.errors import InvalidInput, listed, nearest_name
from gpu_core.decisions.optimization.proposals.records import WRITER, ProposalRecord, records_of


def read_proposals(ledger: Ledger, before: datetime | None = None) -> dict[str, ProposalRecord]:
    """All proposals with their state, by id.

    Args:
        ledger: The ledger.
        before: Only what was recorded before this moment counts; None: all.

    Raises:
        InvalidInput: A record cannot be read.
        LedgerError: The ledger cannot be read.
    """
    links = ledger.decisions(writer=WRITER)
    if before is not None:
        links = [link for link in links if datetime.fromisoformat(link.decided_at) < before]
    return records_of(links)


def read_proposal(ledger: Ledger, proposal_id: str) -> ProposalRecord:
    """The proposal of this id, with its state.

    Raises:
        InvalidInput: There is none of this id.
        LedgerError: The ledger cannot be read.
    """
    known = read_proposals(ledger)
    if proposal_id not in known:
        raise InvalidInput(
            "proposal",
            "is not in the ledger",
            got=proposal_id,
            allowed=listed(known) if known else "none, because no proposal is recorded yet",
            nearest=nearest_name(proposal_id, known),
            remedy="run the flow propose-savings, which records proposals",
        )
    return known[proposal_id]


def append_records(ledger: Ledger, *decisions: Decision) -> None:
    """Add these to the log; those that are there already are left out."""
    if decisions:
        ledger.log(Logged(WRITER, decisions))
