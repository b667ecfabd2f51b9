"""The configuration on which a run costs least, for a deployment that has run on several."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, mean

import numpy as np

from gpu_core.decisions.model.units import format_duration, format_usd
from gpu_core.decisions.optimization.experiments.repeats import (
    difference,
    is_lower,
    t_quantile,
)
from gpu_core.decisions.optimization.proposals.drafts import Draft, draft
from gpu_core.decisions.optimization.proposals.interruption_model import Numbers
from gpu_core.decisions.optimization.proposals.kinds import ProposalKind
from gpu_core.decisions.optimization.proposals.period import Period
from gpu_core.decisions.optimization.proposals.proposal import Change
from gpu_core.decisions.optimization.proposals.run_facts import Configuration, RunFact

LEAST_RUNS = 10
"""On each of the two configurations."""

_FALSE_PROPOSALS = 0.001
"""The rate at which noise may become a proposal, over all comparisons of a night."""

_DRAWS = 2_000
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationCase:
    """One deployment on another configuration that it has been on."""

    usual: tuple[RunFact, ...]
    other: tuple[RunFact, ...]
    usual_on: Configuration
    other_on: Configuration
    draws: tuple[float, ...]
    """The saving, as a part of the cost, in each history that was drawn."""


def comparisons(facts: Sequence[RunFact]) -> list[tuple[Configuration, Configuration]]:
    """The configurations of a deployment that can be compared: the usual one with each other one.

    Only those that differ in one thing, GPU type or number: what differs in both leaves open which
    of them helped.
    """
    groups = _groups(facts)
    if not groups:
        return []
    usual = max(groups, key=lambda on: (len(groups[on]), on))
    return [
        (usual, other)
        for other, runs in sorted(groups.items())
        if other != usual
        and min(len(runs), len(groups[usual])) >= LEAST_RUNS
        and other.capacity_type == usual.capacity_type
        and (other.gpu_type == usual.gpu_type) != (other.gpu_count == usual.gpu_count)
    ]


def configuration_case(
    facts: Sequence[RunFact],
    usual_on: Configuration,
    other_on: Configuration,
    comparisons_made: int,
    period: Period,
    seed: Sequence[int],
) -> ConfigurationCase | None:
    """The saving of the deployment on the other configuration; None: it may be noise.

    The two means differ by Welch's test beyond the permitted false proposals, shared between all
    comparisons (Bonferroni). So do those of the logarithms: costs are skewed, and of few runs a low
    mean comes with a low deviation.

    Args:
        facts: The runs of the deployment.
        comparisons_made: How many comparisons are made in all.
        seed: Of the draws.
    """
    groups = _groups(facts)
    usual, other = groups[usual_on], groups[other_on]
    before, after = _costs(usual), _costs(other)
    if before is None or after is None:
        return None
    # Two-sided, of which only the one side is a proposal.
    false_part = 2 * _FALSE_PROPOSALS / max(1, comparisons_made)
    if not is_beyond_noise(after, before, false_part):
        return None
    future = max(1, round(len(facts) * period.verify_days / period.days))
    rng = np.random.default_rng(seed)
    drawn = _draws(after, before, future, false_part, rng)
    return ConfigurationCase(
        usual=usual, other=other, usual_on=usual_on, other_on=other_on, draws=drawn
    )


def is_beyond_noise(after: Numbers, before: Numbers, false_part: float) -> bool:
    """Are these costs lower, as they are and as logarithms?

    Args:
        after: One cost for each run, 0 or more. Where one is 0 there are no logarithms.
        before: The same of the other runs.
        false_part: Of comparisons in which only noise varies: how many may name a difference.
    """
    if not is_lower(after.tolist(), before.tolist(), false_part=false_part):
        return False
    if min(after.min(), before.min()) <= 0:
        return True
    return is_lower(np.log(after).tolist(), np.log(before).tolist(), false_part=false_part)


def _draws(
    after: Numbers, before: Numbers, future: int, false_part: float, rng: np.random.Generator
) -> tuple[float, ...]:
    """The saving in histories of as many future runs.

    What the mean is, is as uncertain as how runs vary. A saving is proposed only where it was seen
    beyond noise, so that chance often made it look larger: a truth that would rarely be seen counts
    for as much more (conditional likelihood: Zhong and Prentice, Biostatistics 9, 2008).
    """
    futures, gaps = np.empty(_DRAWS), np.empty(_DRAWS)
    samples = _widened(after), _widened(before)
    for draw in range(_DRAWS):
        could_be, could_have_been = (rng.choice(costs, size=len(costs)) for costs in samples)
        futures[draw] = rng.choice(could_be, size=future).mean()
        gaps[draw] = could_have_been.mean() - could_be.mean()
    weights = 1 / _chance_to_be_seen(gaps, after, before, false_part)
    chosen = rng.choice(_DRAWS, size=_DRAWS, p=weights / weights.sum())
    return tuple(float(x) for x in 1 - futures[chosen] / before.mean())


def _widened(costs: Numbers) -> Numbers:
    """The deviations of n observations are too small by sqrt((n - 1) / n)."""
    wider: Numbers = costs.mean() + (costs - costs.mean()) * np.sqrt(len(costs) / (len(costs) - 1))
    return wider


def _chance_to_be_seen(
    gaps: Numbers, after: Numbers, before: Numbers, false_part: float
) -> Numbers:
    """How likely is a difference beyond noise where the true one is this large?"""
    found = difference(after.tolist(), before.tolist())
    if found.error == 0:
        return np.ones_like(gaps)
    limit = t_quantile(1 - false_part / 2, found.freedom)
    return np.array([_NORMAL.cdf(gap / found.error - limit) for gap in gaps])


def _groups(facts: Sequence[RunFact]) -> dict[Configuration, tuple[RunFact, ...]]:
    """Runs by what they were on."""
    found: dict[Configuration, list[RunFact]] = defaultdict(list)
    for fact in facts:
        if fact.configuration is not None:
            found[fact.configuration].append(fact)
    return {on: tuple(runs) for on, runs in found.items()}


def _costs(facts: Sequence[RunFact]) -> Numbers | None:
    """The cost of each run, with its part of the runs that were not completed; None: unknown."""
    costs = [fact.cost_micro_usd for fact in facts if fact.cost_micro_usd is not None]
    completed = sum(fact.is_completed for fact in facts)
    if len(costs) < len(facts) or not completed:
        return None
    return np.array(costs, dtype=np.float64) * len(facts) / completed


def configuration_drafts(
    facts: Sequence[RunFact], comparisons_made: int, period: Period, seed: tuple[int, int]
) -> list[Draft | None]:
    """The proposals to this deployment, of the configurations that it has been on.

    Args:
        facts: Its runs.
        comparisons_made: How many comparisons are made in all.
        seed: The same gives the same proposals.
    """
    first, number = seed
    found = []
    for pair, (usual, other) in enumerate(comparisons(facts)):
        numbers = (first, 3, number, pair)
        case = configuration_case(facts, usual, other, comparisons_made, period, numbers)
        if case is not None:
            found.append(_draft(case, facts, period))
    return found


def _draft(case: ConfigurationCase, facts: Sequence[RunFact], period: Period) -> Draft | None:
    usual, other = case.usual_on, case.other_on
    if usual.gpu_type != other.gpu_type:
        kind = ProposalKind.GPU_TYPE
        change = Change(variable="gpu_type", observed=usual.gpu_type, proposed=other.gpu_type)
    else:
        kind = ProposalKind.GPU_COUNT
        change = Change(
            variable="gpu_count", observed=str(usual.gpu_count), proposed=other.gpu_count
        )
    ratio = mean(f.held_s for f in case.other) / mean(f.held_s for f in case.usual)
    return draft(
        kind,
        facts,
        change,
        case.draws,
        period,
        base=case.usual,
        on=other,
        held_s={f.run.flow_run_id: f.held_s * ratio for f in case.usual},
        why=f"Runs on {other} are less expensive than runs on {usual}.",
        evidence=_evidence(case),
        risk=(
            "The inputs of the compared runs may differ, because inputs are not recorded in the "
            "ledger. Runs with higher memory requirements may fail."
        ),
    )


def _evidence(case: ConfigurationCase) -> tuple[str, ...]:
    return tuple(
        f"{len(facts)} runs on {on} cost "
        f"{format_usd(round(sum(f.cost_micro_usd or 0 for f in facts) / len(facts)))} each and "
        f"held their GPUs for {format_duration(sum(f.held_s for f in facts) / len(facts))} "
        f"(means); {sum(not f.is_completed for f in facts)} of them did not complete."
        for facts, on in ((case.usual, case.usual_on), (case.other, case.other_on))
    )
