"""Spot in place of on-demand: the deployments for which it pays, with the cost of interruptions."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from gpu_core.decisions.catalog.offerings import Catalog
from gpu_core.decisions.model.cluster import ON_DEMAND, SPOT
from gpu_core.decisions.model.units import SECONDS_PER_HOUR, format_duration
from gpu_core.decisions.optimization.proposals.drafts import Draft, draft, held_by_run
from gpu_core.decisions.optimization.proposals.interruption_model import (
    MOST_EXPECTED_INTERRUPTIONS,
    Hazard,
    checkpoint_interval_s,
    observed_hazard,
    prior_hazard,
    simulated_held_s,
)
from gpu_core.decisions.optimization.proposals.kinds import ProposalKind, WorkUnit
from gpu_core.decisions.optimization.proposals.mean_held import (
    SIMULATIONS,
    mean_held_with_interval,
)
from gpu_core.decisions.optimization.proposals.period import Period
from gpu_core.decisions.optimization.proposals.proposal import Change
from gpu_core.decisions.optimization.proposals.resampling import by_day, future_history
from gpu_core.decisions.optimization.proposals.run_facts import Configuration, RunFact
from gpu_core.decisions.optimization.proposals.unit_cost import unit_cost

LEAST_RUNS = 10
"""Fewer runs say little about the next ones."""

_DRAWS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotTerms:
    """The price of spot of a GPU type and its rate of interruptions."""

    price_ratio: float
    """Of the price on-demand."""
    price_source: str
    hazard: Hazard
    hazard_source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotCase:
    """One deployment on spot."""

    facts: tuple[RunFact, ...]
    gpu_type: str
    terms: SpotTerms
    interval_s: float | None
    """Work between two checkpoints; None: it saves none."""
    draws: tuple[float, ...]
    """The saving, as a part of the cost, in each history that was drawn."""


def spot_price_ratio(
    gpu_type: str, everything: Sequence[RunFact], catalog: Catalog
) -> tuple[float, str] | None:
    """The price of spot as a part of the on-demand price of this GPU type, with its source.

    The prices that runs of the period paid count before those of the catalog, of which the median
    of the zones counts: the cheapest zone has not room for all.
    """
    paid = {
        kind: [
            attempt.price_micro_usd_per_gpu_hour
            for fact in everything
            for attempt in fact.attempts
            if attempt.gpu_type == gpu_type
            and attempt.capacity_type == kind
            and attempt.price_micro_usd_per_gpu_hour
        ]
        for kind in (ON_DEMAND, SPOT)
    }
    if paid[ON_DEMAND] and paid[SPOT]:
        return median(paid[SPOT]) / median(paid[ON_DEMAND]), "the prices that runs paid"
    ratios = [
        offering.price.micro_usd_per_hour / on_demand.price.micro_usd_per_hour
        for offering in catalog.offerings.values()
        if offering.key.capacity_type == SPOT
        and catalog.instance_type(offering).gpu_type == gpu_type
        and offering.price.source is not None
        and catalog.is_available(offering)
        and (on_demand := catalog.on_demand(offering.key)) is not None
        and on_demand.price.source is not None
        and on_demand.price.micro_usd_per_hour
    ]
    return (median(ratios), f"the catalog, {len(ratios)} zones") if ratios else None


def spot_hazard(
    gpu_type: str, everything: Sequence[RunFact], attempt_s: float
) -> tuple[Hazard, str]:
    """How often is spot of this GPU type interrupted, and by which observations?

    Attempts on spot of that type count; where there is none, those of all types; where there is
    none of these either, the prior.
    """
    on_spot = [a for fact in everything for a in fact.attempts if a.capacity_type == SPOT]
    of_type = [attempt for attempt in on_spot if attempt.gpu_type == gpu_type]
    for attempts, name in ((of_type, f"spot {gpu_type}"), (on_spot, "spot of other GPU types")):
        hazard = observed_hazard(attempts)
        # Attempts that held nothing for any time say nothing, least of all "never".
        if hazard.exposure_h:
            return hazard, f"{len(attempts)} attempts on {name}"
    return prior_hazard(attempt_s), "public traces of spot, because no run was on spot"


def spot_case(
    facts: Sequence[RunFact],
    everything: Sequence[RunFact],
    period: Period,
    catalog: Catalog,
    seed: Sequence[int],
) -> SpotCase | None:
    """The saving of this deployment on spot; None: too little is known, or it is on spot.

    Args:
        facts: The runs of one deployment.
        everything: The runs of all, for prices and interruptions.
    """
    types = {attempt.gpu_type for fact in facts for attempt in fact.attempts}
    kinds = {attempt.capacity_type for fact in facts for attempt in fact.attempts}
    gpu_type = next(iter(types)) if len(types) == 1 else None
    is_simple = all(fact.configuration is not None for fact in facts)
    if gpu_type is None or not is_simple or kinds != {ON_DEMAND} or len(facts) < LEAST_RUNS:
        return None
    price = spot_price_ratio(gpu_type, everything, catalog)
    base = unit_cost(facts, WorkUnit.GPU_HOUR_OF_WORK)
    if price is None or base is None or base.micro_usd is None:
        return None
    longest_s = max(fact.work_s for fact in facts)
    hazard, hazard_source = spot_hazard(gpu_type, everything, longest_s)
    interval_s = checkpoint_interval_s(facts)
    at_stake_h = (longest_s if interval_s is None else interval_s) / SECONDS_PER_HOUR
    if hazard.per_hour * at_stake_h > MOST_EXPECTED_INTERRUPTIONS:
        return None
    terms = SpotTerms(
        price_ratio=price[0], price_source=price[1], hazard=hazard, hazard_source=hazard_source
    )
    draws = _draws(facts, base.micro_usd, terms, interval_s, period, np.random.default_rng(seed))
    return SpotCase(
        facts=tuple(facts), gpu_type=gpu_type, terms=terms, interval_s=interval_s, draws=draws
    )


def _draws(
    facts: Sequence[RunFact],
    base_micro_usd: float,
    terms: SpotTerms,
    interval_s: float | None,
    period: Period,
    rng: np.random.Generator,
) -> tuple[float, ...]:
    days = by_day(facts, period.first, period.last)
    rates = terms.hazard.draws(rng, _DRAWS)
    histories = [future_history(days, period.verify_days, rng) for _ in range(_DRAWS)]
    chosen = np.array([index for history in histories for index in history], dtype=np.intp)
    if not chosen.size:
        return ()
    draw_of = np.repeat(np.arange(_DRAWS), [len(history) for history in histories])
    work_s = np.array([fact.work_s for fact in facts])
    startup_s = np.array([fact.startup_s for fact in facts])
    is_completed = np.array([fact.is_completed for fact in facts])
    micro_usd_per_s = np.array([_micro_usd_per_s(fact) for fact in facts]) * terms.price_ratio
    held_s = simulated_held_s(work_s[chosen], rates[draw_of], startup_s[chosen], interval_s, rng)
    gpu_h = np.array([fact.work_gpu_h for fact in facts]) * is_completed
    cost = np.bincount(draw_of, weights=held_s * micro_usd_per_s[chosen], minlength=_DRAWS)
    work = np.bincount(draw_of, weights=gpu_h[chosen], minlength=_DRAWS)
    known = work > 0
    return tuple(float(x) for x in 1 - cost[known] / work[known] / base_micro_usd)


def _micro_usd_per_s(fact: RunFact) -> float:
    return (fact.cost_micro_usd or 0) / fact.held_s if fact.held_s else 0.0


def spot_draft(
    facts: Sequence[RunFact],
    everything: Sequence[RunFact],
    period: Period,
    catalog: Catalog,
    seed: tuple[int, int],
) -> Draft | None:
    """Is spot proposed for this deployment? Args as for `spot_case`."""
    first, number = seed
    case = spot_case(facts, everything, period, catalog, (first, 1, number))
    if case is None:
        return None
    interruptions = "repeats the whole run" if case.interval_s is None else "loses unsaved work"
    held = mean_held_with_interval(
        np.array([fact.work_s for fact in case.facts]),
        np.full(len(case.facts), case.terms.hazard.per_hour),
        np.array([fact.startup_s for fact in case.facts]),
        case.interval_s,
        SIMULATIONS,
        np.random.default_rng((first, 2, number)),
    )
    gpu_count = case.facts[-1].attempts[-1].gpu_count
    return draft(
        ProposalKind.SPOT,
        case.facts,
        Change(variable="capacity_type", observed=ON_DEMAND, proposed=SPOT),
        case.draws,
        period,
        on=Configuration(case.gpu_type, gpu_count, SPOT),
        held_s=held_by_run(case.facts, held.mean_s),
        why=f"Spot {case.gpu_type} is less expensive, even when accounting for work lost to "
        "interruptions.",
        evidence=_evidence(case),
        risk=(
            f"An interruption {interruptions}, so runs may finish later. Spot capacity may not "
            "always be available."
        ),
    )


def _evidence(case: SpotCase) -> tuple[str, ...]:
    terms, hazard = case.terms, case.terms.hazard
    saves = (
        "No checkpoints were saved, so an interruption restarts the entire run."
        if case.interval_s is None
        else f"Checkpoints are saved approximately every {format_duration(case.interval_s)}."
    )
    return (
        f"{len(case.facts)} runs held on-demand {case.gpu_type} for "
        f"{sum(fact.held_gpu_h for fact in case.facts):,.1f} GPU-hours.",
        f"Spot costs {terms.price_ratio:.0%} of on-demand ({terms.price_source}).",
        f"{hazard.per_hour:.3f} interruptions per hour are expected ({terms.hazard_source}, "
        f"{hazard.interruptions:.0f} interruptions in {hazard.exposure_h:,.1f} h).",
        saves,
    )
