"""Proposals with their states, as a page in Prefect's UI."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from gpu_core.decisions.model.markdown import cell, escaped, sentence, table
from gpu_core.decisions.optimization.proposals.markdown import (
    change_text,
    percent_range,
    proposal_lines,
)
from gpu_core.decisions.optimization.proposals.markdown import to_markdown as found_markdown
from gpu_core.decisions.optimization.proposals.proposal import Proposal
from gpu_core.decisions.optimization.proposals.propose import Optimization
from gpu_core.decisions.optimization.proposals.records import (
    DECLINED_FOR,
    ProposalRecord,
    ProposalState,
    score_of,
)
from gpu_core.decisions.optimization.proposals.verification import verification_sentence

ARTIFACT_KEY = "gpu-savings"

_MOST_ROWS = 20
_WORDS = {
    ProposalState.APPROVED: "approved",
    ProposalState.DECLINED: "declined",
    ProposalState.NOT_APPLIED: "not applied",
    ProposalState.APPLIED: "applied",
    ProposalState.VERIFIED: "verified",
    ProposalState.UNDONE: "undone",
}


def savings_page(
    found: Optimization,
    records: Iterable[ProposalRecord],
    without_deployment: Sequence[str],
    declined: Mapping[str, ProposalRecord] | None = None,
) -> str:
    """The page of the money that was spent, the current proposals, and the state of all proposals.

    Args:
        found: What the ledger's period gives.
        records: All that were ever proposed.
        without_deployment: Ids of proposals whose deployment this server does not have.
        declined: Earlier answers that still count, by the id of what is found now.
    """
    parts = [found_markdown(found).rstrip()]
    if without_deployment:
        names = ", ".join(sorted(without_deployment))
        parts.append(f"Unable to modify deployments that do not exist on this server: {names}.")
    parts += [_declined_text(name, answer) for name, answer in sorted((declined or {}).items())]
    parts.append(record_section(records))
    return "\n\n".join(parts) + "\n"


def _declined_text(name: str, answer: ProposalRecord) -> str:
    by = "a person" if answer.decided_by is None else escaped(answer.decided_by)
    at = answer.decided_at
    until = (
        ""
        if at is None
        else f" Approval will not be requested again before {at + DECLINED_FOR:%Y-%m-%d}."
    )
    as_other = answer.proposal.proposal_id
    on = "" if at is None else f" on {at:%Y-%m-%d}"
    return f"{name} was declined by {by}{on}, as {as_other}.{until}"


def record_section(records: Iterable[ProposalRecord]) -> str:
    """All proposals with their state: their number and the score first, losses included."""
    known = list(records)
    lines = [f"## {_title(known)}", score_of(known).sentence]
    if not known:
        return "\n\n".join(lines)
    newest = known[-_MOST_ROWS:]
    head = ("Proposal", "Deployment", "State", "Predicted", "Measured")
    lines.append(table(head, (_row(record) for record in reversed(newest))))
    if len(known) > len(newest):
        lines.append(f"{len(known) - len(newest)} older proposals omitted.")
    lines += [
        f"- {record.proposal.proposal_id}: {escaped(said)}"
        for record in newest
        if (said := _failed(record)) is not None
    ]
    return "\n\n".join(lines)


def _title(known: Sequence[ProposalRecord]) -> str:
    """Such as `Proposals: 2 open, 1 applied, 1 verified`."""
    counts = Counter(record.state for record in known)
    open_ = counts.pop(ProposalState.PROPOSED, 0)
    words = [f"{open_} open"] + [
        f"{counts[state]} {_WORDS[state]}" for state in _WORDS if counts[state]
    ]
    return f"Proposals: {', '.join(words)}"


def _row(record: ProposalRecord) -> tuple[str, ...]:
    proposal, measured = record.proposal, record.verification
    by = "" if record.decided_by is None else f" ({cell(record.decided_by)})"
    saving = None if measured is None else measured.saving
    return (
        proposal.proposal_id,
        cell(proposal.deployment) + (" (generated runs)" if proposal.has_generated else ""),
        f"{record.state.value}{by}",
        percent_range(proposal.saving),
        "–" if saving is None else f"{saving:.0%}",
    )


def _failed(record: ProposalRecord) -> str | None:
    if record.not_applied is not None and record.applied_at is None:
        return record.not_applied
    found = record.verification
    if found is None or not found.should_undo or record.undone_at is not None:
        return None
    return verification_sentence(record.proposal, found)


def question(proposal: Proposal) -> str:
    """The question to a person in Prefect's UI, as Markdown."""
    lines = "\n".join(f"- {sentence(line)}" for line in proposal_lines(proposal))
    return (
        f"Apply {proposal.proposal_id} to {escaped(proposal.deployment)}?\n\n{lines}\n\n"
        "Type `approve` or `decline`, and your name."
    )


def dry_run_text(proposal: Proposal, problem: str | None) -> str:
    """The change, for the log.

    Args:
        proposal: What would be applied.
        problem: Why that is not possible; None: it is.
    """
    changes = "; ".join(change_text(change) for change in proposal.changes)
    if problem is not None:
        return f"Dry run: nothing would be changed. {problem}"
    return f"Dry run: {proposal.deployment} would get {changes} once a user has approved it."
