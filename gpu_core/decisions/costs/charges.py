"""What a period is billed: one charge for each resource that an attempt held at one price."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from fractions import Fraction

from gpu_core.decisions.costs.cost_report import period_window
from gpu_core.decisions.costs.usage import NO_USAGE, US_PER_HOUR, Exact, Usage, apportioned
from gpu_core.decisions.costs.usage_cost import Held, Window, usage_for
from gpu_core.decisions.model.attempts import Attempt, RunRecord
from gpu_core.decisions.model.prices import PriceChange, Rates

_MICROSECOND = timedelta(microseconds=1)


class Resource(StrEnum):
    """What a charge is for."""

    GPU = "GPU"
    CPU = "CPU"
    MEMORY = "Memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What an attempt held of one resource at one price in one month. Its cost is exact."""

    run: RunRecord
    attempt: Attempt
    resource: Resource
    period: Window
    rates: Rates
    hours: Exact
    """GPU-hours, core-hours or GiB-hours."""
    unit_micro_usd: int
    """The price of one hour."""
    exact_micro_usd: Exact


@dataclass(frozen=True, slots=True, kw_only=True)
class Charges:
    """All charges of a window."""

    window: Window
    charges: tuple[Charge, ...]
    unpriced_gpu_us: Exact
    """GPU-microseconds that no charge is made for, because they have no price."""
    unpriced_us: Exact
    """The same for attempts without GPUs: their time."""

    def micro_usd(self) -> list[int]:
        """The charges in whole micro-USD, which add up to the report of the same window."""
        return apportioned([charge.exact_micro_usd for charge in self.charges])


def charges_of(
    records: Iterable[tuple[RunRecord, Sequence[Attempt]]], window: Window, now: datetime
) -> Charges:
    """What is billed for this window?

    A charge never crosses the turn of a month, so that it is in one billing period.

    Args:
        records: Runs with all their attempts.
        window: The time that counts.
        now: Attempts that still hold their GPUs are charged up to here.
    """
    found: list[Charge] = []
    together = NO_USAGE
    for run, attempt in ((run, each) for run, attempts in records for each in attempts):
        if not attempt.has_run:
            continue
        held = Held.by(attempt)
        for period, change in _periods(attempt, window, now):
            held_us = (period.end - period.start) // _MICROSECOND
            usage = usage_for(held, held_us, change.rates)
            together += usage
            found += [
                Charge(
                    run=run,
                    attempt=attempt,
                    resource=resource,
                    period=period,
                    rates=change.rates,
                    hours=Fraction(amount_us, US_PER_HOUR),
                    unit_micro_usd=price,
                    exact_micro_usd=micro_usd,
                )
                for resource, amount_us, price, micro_usd in _priced(
                    usage, held_us * held.priced_gpus, change.rates
                )
                if price is not None and amount_us
            ]
    return Charges(
        window=window,
        charges=tuple(found),
        unpriced_gpu_us=together.unpriced_gpu_us,
        unpriced_us=together.unpriced_us,
    )


def _priced(
    usage: Usage, priced_gpu_us: Exact, rates: Rates
) -> tuple[tuple[Resource, Exact, int | None, Exact], ...]:
    """Each resource with its amount, its price and its cost.

    Args:
        priced_gpu_us: GPUs that are paid for, times microseconds. An older version kept the price
            of the part that was held, and that is paid once.
    """
    return (
        (Resource.GPU, priced_gpu_us, rates.gpu_micro_usd_per_hour, usage.gpu_micro_usd),
        (Resource.CPU, usage.cpu_us, rates.cpu_micro_usd_per_hour, usage.cpu_micro_usd),
        (Resource.MEMORY, usage.gib_us, rates.gib_micro_usd_per_hour, usage.gib_micro_usd),
    )


def billing_period(moment: datetime) -> Window:
    """Which month is a charge billed in that begins at this moment?"""
    return period_window("month", moment.astimezone(UTC).date())


def _periods(
    attempt: Attempt, window: Window, now: datetime
) -> Iterable[tuple[Window, PriceChange]]:
    """The times in the window that the attempt had one price in one month."""
    changes = attempt.price_changes
    held_until = min(attempt.released_at or now, now)
    ends = [*(change.since for change in changes[1:]), held_until]
    for change, until in zip(changes, ends, strict=True):
        start = max(change.since, attempt.admitted_at, window.start).astimezone(UTC)
        end = min(until, held_until, window.end).astimezone(UTC)
        while start < end:
            turn = min(end, billing_period(start).end)
            yield Window(start, turn), change
            start = turn
