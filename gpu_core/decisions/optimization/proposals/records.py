"""The records of proposals in the log of decisions, which is only ever appended to."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from gpu_core.decisions.model.decision_chain import Decision, DecisionKind, Link
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.units import epoch_us
from gpu_core.decisions.optimization.proposals.proposal import (
    Proposal,
    change_key,
    from_document,
    to_document,
)
from gpu_core.decisions.optimization.proposals.target import Before
from gpu_core.decisions.optimization.proposals.verification import (
    SavingVerdict,
    Score,
    Verification,
    due_at,
    score,
)

WRITER = "savings"
"""The chain of the log that has the records."""


class ProposalState(StrEnum):
    """The state of a proposal. Stable: reports have it."""

    PROPOSED = "Proposed"
    APPROVED = "Approved"
    DECLINED = "Declined"
    NOT_APPLIED = "NotApplied"
    """It was approved, and the deployment had changed or was gone."""
    APPLIED = "Applied"
    VERIFIED = "Verified"
    UNDONE = "Undone"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalRecord:
    """One proposal and its state. None: this has not happened."""

    proposal: Proposal
    before: Before
    proposed_at: datetime
    decided_by: str | None = None
    is_approved: bool | None = None
    decided_at: datetime | None = None
    begun_at: datetime | None = None
    """The moment at which the change of the deployment began: recorded before the change."""
    applied_at: datetime | None = None
    not_applied: str | None = None
    """The reason why it was not applied."""
    verification: Verification | None = None
    undone_at: datetime | None = None

    @property
    def version(self) -> str:
        """The id of the proposal with its day and its deployment."""
        return _version(self.proposal, self.before, self.proposed_at)

    @property
    def state(self) -> ProposalState:
        """The state of the proposal."""
        if self.undone_at is not None:
            return ProposalState.UNDONE
        if self.verification is not None:
            return ProposalState.VERIFIED
        if self.applied_at is not None:
            return ProposalState.APPLIED
        if self.not_applied is not None:
            return ProposalState.NOT_APPLIED
        if self.is_approved is None:
            return ProposalState.PROPOSED
        return ProposalState.APPROVED if self.is_approved else ProposalState.DECLINED


DECLINED_FOR = timedelta(days=90)
"""The time for which a person's refusal of a change counts: a quarter, over which budgets are
made."""

_OPEN = frozenset({ProposalState.PROPOSED, ProposalState.NOT_APPLIED})
"""In these states a proposal gets another version when its deployment has changed."""


def is_new(known: ProposalRecord | None, before: Before) -> bool:
    """Is a proposal to record, because it is new or because its deployment has changed?

    Args:
        known: The proposal of the same id; None: there is none.
        before: The deployment as it is.
    """
    if known is None:
        return True
    return known.state in _OPEN and known.before != before


def declined_lately(
    proposal: Proposal, known: Iterable[ProposalRecord], now: datetime
) -> ProposalRecord | None:
    """The answer of a person that still counts against this change; None: none does.

    The same change has another id each month. Declined once, it is not proposed for
    `DECLINED_FOR`, unless its saving is at least more than it was then at most.

    Args:
        proposal: What is found now.
        known: All proposals with their state.
        now: The moment that counts.
    """
    declined = [
        record
        for record in known
        if record.state is ProposalState.DECLINED
        and record.decided_at is not None
        and now < record.decided_at + DECLINED_FOR
        and _is_same_change(record.proposal, proposal)
    ]
    if not declined:
        return None
    newest = max(declined, key=lambda record: (record.decided_at, record.version))
    if newest.proposal.proposal_id == proposal.proposal_id:
        return newest
    then = newest.proposal.saving
    is_more = proposal.saving.micro_usd(proposal.saving.low) > then.micro_usd(then.high)
    return None if is_more else newest


def _is_same_change(one: Proposal, other: Proposal) -> bool:
    keys = [
        change_key(each.kind, each.deployment, each.pool, each.job_variables)
        for each in (one, other)
    ]
    return keys[0] == keys[1]


def is_unfinished(record: ProposalRecord) -> bool:
    """Has a flow begun the change, and not recorded what became of it?"""
    ends = (record.applied_at, record.not_applied, record.undone_at)
    return record.begun_at is not None and ends == (None, None, None)


def proposed(proposal: Proposal, before: Before, now: datetime) -> Decision:
    """The record that a change is proposed."""
    document = {
        "proposal": to_document(proposal),
        "deployment_id": before.deployment_id,
        "digest": before.digest,
        "values": dict(before.values),
    }
    return _decision(
        proposal,
        _version(proposal, before, now),
        DecisionKind.PROPOSED,
        now,
        message=proposal.why,
        document=json.dumps(document, sort_keys=True),
    )


def decided(
    record: ProposalRecord, *, is_approved: bool, by: str, flow_run_id: str | None, now: datetime
) -> Decision:
    """The record that a person has approved or declined it; the first one counts."""
    kind = DecisionKind.APPROVED if is_approved else DecisionKind.DECLINED
    decision = _next(record, kind, now, by=by, message=f"{kind.value} by {by}.")
    # One id for both answers: of two people the first one decides.
    name = f"{record.version}/answer"
    return replace(decision, decision_id=name, who="person", flow_run_id=flow_run_id)


def begun(record: ProposalRecord, now: datetime) -> Decision:
    """The record that the deployment is about to be changed. A flow that died may try again."""
    return _again(_next(record, DecisionKind.CHANGE_BEGUN, now))


def applied(record: ProposalRecord, now: datetime) -> Decision:
    """The record that the deployment has the change."""
    return _next(record, DecisionKind.APPLIED, now)


def not_applied(record: ProposalRecord, why: str, now: datetime) -> Decision:
    """The record that it was approved and could not be applied, for now."""
    return _again(_next(record, DecisionKind.NOT_APPLIED, now, message=why))


def verified(record: ProposalRecord, found: Verification, message: str, now: datetime) -> Decision:
    """The record of what was measured."""
    return _next(
        record,
        DecisionKind.VERIFIED,
        now,
        message=message,
        verdict=found.verdict.value,
        runs=found.runs,
        saving=None if found.saving is None else str(found.saving),
        cost_per_unit_micro_usd=found.cost_per_unit_micro_usd,
        saved_micro_usd=found.saved_micro_usd,
    )


def undone(record: ProposalRecord, by: str, now: datetime) -> Decision:
    """The record that the deployment is as it was before."""
    decision = _next(record, DecisionKind.UNDONE, now, by=by, message=f"Undone by {by}.")
    return replace(decision, who="person")


def _again(decision: Decision) -> Decision:
    """A decision that may be made several times: the log leaves out an id that it has."""
    return replace(decision, decision_id=f"{decision.decision_id}/{epoch_us(decision.decided_at)}")


def _version(proposal: Proposal, before: Before, proposed_at: datetime) -> str:
    # Also the key of the question, for which Prefect takes lower case, digits and dashes only.
    return f"{proposal.proposal_id}-{proposed_at:%Y-%m-%d}-{before.digest[:8]}"


def _next(
    record: ProposalRecord,
    kind: DecisionKind,
    now: datetime,
    *,
    message: str = "",
    **numbers: int | str | None,
) -> Decision:
    return _decision(record.proposal, record.version, kind, now, message=message, **numbers)


def _decision(
    proposal: Proposal,
    version: str,
    kind: DecisionKind,
    now: datetime,
    *,
    message: str = "",
    **numbers: int | str | None,
) -> Decision:
    return Decision(
        decision_id=f"{version}/{kind.value}",
        decided_at=now,
        kind=kind,
        pool=proposal.pool,
        message=message,
        numbers={"proposal_id": proposal.proposal_id, "version": version, **numbers},
    )


def records_of(links: Iterable[Link]) -> dict[str, ProposalRecord]:
    """All proposals with their state, by id, in the order in which they were proposed.

    Args:
        links: Of the log, in their order; those of other writers are left out.

    Raises:
        InvalidInput: A proposal's record cannot be read.
    """
    found: dict[str, ProposalRecord] = {}
    for link in links:
        if link.writer != WRITER:
            continue
        numbers = _numbers(link)
        name = str(numbers.get("proposal_id"))
        known = found.get(name)
        if link.kind == DecisionKind.PROPOSED:
            if known is None or known.state in _OPEN:
                found[name] = _record(link, numbers)
        elif known is not None and known.version == numbers.get("version"):
            found[name] = _after(known, link, numbers)
    return found


def _numbers(link: Link) -> Mapping[str, Any]:
    try:
        numbers = json.loads(link.numbers)
    except ValueError:
        numbers = None
    if not isinstance(numbers, dict):
        raise InvalidInput("decisions", "cannot be read", got=f"{link.writer} {link.number}")
    return numbers


def _record(link: Link, numbers: Mapping[str, Any]) -> ProposalRecord:
    try:
        document = json.loads(numbers["document"])
        before = Before(
            deployment_id=document["deployment_id"],
            digest=document["digest"],
            values=document["values"],
        )
        return ProposalRecord(
            proposal=from_document(document["proposal"]), before=before, proposed_at=_at(link)
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput(
            "proposal", "cannot be read from its record", got=f"{link.decision_id}: {error}"
        ) from None


def _after(record: ProposalRecord, link: Link, numbers: Mapping[str, Any]) -> ProposalRecord:
    at = _at(link)
    match link.kind:
        case DecisionKind.APPROVED | DecisionKind.DECLINED:
            return replace(
                record,
                decided_by=numbers.get("by"),
                is_approved=link.kind == DecisionKind.APPROVED,
                decided_at=at,
            )
        case DecisionKind.CHANGE_BEGUN:
            return replace(record, begun_at=at, not_applied=None)
        case DecisionKind.APPLIED:
            return replace(record, applied_at=at)
        case DecisionKind.NOT_APPLIED:
            return replace(record, not_applied=link.message)
        case DecisionKind.VERIFIED:
            return replace(record, verification=_verification(numbers))
        case DecisionKind.UNDONE:
            return replace(record, undone_at=at)
    return record


def _verification(numbers: Mapping[str, Any]) -> Verification:
    saving = numbers["saving"]
    return Verification(
        verdict=SavingVerdict(numbers["verdict"]),
        runs=numbers["runs"],
        saving=None if saving is None else float(saving),
        cost_per_unit_micro_usd=numbers["cost_per_unit_micro_usd"],
        saved_micro_usd=numbers["saved_micro_usd"],
    )


def _at(link: Link) -> datetime:
    return datetime.fromisoformat(link.decided_at)


def measured_until(record: ProposalRecord) -> datetime | None:
    """The moment until which runs of its deployment show what it saves.

    None: it was never applied.
    """
    if record.applied_at is None:
        return None
    due = due_at(record.proposal, record.applied_at)
    if record.undone_at is None:
        return due
    # A person's machine undoes it and a worker's applies it: clocks differ.
    return max(record.applied_at, min(due, record.undone_at))


def is_due(record: ProposalRecord, now: datetime) -> bool:
    """Is it time to measure it? A change that was undone before is measured, too."""
    until = measured_until(record)
    return record.verification is None and until is not None and until <= now


def measured_now(
    record: ProposalRecord, known: Iterable[ProposalRecord], now: datetime
) -> ProposalRecord | None:
    """The other change of this proposal's deployment that is being measured; None: none is.

    Args:
        record: The proposal.
        known: All proposals with their state.
        now: The moment that counts.
    """
    for other in known:
        until = measured_until(other)
        is_other = other.proposal.proposal_id != record.proposal.proposal_id
        is_same_deployment = other.before.deployment_id == record.before.deployment_id
        if is_other and is_same_deployment and until is not None and now < until:
            return other
    return None


def score_of(records: Iterable[ProposalRecord]) -> Score:
    """The score of all proposals that were ever applied. Those that were undone count too."""
    ever = [record for record in records if record.applied_at is not None]
    measured = (record.verification for record in ever)
    return score(len(ever), (found for found in measured if found is not None))
