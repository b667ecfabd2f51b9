"""A proposal before the planner has replayed it, and what all kinds of it have in common."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpu_core.decisions.model.attempts import Provenance
from gpu_core.decisions.optimization.proposals.interruption_model import Numbers
from gpu_core.decisions.optimization.proposals.kinds import ProposalKind
from gpu_core.decisions.optimization.proposals.period import Period
from gpu_core.decisions.optimization.proposals.proposal import (
    Change,
    Proposal,
    Saving,
    proposal_id,
)
from gpu_core.decisions.optimization.proposals.run_facts import Configuration, RunFact
from gpu_core.decisions.optimization.proposals.unit_cost import unit_cost

LEAST_SAVING = 0.05
"""Of a deployment's cost. Less is not worth a change."""

_LOW, _HIGH = 10, 90
"""Percentiles: 80% of the histories lie between them."""

_MONTH_DAYS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A proposal, and what it means for the replay."""

    proposal: Proposal
    on: Configuration | None
    """The configuration that its runs would be on; None: the one that they were on."""
    held_s: Mapping[str, float] | None
    """How long its runs would hold their GPUs, by flow run; None: the replay cannot show it."""


def draft(
    kind: ProposalKind,
    facts: Sequence[RunFact],
    change: Change,
    draws: Sequence[float],
    period: Period,
    *,
    base: Sequence[RunFact] | None = None,
    on: Configuration | None = None,
    held_s: Mapping[str, float] | None,
    why: str,
    evidence: tuple[str, ...],
    risk: str,
) -> Draft | None:
    """The proposal of this change; None: it may cost more, saves too little, or has no price.

    Args:
        facts: The runs of one deployment.
        change: Its job variable.
        draws: The saving, as a part of the cost, in each history that was drawn.
        base: The runs that the saving is compared with; None: all.
        on: See `Draft`.
        held_s: See `Draft`.
        why: A sentence.
        evidence: Sentences with numbers.
        risk: What may go wrong, in sentences.
    """
    saving = saving_of(draws, sum(fact.cost_micro_usd or 0 for fact in facts), period)
    unit = kind.rule.unit
    before = unit_cost(facts if base is None else base, unit)
    cost_per_unit_micro_usd = 0 if before is None else round(before.micro_usd or 0)
    if saving is None or not cost_per_unit_micro_usd:
        return None
    run = facts[-1].run
    deployment = run.deployment or ""
    variables = {change.variable: change.proposed}
    proposal = Proposal(
        proposal_id=proposal_id(kind, deployment, run.pool, variables, period.last),
        kind=kind,
        deployment=deployment,
        pool=run.pool,
        changes=(change,),
        why=why,
        evidence=evidence,
        first_day=period.first,
        last_day=period.last,
        unit=unit,
        cost_per_unit_micro_usd=cost_per_unit_micro_usd,
        verify_days=period.verify_days,
        saving=saving,
        waits=None,
        risk=risk,
        has_generated=any(f.run.provenance is Provenance.GENERATED for f in facts),
    )
    return Draft(proposal=proposal, on=on, held_s=held_s)


def held_by_run(facts: Sequence[RunFact], held_s: Numbers) -> dict[str, float]:
    """The time for which each of these runs would hold its GPUs, by flow run."""
    return dict(zip((f.run.flow_run_id for f in facts), map(float, held_s), strict=True))


def saving_of(draws: Sequence[float], spent_micro_usd: int, period: Period) -> Saving | None:
    """The saving of a change; None: it may cost more, or saves too little.

    Args:
        draws: The saving, as a part of the cost, in each history that was drawn.
        spent_micro_usd: The cost in the period.
        period: Its days.
    """
    if not draws:
        return None
    low, expected, high = (float(x) for x in np.percentile(draws, (_LOW, 50, _HIGH)))
    return saving_between(low, expected, high, spent_micro_usd, period)


def saving_between(
    low: float, expected: float, high: float, spent_micro_usd: int, period: Period
) -> Saving | None:
    """The saving with this interval; None: the lower end is a loss, or the saving is too small.

    Args:
        low: The lower end, as a part of the cost, at most 1. A loss is below 0.
        expected: The same of the middle.
        high: The same of the upper end.
        spent_micro_usd: The cost in the period.
        period: The days in which it was spent.
    """
    if low <= 0 or expected < LEAST_SAVING:
        return None
    monthly = round(spent_micro_usd * _MONTH_DAYS / period.days)
    return Saving(low=low, expected=expected, high=high, monthly_cost_micro_usd=monthly)
