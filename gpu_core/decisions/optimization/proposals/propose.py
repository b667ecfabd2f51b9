"""From the ledger's rows to proposals, each simulated with the ledger's own history."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import mean

from gpu_core.decisions.catalog.offerings import Catalog
from gpu_core.decisions.costs.capacity.idle import CapacityCost
from gpu_core.decisions.optimization.proposals.analysis import Analysis, analyze
from gpu_core.decisions.optimization.proposals.checkpoint_proposals import checkpoint_draft
from gpu_core.decisions.optimization.proposals.configuration_proposals import (
    comparisons,
    configuration_drafts,
)
from gpu_core.decisions.optimization.proposals.drafts import Draft
from gpu_core.decisions.optimization.proposals.period import Period
from gpu_core.decisions.optimization.proposals.proposal import Proposal, WaitEffect
from gpu_core.decisions.optimization.proposals.replay import (
    Calibration,
    ReplayedPeriod,
    calibrated,
    replayed_waits_s,
    with_change,
)
from gpu_core.decisions.optimization.proposals.reserved_proposals import (
    MachineHistory,
    reserved_proposals,
)
from gpu_core.decisions.optimization.proposals.run_facts import Record, RunFact, run_facts
from gpu_core.decisions.optimization.proposals.sharing_proposals import sharing_draft
from gpu_core.decisions.optimization.proposals.spot_proposals import spot_draft
from gpu_core.decisions.policy.policy import Policy

_MOST_REPLAYS = 5
"""Of the largest savings: a replay of 8,000 runs takes some seconds."""

LEAST_DAYS = 4
"""On which runs of a deployment were submitted, as of one that runs once a week. Days are what
histories are drawn from: of one day all are alike, and each interval is too narrow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimization:
    """The costs of a period by purpose, and the proposals to reduce them."""

    period: Period
    analysis: Analysis
    calibration: Calibration
    proposals: tuple[Proposal, ...]
    """The largest saving first, then those that a person carries out. None where the replay is not
    close to what was recorded."""


def optimize(
    records: Iterable[Record],
    period: Period,
    now: datetime,
    *,
    policy: Policy,
    catalog: Catalog,
    capacity: CapacityCost | None = None,
    machines: MachineHistory | None = None,
    seed: int = 1,
) -> Optimization:
    """The changes that would have saved money in this period.

    Args:
        records: The runs that held GPUs in `period.to_read`, with all their attempts.
        period: The days that are judged.
        now: Runs that are not over by then are left out.
        policy: The policy that was in force, for the replay.
        catalog: Prices of what no run was on.
        capacity: What machines cost in the period; None: not known.
        machines: Which machines were there, for commitments; None: not known.
        seed: The same rows and seed give the same proposals.
    """
    everything = run_facts(records, period.to_read, now)
    facts = tuple(fact for fact in everything if fact.run.submitted_at in period.window)
    learned_from = everything[: len(everything) - len(facts)]
    replayed = _replayed(learned_from, facts, policy, seed)
    analysis = analyze(facts, capacity)
    drafts: list[Draft] = []
    by_hand: list[Proposal] = []
    if replayed.calibration.is_close:
        drafts = sorted(_drafts(facts, period, policy, catalog, seed), key=_largest_first)
        if machines is not None:
            by_hand = reserved_proposals(machines, period, now)
    return Optimization(
        period=period,
        analysis=analysis,
        calibration=replayed.calibration,
        proposals=(
            *(_with_waits(draft, replayed, policy) for draft in drafts[:_MOST_REPLAYS]),
            *(draft.proposal for draft in drafts[_MOST_REPLAYS:]),
            *by_hand,
        ),
    )


def _with_waits(draft: Draft, replayed: ReplayedPeriod, policy: Policy) -> Proposal:
    if draft.held_s is None:
        return draft.proposal
    changed = with_change(replayed, draft.proposal.deployment, draft.on, draft.held_s)
    waits = WaitEffect(
        before_s=replayed.calibration.replayed_wait_s,
        after_s=mean(replayed_waits_s(changed, policy)) + replayed.delay_s,
    )
    return replace(draft.proposal, waits=waits)


def _replayed(
    learned_from: Sequence[RunFact], facts: Sequence[RunFact], policy: Policy, seed: int
) -> ReplayedPeriod:
    """The replay of the period. Without enough earlier runs its first half teaches the second."""
    if len(learned_from) < len(facts) // 4:
        half = len(facts) // 2
        learned_from, facts = facts[:half], facts[half:]
    return calibrated(learned_from, facts, policy, (seed, 0))


def _drafts(
    facts: Sequence[RunFact], period: Period, policy: Policy, catalog: Catalog, seed: int
) -> list[Draft]:
    groups: Mapping[str, list[RunFact]] = defaultdict(list)
    for fact in facts:
        if fact.run.deployment is not None:
            groups[fact.run.deployment].append(fact)
    # What costs nothing, such as owned GPUs at a price of 0, has no part that could be saved.
    groups = {
        name: runs
        for name, runs in groups.items()
        if _days(runs) >= LEAST_DAYS and any(fact.cost_micro_usd for fact in runs)
    }
    made = sum(len(comparisons(runs)) for runs in groups.values())
    found: list[Draft | None] = []
    for number, (_, runs) in enumerate(sorted(groups.items())):
        found.append(spot_draft(runs, facts, period, catalog, (seed, number)))
        found += configuration_drafts(runs, made, period, (seed, number))
        found.append(checkpoint_draft(runs, period, (seed, number)))
        found.append(sharing_draft(runs, facts, policy.idle, period, (seed, number)))
    return [each for each in found if each is not None]


def _days(runs: Sequence[RunFact]) -> int:
    return len({fact.day for fact in runs})


def _largest_first(draft: Draft) -> tuple[int, str]:
    saving = draft.proposal.saving
    return (-saving.micro_usd(saving.expected), draft.proposal.proposal_id)
