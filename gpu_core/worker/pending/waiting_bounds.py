"""Runs that the policy's bounds on waiting refuse: found in every cycle, ended a few at a time."""

from collections.abc import Mapping
from datetime import datetime

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.policy.waiting import WaitingPolicy
from gpu_core.decisions.scheduling.queue.waiting_bounds import RefusedRun, WaitingRun, refused_runs
from gpu_core.worker.operations.threads import in_thread
from gpu_core.worker.pending.demand import Demand


async def find_refused(
    ledger: Ledger, demands: Mapping[str, Demand], policy: WaitingPolicy, now: datetime
) -> tuple[RefusedRun, ...]:
    """The runs that do not wait any longer, the latest first.

    Args:
        ledger: Knows which runs have had an attempt; asked only where a run would be refused.
        demands: All runs that wait, by id.
    """
    # Prefect counts a run's starts; of one that was never Running the ledger knows attempts.
    begun = {key for key, demand in demands.items() if demand.flow_run.run_count > 0}
    if not _refused(demands, begun, policy, now):
        return ()
    earlier = await in_thread(ledger.attempts_of, demands.keys() - begun)
    begun |= {key for key, attempts in earlier.items() if attempts}
    return _refused(demands, begun, policy, now)


def _refused(
    demands: Mapping[str, Demand], begun: set[str], policy: WaitingPolicy, now: datetime
) -> tuple[RefusedRun, ...]:
    runs = (
        WaitingRun(demand.workload, demand.flow_run.created or now, key in begun)
        for key, demand in demands.items()
    )
    return refused_runs(runs, policy, now)
