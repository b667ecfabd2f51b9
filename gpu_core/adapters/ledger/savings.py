"""Reads the inputs of a month's savings: its machines, runs and catalog."""

import logging
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction

from gpu_core.adapters.ledger.month_work import WorkQuestion
from gpu_core.adapters.ledger.store import Ledger
from gpu_core.decisions.catalog.offerings import Catalog
from gpu_core.decisions.costs.prices.price_book import PriceBook
from gpu_core.decisions.costs.savings.month_savings import MonthSavings, month_savings
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.model.attempts import Provenance
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.policy.policy import Policy

_log = logging.getLogger("prefect.gpu.prices")


@dataclass(frozen=True, slots=True, kw_only=True)
class SavingsQuestion:
    """The filter of machines and runs, and the prices."""

    month: Window
    """It counts from the first machine that the ledger has, up to `now`: a fixed cluster is not
    compared with a time that was not recorded."""
    now: datetime
    policy: Policy
    """Its prices, rates and `scale.max_gpus` count."""
    pool: str | None = None
    """Only machines that this pool's worker wrote down, and its runs. None: all."""
    provenance: Provenance | None = Provenance.MEASURED
    """Of the runs; None: all."""
    sheet: Catalog = field(default_factory=Catalog)
    """Your own prices of offerings, which count before those of the catalog."""
    committed_ratio: Fraction | None = None
    """See `kind_costs`."""


def read_savings(ledger: Ledger, asked: SavingsQuestion) -> MonthSavings:
    """The savings of this month, as far as the ledger has them.

    A catalog that cannot be read is named in the log, and its prices are unknown.

    Raises:
        LedgerError: The ledger cannot be read.
    """
    end = max(asked.month.start, min(asked.month.end, asked.now))
    first = ledger.first_capacity_at(asked.pool)
    start = end if first is None else min(max(asked.month.start, first), end)
    intervals = [i for i in ledger.capacity(start, end) if asked.pool in (None, i.pool)]
    window = Window(start, end)
    work = ledger.month_work(
        WorkQuestion(window=window, pool=asked.pool, provenance=asked.provenance)
    )
    book = PriceBook(policy=asked.policy, sheet=asked.sheet, catalog=_catalog(ledger))
    return month_savings(intervals, work, book, window, asked.now, asked.committed_ratio)


def _catalog(ledger: Ledger) -> Catalog:
    try:
        return ledger.catalog()
    except InvalidInput as error:
        _log.error("Failed to load catalog from the ledger: %s", error)
        return Catalog()
