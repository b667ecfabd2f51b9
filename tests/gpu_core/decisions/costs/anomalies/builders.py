"""Histories of costs, from records and from amounts."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from fractions import Fraction

from gpu_core.decisions.costs.reports.cost_history import (
    DIMENSIONS,
    CostHistory,
    history_until,
    window_of_history,
)
from gpu_core.decisions.costs.reports.cost_report import COLUMNS_OF_RUNS, CostSlice
from gpu_core.decisions.costs.usage.time_use import Tariff, uses_of_attempt
from gpu_core.decisions.costs.usage.usage import US_PER_HOUR, Usage
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.model.attempts import Attempt, RunRecord

Record = tuple[RunRecord, Sequence[Attempt]]


def history_of(records: Iterable[Record], day: date, now: datetime) -> CostHistory:
    """The history that the ledger would give of these records."""
    kept = list(records)
    first = window_of_history(day).start.date()
    days = [first + timedelta(days=n) for n in range((day - first).days + 1)]
    return history_until(day, [_slices(kept, each, now) for each in days])


def _slices(records: list[Record], day: date, now: datetime) -> list[CostSlice]:
    window = Window.of_day(day)
    return [
        CostSlice(keys=_keys(run, attempt), tariff=tariff, uses_us=uses_us, attempts=1)
        for run, attempts in records
        for attempt in attempts
        if attempt.admitted_at < window.end and (attempt.released_at or now) > window.start
        for tariff, uses_us in uses_of_attempt(attempt, now, window)
    ]


def _keys(run: RunRecord, attempt: Attempt) -> tuple[str | None, ...]:
    return tuple(getattr(run if k in COLUMNS_OF_RUNS else attempt, k) for k in DIMENSIONS)


def spending(last_day: date, usd_of: Mapping[str, Sequence[float]]) -> CostHistory:
    """What teams spent on the days up to this one; each with a deployment of its own.

    Args:
        usd_of: For each team its days, all equally many.
    """
    (count,) = {len(days) for days in usd_of.values()}
    return history_until(
        last_day,
        [[slice_of(team, usd[n]) for team, usd in usd_of.items() if usd[n]] for n in range(count)],
    )


def slice_of(
    team: str, usd: float, gpu_type: str = "a10g", *, usd_per_hour: float = 1.0
) -> CostSlice:
    """GPU-hours of a team at one price."""
    price = Fraction(round(usd_per_hour * 1_000_000), US_PER_HOUR)
    tariff = Tariff(Usage(gpu_us=1, gpu_micro_usd=price))
    held_us = round(usd / usd_per_hour * US_PER_HOUR)
    keys = (team, team, f"{team}/gpu", gpu_type, "on-demand", None)
    return CostSlice(keys=keys, tariff=tariff, uses_us=(0, 0, held_us, 0), attempts=1)
