"""The saving of an applied proposal: measured against predicted, by the work that was done."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from gpu_core.decisions.model.units import format_usd
from gpu_core.decisions.optimization.proposals.proposal import Proposal
from gpu_core.decisions.optimization.proposals.run_facts import RunFact
from gpu_core.decisions.optimization.proposals.unit_cost import unit_cost

LEAST_RUNS = 5
"""Fewer runs after the change say nothing."""


class SavingVerdict(StrEnum):
    """The verdict on a prediction. Stable: records and reports have it."""

    AS_PREDICTED = "AsPredicted"
    """The measured saving lies in the interval."""
    BETTER = "Better"
    """It lies above."""
    LESS = "Less"
    """It lies below, and money was saved all the same."""
    LOSS = "Loss"
    """The same work costs as much as before, or more."""
    UNKNOWN = "Unknown"
    """Too few runs, or one without a price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The measurements after the change."""

    verdict: SavingVerdict
    runs: int
    saving: float | None
    """Of the cost for the same work; None: unknown."""
    cost_per_unit_micro_usd: int | None
    saved_micro_usd: int | None
    """In the days that were measured, negative for a loss; None: unknown."""

    @property
    def should_undo(self) -> bool:
        """Did the prediction fail, so that the change should be undone?"""
        return self.verdict in (SavingVerdict.LESS, SavingVerdict.LOSS)


def due_at(proposal: Proposal, applied_at: datetime) -> datetime:
    """The moment from which it can be verified."""
    return applied_at + timedelta(days=proposal.verify_days)


def verify_saving(proposal: Proposal, facts: Sequence[RunFact]) -> Verification:
    """What did this proposal save?

    A unit of work after the change, against one before it: more work is no loss, and less work is
    no saving.

    Args:
        facts: The runs of its deployment that were submitted while it was applied.
    """
    after = unit_cost(facts, proposal.unit)
    if len(facts) < LEAST_RUNS or after is None or after.micro_usd is None:
        return Verification(
            verdict=SavingVerdict.UNKNOWN,
            runs=len(facts),
            saving=None,
            cost_per_unit_micro_usd=None,
            saved_micro_usd=None,
        )
    before_micro_usd = proposal.cost_per_unit_micro_usd
    saving = 1 - after.micro_usd / before_micro_usd
    return Verification(
        verdict=_verdict(proposal, saving),
        runs=after.runs,
        saving=saving,
        cost_per_unit_micro_usd=round(after.micro_usd),
        saved_micro_usd=round(before_micro_usd * after.units) - after.cost_micro_usd,
    )


def _verdict(proposal: Proposal, saving: float) -> SavingVerdict:
    if saving <= 0:
        return SavingVerdict.LOSS
    if saving < proposal.saving.low:
        return SavingVerdict.LESS
    return SavingVerdict.BETTER if saving > proposal.saving.high else SavingVerdict.AS_PREDICTED


def verification_sentence(proposal: Proposal, found: Verification) -> str:
    """The measurements after the change, for people."""
    predicted = f"{proposal.saving.low:.0%} to {proposal.saving.high:.0%} were predicted"
    if found.saving is None or found.saved_micro_usd is None:
        return f"Not measurable: {found.runs} runs with a price since the change; {predicted}."
    saved = format_usd(abs(found.saved_micro_usd))
    word = "lost" if found.saved_micro_usd < 0 else "saved"
    said = (
        f"{saved} {word}, {found.saving:.0%} of the cost for the same work in {found.runs} runs; "
        f"{predicted}."
    )
    return f"{said} To revert it, run: {proposal.undo}" if found.should_undo else said


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """All proposals that were ever applied and measured, losses included."""

    applied: int
    measured: int
    in_interval: int
    losses: int
    saved_micro_usd: int
    """All savings less all losses."""

    @property
    def sentence(self) -> str:
        """The score, for people."""
        if not self.applied:
            return "No proposals have been applied yet."
        saved = format_usd(abs(self.saved_micro_usd))
        word = "lost" if self.saved_micro_usd < 0 else "saved"
        return (
            f"{self.applied} applied, {self.measured} measured: {saved} {word} in all, "
            f"{self.in_interval} within the predicted interval, {self.losses} with a loss."
        )


def score(applied: int, verifications: Iterable[Verification]) -> Score:
    """The score of the predictions so far.

    Args:
        applied: How many proposals were ever applied.
        verifications: The newest of each that was measured.
    """
    known = [v for v in verifications if v.saved_micro_usd is not None]
    return Score(
        applied=applied,
        measured=len(known),
        in_interval=sum(v.verdict is SavingVerdict.AS_PREDICTED for v in known),
        losses=sum(v.verdict is SavingVerdict.LOSS for v in known),
        saved_micro_usd=sum(v.saved_micro_usd or 0 for v in known),
    )
