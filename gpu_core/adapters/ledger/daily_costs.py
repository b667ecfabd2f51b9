"""Daily costs from the ledger: by part of the cost for months, by run for weeks."""

from dataclasses import dataclass
from datetime import date, datetime

from gpu_core.adapters.ledger.cost_slices import CostQuestion
from gpu_core.adapters.ledger.store import Ledger
from gpu_core.decisions.costs.anomalies.report.daily_report import window_to_read
from gpu_core.decisions.costs.reports.cost_history import (
    DIMENSIONS,
    CostHistory,
    DailyCosts,
    history_until,
    window_of_history,
)
from gpu_core.decisions.costs.usage.usage_cost import Window, daily_costs
from gpu_core.decisions.model.attempts import Provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """The filter of runs."""

    now: datetime
    """Attempts that hold their GPUs are costed up to here."""
    pool: str | None = None
    """The work pool whose runs count; None: all of the ledger."""
    with_generated: bool = False

    @property
    def provenance(self) -> Provenance | None:
        """The filter of a query; None: any."""
        return None if self.with_generated else Provenance.MEASURED


def read_histories(
    ledger: Ledger, first: date, last: date, wanted: RunFilter
) -> dict[date, CostHistory]:
    """The spending on each of these days and on the days that each is compared with."""
    window = Window(window_of_history(first).start, window_of_history(last).end)
    asked = CostQuestion(
        window=window,
        keys=DIMENSIONS,
        now=wanted.now,
        pool=wanted.pool,
        provenance=wanted.provenance,
    )
    slices = ledger.cost_slices_by_day(asked)
    begins = window.start.date()
    histories = {}
    for number in range((last - first).days + 1):
        day = date.fromordinal(first.toordinal() + number)
        since = (window_of_history(day).start.date() - begins).days
        histories[day] = history_until(day, slices[since : (day - begins).days + 1])
    return histories


def read_daily_costs(ledger: Ledger, first: date, last: date, wanted: RunFilter) -> DailyCosts:
    """The cost of each run on these days, and on the days that a report of the first one needs."""
    window = Window(window_to_read(first).start, window_to_read(last).end)
    usage = ledger.usage(window.start, window.end, provenance=wanted.provenance, pool=wanted.pool)
    return daily_costs(usage, window, wanted.now)
