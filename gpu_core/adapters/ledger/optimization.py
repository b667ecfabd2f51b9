"""Reads the inputs of proposals from the ledger."""

from datetime import datetime

from gpu_core.adapters.ledger.cost_slices import CostQuestion
from gpu_core.adapters.ledger.store import Ledger
from gpu_core.decisions.catalog.offerings import Catalog
from gpu_core.decisions.costs.prices.price_book import PriceBook
from gpu_core.decisions.model.attempts import Provenance
from gpu_core.decisions.optimization.proposals.period import Period
from gpu_core.decisions.optimization.proposals.propose import Optimization, optimize
from gpu_core.decisions.optimization.proposals.reserved_proposals import MachineHistory
from gpu_core.decisions.policy.policy import Policy


def read_optimization(
    ledger: Ledger,
    period: Period,
    now: datetime,
    *,
    policy: Policy,
    catalog: Catalog,
    pool: str | None,
    with_generated: bool,
) -> Optimization:
    """The changes that would have saved money in this period.

    Args:
        ledger: Whose rows are read.
        period: The days that are judged.
        now: The moment of the question.
        policy: The policy that was in force.
        catalog: Prices of what no run was on.
        pool: Only the runs of this pool; None: of all.
        with_generated: Count generated runs too.

    Raises:
        LedgerError: The ledger cannot be read.
    """
    window = period.to_read
    provenance = None if with_generated else Provenance.MEASURED
    return optimize(
        ledger.usage(window.start, window.end, provenance=provenance, pool=pool),
        period,
        now,
        policy=policy,
        catalog=catalog,
        capacity=ledger.capacity_cost(
            CostQuestion(window=period.window, keys=(), now=now, pool=pool, provenance=provenance)
        ),
        machines=MachineHistory(
            intervals=[
                machine
                for machine in ledger.capacity(period.window.start, period.window.end)
                if pool in (None, machine.pool)
            ],
            recorded_since=ledger.first_capacity_at(pool),
            book=PriceBook(policy=policy, catalog=catalog),
        ),
    )
