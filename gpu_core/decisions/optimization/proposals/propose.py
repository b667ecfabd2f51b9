"""From the ledger's rows to proposals, each simulated with the ledger's own history."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import mean

import numpy as np

from gpu_core.decisions.catalog.offerings import Catalog
from gpu_core.decisions.costs.capacity.idle import CapacityCost
from gpu_core.decisions.model.attempts import Provenance
from gpu_core.decisions.model.cluster import ON_DEMAND, SPOT
from gpu_core.decisions.optimization.proposals.analysis import Analysis, analyse
from gpu_core.decisions.optimization.proposals.configuration_proposals import (
    ConfigurationCase,
    comparisons,
    configuration_case,
    configuration_evidence,
)
from gpu_core.decisions.optimization.proposals.interruption_model import simulated_held_s
from gpu_core.decisions.optimization.proposals.period import Period
from gpu_core.decisions.optimization.proposals.proposal import (
    Change,
    Proposal,
    ProposalKind,
    Saving,
    Unit,
    WaitEffect,
    proposal_id,
)
from gpu_core.decisions.optimization.proposals.replay import (
    Calibration,
    Replayed,
    calibrated,
    replayed_waits_s,
    with_change,
)
from gpu_core.decisions.optimization.proposals.run_facts import (
    Configuration,
    Record,
    RunFact,
    run_facts,
)
from gpu_core.decisions.optimization.proposals.spot_proposals import (
    SpotCase,
    spot_case,
    spot_evidence,
)
from gpu_core.decisions.optimization.proposals.unit_cost import unit_cost
from gpu_core.decisions.policy.policy import Policy

LEAST_SAVING = 0.05
"""Of a deployment's cost. Less is not worth a change."""

_LOW, _HIGH = 10, 90
"""Percentiles: 80 % of the histories lie between them."""

_MONTH_DAYS = 30

_MOST_REPLAYS = 5
"""Of the largest savings: a replay of 8,000 runs takes some seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimization:
    """The costs of a period by purpose, and the proposals to reduce them."""

    period: Period
    analysis: Analysis
    calibration: Calibration
    proposals: tuple[Proposal, ...]
    """The largest saving first. None where the replay is not close to what was recorded."""


def optimize(
    records: Iterable[Record],
    period: Period,
    now: datetime,
    *,
    policy: Policy,
    catalog: Catalog,
    capacity: CapacityCost | None = None,
    seed: int = 1,
) -> Optimization:
    """Which changes would have saved money in this period?

    Args:
        records: The runs that held GPUs in `period.to_read`, with all their attempts.
        period: The days that are judged.
        now: Runs that are not over by then are left out.
        policy: The policy that was in force, for the replay.
        catalog: Prices of what no run was on.
        capacity: What machines cost in the period; None: not known.
        seed: The same rows and seed give the same proposals.
    """
    everything = run_facts(records, period.to_read, now)
    facts = tuple(fact for fact in everything if fact.run.submitted_at in period.window)
    learned_from = everything[: len(everything) - len(facts)]
    replayed = _replayed(learned_from, facts, policy, seed)
    analysis = analyse(facts, capacity)
    drafts: list[_Draft] = []
    if replayed.calibration.is_close:
        drafts = sorted(_drafts(facts, period, catalog, seed), key=_largest_first)
    return Optimization(
        period=period,
        analysis=analysis,
        calibration=replayed.calibration,
        proposals=(
            *(_with_waits(draft, replayed, policy) for draft in drafts[:_MOST_REPLAYS]),
            *(draft.proposal for draft in drafts[_MOST_REPLAYS:]),
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """A proposal, and what it means for the replay."""

    proposal: Proposal
    on: Configuration
    held_s: Mapping[str, float]
    """How long its runs would hold their GPUs, by flow run."""


def _with_waits(draft: _Draft, replayed: Replayed, policy: Policy) -> Proposal:
    changed = with_change(replayed, draft.proposal.deployment, draft.on, draft.held_s)
    waits = WaitEffect(
        before_s=replayed.calibration.replayed_wait_s,
        after_s=mean(replayed_waits_s(changed, policy)) + replayed.delay_s,
    )
    return replace(draft.proposal, waits=waits)


def _replayed(
    learned_from: Sequence[RunFact], facts: Sequence[RunFact], policy: Policy, seed: int
) -> Replayed:
    """The replay of the period. Without enough earlier runs its first half teaches the second."""
    if len(learned_from) < len(facts) // 4:
        half = len(facts) // 2
        learned_from, facts = facts[:half], facts[half:]
    return calibrated(learned_from, facts, policy, (seed, 0))


def _drafts(facts: Sequence[RunFact], period: Period, catalog: Catalog, seed: int) -> list[_Draft]:
    groups: dict[str, list[RunFact]] = defaultdict(list)
    for fact in facts:
        if fact.run.deployment is not None:
            groups[fact.run.deployment].append(fact)
    made = sum(len(comparisons(runs)) for runs in groups.values())
    found: list[_Draft] = []
    for number, (_, runs) in enumerate(sorted(groups.items())):
        on_spot = spot_case(runs, facts, period, catalog, (seed, 1, number))
        if on_spot is not None:
            found += _spot_draft(on_spot, period, (seed, 2, number))
        for pair, (usual, other) in enumerate(comparisons(runs)):
            case = configuration_case(runs, usual, other, made, period, (seed, 3, number, pair))
            if case is not None:
                found += _configuration_draft(case, runs, period)
    return found


def _spot_draft(case: SpotCase, period: Period, seed: Sequence[int]) -> list[_Draft]:
    saving = _saving(case.draws, case.facts, period)
    base = unit_cost(case.facts, Unit.GPU_HOUR_OF_WORK)
    if saving is None or base is None or base.micro_usd is None:
        return []
    interruptions = "repeats the whole run" if case.interval_s is None else "loses unsaved work"
    change = Change(variable="capacity_type", observed=ON_DEMAND, proposed=SPOT)
    held_s = simulated_held_s(
        np.array([fact.work_s for fact in case.facts]),
        np.full(len(case.facts), case.terms.hazard.per_hour),
        np.array([fact.startup_s for fact in case.facts]),
        case.interval_s,
        np.random.default_rng(seed),
    )
    on = case.facts[-1].configuration
    assert on is not None  # noqa: S101 - such a case has one GPU type
    proposed = _proposal(
        ProposalKind.SPOT,
        case.facts,
        (change,),
        period,
        saving,
        unit=Unit.GPU_HOUR_OF_WORK,
        cost_per_unit_micro_usd=round(base.micro_usd),
        why=f"Spot {case.gpu_type} costs less, also with the work that interruptions lose.",
        evidence=spot_evidence(case),
        risk=(
            f"An interruption {interruptions}, so that a run may end later. Whether there is spot "
            "capacity at all times is not known."
        ),
    )
    times = dict(zip((f.run.flow_run_id for f in case.facts), map(float, held_s), strict=True))
    spot = Configuration(on.gpu_type, on.gpu_count, SPOT)
    return [_Draft(proposal=proposed, on=spot, held_s=times)]


def _configuration_draft(
    case: ConfigurationCase, facts: Sequence[RunFact], period: Period
) -> list[_Draft]:
    saving = _saving(case.draws, facts, period)
    base = unit_cost(case.usual, Unit.COMPLETED_RUN)
    if saving is None or base is None or base.micro_usd is None:
        return []
    usual, other = case.usual_on, case.other_on
    if usual.gpu_type != other.gpu_type:
        kind = ProposalKind.GPU_TYPE
        change = Change(variable="gpu_type", observed=usual.gpu_type, proposed=other.gpu_type)
    else:
        kind = ProposalKind.GPU_COUNT
        change = Change(
            variable="gpu_count", observed=str(usual.gpu_count), proposed=other.gpu_count
        )
    proposed = _proposal(
        kind,
        facts,
        (change,),
        period,
        saving,
        unit=Unit.COMPLETED_RUN,
        cost_per_unit_micro_usd=round(base.micro_usd),
        why=f"A run costs less on {other} than on {usual}.",
        evidence=configuration_evidence(case),
        risk=(
            "The runs on the two may have had other inputs: the ledger does not know what a run "
            "was given. Runs that need more memory than these may fail."
        ),
    )
    ratio = mean(f.held_s for f in case.other) / mean(f.held_s for f in case.usual)
    times = {f.run.flow_run_id: f.held_s * ratio for f in case.usual}
    return [_Draft(proposal=proposed, on=other, held_s=times)]


def _saving(draws: Sequence[float], facts: Sequence[RunFact], period: Period) -> Saving | None:
    """The saving of a change; None if the change may cost more, or saves too little."""
    if not draws:
        return None
    low, expected, high = (float(x) for x in np.percentile(draws, (_LOW, 50, _HIGH)))
    if low <= 0 or expected < LEAST_SAVING:
        return None
    spent = sum(fact.cost_micro_usd or 0 for fact in facts)
    monthly = round(spent * _MONTH_DAYS / period.days)
    return Saving(low=low, expected=expected, high=high, monthly_cost_micro_usd=monthly)


def _proposal(
    kind: ProposalKind,
    facts: Sequence[RunFact],
    changes: tuple[Change, ...],
    period: Period,
    saving: Saving,
    *,
    unit: Unit,
    cost_per_unit_micro_usd: int,
    why: str,
    evidence: tuple[str, ...],
    risk: str,
) -> Proposal:
    run = facts[-1].run
    deployment = run.deployment or ""
    variables = {change.variable: change.proposed for change in changes}
    return Proposal(
        proposal_id=proposal_id(kind, deployment, run.pool, variables, period.last),
        kind=kind,
        deployment=deployment,
        pool=run.pool,
        changes=changes,
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


def _largest_first(draft: _Draft) -> tuple[int, str]:
    saving = draft.proposal.saving
    return (-saving.micro_usd(saving.expected), draft.proposal.proposal_id)
