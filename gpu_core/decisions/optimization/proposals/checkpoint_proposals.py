"""Another checkpoint interval: from what saves cost, and what interruptions lost."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpu_core.decisions.checkpoints.save_interval import (
    IntervalSettings,
    SaveTime,
    SaveTimes,
    save_interval,
)
from gpu_core.decisions.model.capacity_life import CapacityLife
from gpu_core.decisions.model.units import SECONDS_PER_HOUR, format_duration
from gpu_core.decisions.optimization.proposals.drafts import Draft, draft, held_by_run
from gpu_core.decisions.optimization.proposals.interruption_model import (
    Hazard,
    Numbers,
    observed_breaks,
)
from gpu_core.decisions.optimization.proposals.kinds import ProposalKind
from gpu_core.decisions.optimization.proposals.mean_held import (
    SIMULATIONS,
    Indices,
    MeanHeld,
    mean_held,
)
from gpu_core.decisions.optimization.proposals.period import Period
from gpu_core.decisions.optimization.proposals.proposal import Change
from gpu_core.decisions.optimization.proposals.resampling import by_day, future_history
from gpu_core.decisions.optimization.proposals.run_facts import RunFact
from gpu_core.decisions.optimization.proposals.saves import (
    Saves,
    observed_saves,
    simulated_with_saves_s,
)

MOST_MODEL_ERROR = 0.05
"""How far the model may be from the cost of the period, as a part of it."""

_DRAWS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCase:
    """One deployment with another interval."""

    facts: tuple[RunFact, ...]
    saves: Saves
    breaks: Hazard
    proposed_s: int
    draws: tuple[float, ...]
    """The saving, as a part of the cost, in each history that was drawn."""


def checkpoint_case(
    facts: Sequence[RunFact], period: Period, seed: Sequence[int]
) -> CheckpointCase | None:
    """The saving of this deployment at the interval of `checkpoints.save_interval`.

    Both intervals are simulated, so that what the model leaves out is not taken for a saving. It is
    measured against the cost of the period, in which there were more or fewer interruptions than
    usual by chance.

    Args:
        facts: The runs of one deployment.
        period: The days that are judged.
        seed: Of the draws.

    Returns:
        None: too little is known, or the model does not reproduce the cost of the period.
    """
    saves = observed_saves(facts)
    is_priced = all(fact.cost_micro_usd is not None for fact in facts)
    if saves is None or not saves.unannounced_ratio or not is_priced:
        return None
    breaks = observed_breaks(attempt for fact in facts for attempt in fact.attempts)
    times = SaveTimes((SaveTime(saves.stall_s, saves.persist_s),))
    life = CapacityLife.constant(SECONDS_PER_HOUR / breaks.per_hour)
    settings = IntervalSettings(unannounced_share=saves.unannounced_ratio)
    proposed_s = round(save_interval(times, life, settings=settings).interval_s)
    rng = np.random.default_rng(seed)
    as_it_was = _model_cost(facts, saves, breaks, rng)
    recorded = float(_micro_usd_per_s(facts) @ np.array([fact.held_s for fact in facts]))
    if abs(as_it_was.mean - recorded) > MOST_MODEL_ERROR * recorded:
        return None
    draws = _draws(facts, saves, proposed_s, breaks, as_it_was, period, rng)
    return CheckpointCase(
        facts=tuple(facts), saves=saves, breaks=breaks, proposed_s=proposed_s, draws=draws
    )


class _ModelCost(NamedTuple):
    """The cost of the runs of the period in many simulations, in micro-USD."""

    mean: float
    deviation: float
    """Of one simulation from the mean."""


def _model_cost(
    facts: Sequence[RunFact], saves: Saves, breaks: Hazard, rng: np.random.Generator
) -> _ModelCost:
    """The cost of these runs with such saves and interruptions."""
    held = _mean_held(facts, saves, breaks, rng)
    prices = _micro_usd_per_s(facts)
    error = float(np.linalg.norm(prices * held.error_s))
    return _ModelCost(float(prices @ held.mean_s), error * math.sqrt(SIMULATIONS))


def _mean_held(
    facts: Sequence[RunFact], saves: Saves, breaks: Hazard, rng: np.random.Generator
) -> MeanHeld:
    """The mean time for which these runs hold their GPUs with such saves and interruptions."""

    def simulate(chosen: Indices) -> Numbers:
        rates = np.full(chosen.size, breaks.per_hour)
        return _held_s(facts, chosen, saves, rates, rng)

    return mean_held(simulate, len(facts), SIMULATIONS)


def _draws(
    facts: Sequence[RunFact],
    saves: Saves,
    proposed_s: float,
    breaks: Hazard,
    as_it_was: _ModelCost,
    period: Period,
    rng: np.random.Generator,
) -> tuple[float, ...]:
    days = by_day(facts, period.first, period.last)
    rates = breaks.draws(rng, _DRAWS)
    histories = [future_history(days, period.verify_days, rng) for _ in range(_DRAWS)]
    chosen = np.array([index for history in histories for index in history], dtype=np.intp)
    draw_of = np.repeat(np.arange(_DRAWS), [len(history) for history in histories])
    held_s = _held_s(facts, chosen, saves.every(proposed_s), rates[draw_of], rng)
    paid = held_s * _micro_usd_per_s(facts)[chosen]
    cost = np.bincount(draw_of, weights=paid, minlength=_DRAWS)
    useful = np.array([fact.useful_gpu_h if fact.is_completed else 0.0 for fact in facts])
    done = np.bincount(draw_of, weights=useful[chosen], minlength=_DRAWS)
    known = done > 0
    if not useful.sum():
        return ()
    chance = rng.normal(as_it_was.mean, as_it_was.deviation, _DRAWS)
    before = np.maximum(chance, as_it_was.mean / 2) / useful.sum()
    return tuple(float(x) for x in 1 - (cost / before)[known] / done[known])


def _held_s(
    facts: Sequence[RunFact],
    chosen: Indices,
    saves: Saves,
    rates: Numbers,
    rng: np.random.Generator,
) -> Numbers:
    """The time for which these runs hold their GPUs with such saves."""
    useful_s = np.array([fact.useful_s for fact in facts])
    startup_s = np.array([fact.startup_s for fact in facts])
    return simulated_with_saves_s(useful_s[chosen], rates, startup_s[chosen], saves, rng)


def _micro_usd_per_s(facts: Sequence[RunFact]) -> Numbers:
    rates = [(f.cost_micro_usd or 0) / f.held_s if f.held_s else 0.0 for f in facts]
    return np.array(rates)


def checkpoint_draft(
    facts: Sequence[RunFact], period: Period, seed: tuple[int, int]
) -> Draft | None:
    """Is another checkpoint interval proposed for this deployment? Args as for the case."""
    first, number = seed
    case = checkpoint_case(facts, period, (first, 4, number))
    if case is None:
        return None
    rng = np.random.default_rng((first, 5, number))
    held = _mean_held(facts, case.saves.every(case.proposed_s), case.breaks, rng)
    observed = format_duration(case.saves.interval_s)
    return draft(
        ProposalKind.CHECKPOINT_INTERVAL,
        facts,
        Change(
            variable="checkpoint_interval",
            observed=f"about {observed}",
            proposed=case.proposed_s,
        ),
        case.draws,
        period,
        held_s=held_by_run(facts, held.mean_s),
        why=_why(case),
        evidence=_evidence(case),
        risk=(
            "This change has no effect on flows that save checkpoints without calling `due()`. "
            "If interruptions become more frequent or checkpoints take longer to save, a "
            "different interval may be required."
        ),
    )


def _why(case: CheckpointCase) -> str:
    if case.proposed_s > case.saves.interval_s:
        return "The cost of saving checkpoints exceeds the cost of work lost to interruptions."
    return "The cost of work lost to interruptions exceeds the cost of saving checkpoints."


def _evidence(case: CheckpointCase) -> tuple[str, ...]:
    saves, breaks = case.saves, case.breaks
    return (
        f"{saves.runs} runs saved after {format_duration(saves.interval_s)} of work, and stood "
        f"still for {format_duration(saves.stall_s)} each time ({saves.stalled_ratio:.1%} of "
        "their time; both measured).",
        f"{breaks.interruptions:.0f} attempts in {breaks.exposure_h:,.1f} h ended before their "
        f"run; {saves.unannounced_ratio:.0%} of them lost what was not saved.",
        f"The optimal interval according to Daly's formula is {format_duration(case.proposed_s)}.",
    )
