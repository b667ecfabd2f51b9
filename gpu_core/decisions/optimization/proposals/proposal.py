"""A proposal: what would change, why, what it saves, and how it is undone."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.optimization.proposals.kinds import ProposalKind, WorkUnit

JobValue = str | int | float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One job variable of the deployment."""

    variable: str
    observed: str
    """The value of the runs of the period."""
    proposed: JobValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """A saving in money and as a part of the cost, with the interval that holds it in 80%."""

    low: float
    """Of the cost for the same work: 0.1 is 10%."""
    expected: float
    high: float
    monthly_cost_micro_usd: int
    """The cost of the deployment in 30 days as it is."""

    def micro_usd(self, fraction: float) -> int:
        """This part of the monthly cost."""
        return round(fraction * self.monthly_cost_micro_usd)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitEffect:
    """The effect on waits in the replay: the mean of all runs before and after."""

    before_s: float
    after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """One change to one deployment."""

    proposal_id: str
    kind: ProposalKind
    deployment: str
    """`flow/deployment`, as Prefect names it; of `reserved` the kind of machine."""
    pool: str
    changes: tuple[Change, ...]
    why: str
    evidence: tuple[str, ...]
    """Sentences with numbers."""
    first_day: date
    last_day: date
    """The period that it is made from, in UTC."""
    unit: WorkUnit
    cost_per_unit_micro_usd: int
    """The cost of a unit of work in the period."""
    verify_days: int
    """The saving is predicted for this many days, and measured when they are over."""
    saving: Saving
    waits: WaitEffect | None
    """The effect on waits. None: unknown, because the replay does not reproduce the recorded
    waits."""
    risk: str
    has_generated: bool
    """Runs that were generated are part of the evidence."""

    @property
    def is_by_hand(self) -> bool:
        """Does a person carry it out, so that the flows only show it?"""
        return self.kind.rule.by_hand is not None

    @property
    def apply(self) -> str:
        """The command that asks a person about it, when the flow `propose-savings` has recorded
        it; what a person does by hand."""
        return self.kind.rule.by_hand or (
            "prefect deployment run apply-saving/by-request "
            f"--param proposal_id={self.proposal_id} --param dry_run=false"
        )

    @property
    def undo(self) -> str:
        """The command that undoes it."""
        return "by hand" if self.is_by_hand else f"prefect-gpu optimize undo {self.proposal_id}"

    @property
    def job_variables(self) -> dict[str, JobValue]:
        """The job variables that the deployment would have."""
        return {change.variable: change.proposed for change in self.changes}


_ESTIMATED = frozenset({ProposalKind.CHECKPOINT_INTERVAL})
"""Kinds whose value is estimated anew each night: some seconds more are no other change."""


def change_key(
    kind: ProposalKind, deployment: str, pool: str, variables: Mapping[str, JobValue]
) -> list[object]:
    """The parts of a change that make it another one. Equal for the same change, as JSON."""
    changed = sorted(variables) if kind in _ESTIMATED else sorted(variables.items())
    return [kind.value, deployment, pool, changed]


def proposal_id(
    kind: ProposalKind, deployment: str, pool: str, variables: Mapping[str, JobValue], last: date
) -> str:
    """The id of this proposal. The same change to the same deployment has one id a month."""
    content = [*change_key(kind, deployment, pool, variables), f"{last:%Y-%m}"]
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    return f"{kind.value}-{digest[:8]}"


def to_document(proposal: Proposal) -> dict[str, Any]:
    """The proposal as plain values, for JSON."""
    plain: dict[str, Any] = json.loads(json.dumps(asdict(proposal), default=str))
    return plain | {"apply": proposal.apply, "undo": proposal.undo}


def from_document(document: Mapping[str, Any]) -> Proposal:
    """The proposal that was made such a document.

    Raises:
        InvalidInput: It is of another version, or was changed.
    """
    try:
        values = {name: document[name] for name in Proposal.__slots__}
        waits = values["waits"]
        return Proposal(
            **values
            | {
                "kind": ProposalKind(values["kind"]),
                "changes": tuple(Change(**change) for change in values["changes"]),
                "evidence": tuple(values["evidence"]),
                "first_day": date.fromisoformat(values["first_day"]),
                "last_day": date.fromisoformat(values["last_day"]),
                "unit": WorkUnit(values["unit"]),
                "saving": Saving(**values["saving"]),
                "waits": None if waits is None else WaitEffect(**waits),
            }
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput("proposal", "cannot be read from its record", got=str(error)) from None
