"""The usage of budgets at a moment, from the records of the ledger."""

from datetime import datetime

from gpu_core.adapters.ledger.store import Ledger
from gpu_core.decisions.costs.reports.budget_use import BudgetUse
from gpu_core.decisions.model.attempts import Provenance
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.quota.usage_tracker import UsageTracker, budget_uses


def read_budget_uses(
    ledger: Ledger,
    policy: Policy,
    at: datetime,
    provenance: Provenance | None,
    pool: str | None = None,
) -> tuple[BudgetUse, ...]:
    """The use of the budgets of this policy in the periods of this moment.

    Args:
        ledger: The ledger, open.
        policy: With its budgets.
        at: What came later does not count, aware.
        provenance: Only measured, or only generated runs; None: both.
        pool: Whose policy it is: a worker counts the runs of its pool. None, or a pool without
            runs and machines in the ledger, such as one for flows like this: the runs of all.

    Raises:
        LedgerError: The ledger cannot be read.
    """
    if not policy.budgets:
        return ()
    since = UsageTracker(policy, at).since
    counted = pool if pool in ledger.pools() else None
    return budget_uses(policy, ledger.usage(since, at, provenance=provenance, pool=counted), at)
