"""The lowest possible cost of a finished run, with all known of spot that was known afterwards.

The dynamic program of `optimum`, on the availability that the ledger recorded. The best possible
does the same work in the same time, starts as slowly as the run itself did, and loses no work. It
may use spot in any zone where that was up, for the run's mean spot price; moving between zones
counts as no start. What a gang needs counts as up where one attempt held any.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

from gpu_core.decisions.costs.usage.usage import sum_usage
from gpu_core.decisions.costs.usage.usage_cost import usage_until
from gpu_core.decisions.model.attempts import Attempt, RunRecord
from gpu_core.decisions.model.cluster import ON_DEMAND, SPOT
from gpu_core.decisions.simulation.spot.optimum import optimum_cost_ratios
from gpu_core.decisions.simulation.spot.recorded_availability import Place, Span, sampled
from gpu_core.decisions.simulation.spot.replay import Task

_TICK_S = 60
_MOST_TICKS = 1_500
"""Longer runs are replayed in longer ticks."""
_START_STEP_S = 15
"""Starts are rounded down to it: the table has a column for each unit of slack."""


class NoHindsight(StrEnum):
    """The reason why a run has no result."""

    NO_SPOT = "it did not use spot capacity"
    NOT_ENDED = "it is still running"
    SEVERAL_KINDS = "its attempts used different GPUs"
    NO_PRICE = "its price or the on-demand price is unknown"
    NO_WORK = "no work was preserved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hindsight:
    """One run: what was paid for its GPUs, and what would have been at best."""

    run: RunRecord
    gpus: int
    gpu_type: str
    work_s: float
    took_s: float
    """From its first admission to its end."""
    paid_micro_usd: int
    best_micro_usd: int
    """At most what was paid: what was done was possible."""

    @property
    def by_best(self) -> float:
        """The cost divided by the best possible."""
        return self.paid_micro_usd / self.best_micro_usd


def hindsight(
    run: RunRecord,
    attempts: Sequence[Attempt],
    work_s: float,
    spans: Mapping[Place, Sequence[Span]],
    on_demand_micro_usd_per_gpu_hour: int | None,
) -> Hindsight | NoHindsight:
    """The lowest possible cost of this run.

    Args:
        attempts: All of them, by number.
        work_s: What they did, without what was done again.
        spans: When spot was up, over all runs.
        on_demand_micro_usd_per_gpu_hour: Of its GPU type; None: unknown.
    """
    spot = [attempt for attempt in attempts if attempt.capacity_type == SPOT]
    if not spot:
        return NoHindsight.NO_SPOT
    ended_at = attempts[-1].released_at
    if ended_at is None or run.final_state is None:
        return NoHindsight.NOT_ENDED
    if len({(attempt.gpu_type, attempt.gpu_count) for attempt in attempts}) > 1:
        return NoHindsight.SEVERAL_KINDS
    gpu_type, gpus = attempts[0].gpu_type, attempts[0].gpu_count
    paid = sum_usage(usage_until(attempt, ended_at) for attempt in attempts).total_micro_usd
    spot_price = mean_price_micro_usd(spot)
    if gpu_type is None or not paid or not spot_price or not on_demand_micro_usd_per_gpu_hour:
        return NoHindsight.NO_PRICE
    if work_s <= 0:
        return NoHindsight.NO_WORK
    took_s = (ended_at - attempts[0].admitted_at).total_seconds()
    start_s = _START_STEP_S * (_mean_start_s(attempts) // _START_STEP_S)
    tick_s = _TICK_S * max(1, math.ceil(took_s / _TICK_S / _MOST_TICKS))
    # The last tick may be started: an attempt on spot from its first to its last second fits.
    ticks = math.ceil(max(took_s, work_s + start_s) / tick_s)
    task = Task(
        work_s=work_s,
        deadline_s=float(ticks * tick_s),
        changeover_s=start_s,
        spot_micro_usd_per_hour=round(spot_price * attempts[0].priced_gpus),
        on_demand_micro_usd_per_hour=round(on_demand_micro_usd_per_gpu_hour * attempts[0].gpus),
    )
    of_type = [of_place for place, of_place in spans.items() if place.gpu_type == gpu_type]
    up = [span for of_place in of_type for span in of_place]
    is_up = sampled(up, attempts[0].admitted_at, ticks, tick_s)
    (ratio,) = optimum_cost_ratios(is_up, tick_s, (0,), task)
    return Hindsight(
        run=run,
        gpus=gpus,
        gpu_type=gpu_type,
        work_s=work_s,
        took_s=took_s,
        paid_micro_usd=paid,
        # Where rounding to ticks leaves no schedule in time, what was paid is the best known.
        best_micro_usd=(
            min(paid, round(ratio * task.on_demand_micro_usd)) if math.isfinite(ratio) else paid
        ),
    )


def on_demand_prices(attempts: Iterable[Attempt]) -> dict[str, int]:
    """The last price of one GPU for an hour of on-demand, by GPU type."""
    on_demand = [a for a in attempts if a.capacity_type == ON_DEMAND]
    return {
        attempt.gpu_type: attempt.price_micro_usd_per_gpu_hour
        for attempt in sorted(on_demand, key=lambda attempt: attempt.admitted_at)
        if attempt.gpu_type is not None and attempt.price_micro_usd_per_gpu_hour is not None
    }


def mean_price_micro_usd(attempts: Sequence[Attempt]) -> int | None:
    """The mean price of one GPU for an hour over these attempts; None: one of them has no price."""
    prices = [attempt.price_micro_usd_per_gpu_hour for attempt in attempts]
    known = [price for price in prices if price is not None]
    return round(fmean(known)) if known and len(known) == len(prices) else None


def _mean_start_s(attempts: Sequence[Attempt]) -> float:
    """From admission until the first new step, or else the process, in the mean; 0: unknown."""
    begun = [(a.first_step_at or a.started_at, a.admitted_at) for a in attempts]
    seen = [(at - admitted).total_seconds() for at, admitted in begun if at is not None]
    return fmean(seen) if seen else 0.0
