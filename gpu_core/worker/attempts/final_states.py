"""Final states of runs that end while they have no attempt.

The end of an attempt writes the final state of its run. A run that is cancelled or deleted while it
waits for its next attempt has no such end, nor has one whose worker is killed between the two.
Without a final state its cost would stay an estimate.
"""

from collections.abc import Awaitable, Callable, Collection

import anyio
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.prefect.flow_runs import is_flow_run_id, read_flow_runs_by_id
from gpu_core.worker.attempts.run_faults import RunFaults
from gpu_core.worker.operations.threads import in_thread
from gpu_core.worker.operations.throttle import Throttle

_INTERVAL_S = 60.0

DELETED = "Deleted"
"""The final state of a run that Prefect does not have any more."""


class FinalStates:
    """Finds runs that have ended in Prefect, and not in the ledger.

    Args:
        finish: Writes a run's final state down.
    """

    def __init__(
        self,
        client: PrefectClient,
        ledger: Ledger,
        pool: str,
        faults: RunFaults,
        finish: Callable[[str, str], Awaitable[None]],
    ) -> None:
        self._client = client
        self._ledger = ledger
        self._pool = pool
        self._faults = faults
        self._finish = finish
        self._reads = Throttle(_INTERVAL_S)

    async def write_missing(self, present: Collection[str]) -> None:
        """Write the final states that are missing, at most once a minute.

        Args:
            present: Runs that wait, or whose end is being settled.
        """
        if not self._reads.allows(anyio.current_time()):
            return
        unfinished = await in_thread(self._ledger.unfinished_runs, self._pool)
        # The row of a damaged id names no run.
        asked = [
            run_id for run_id in unfinished if run_id not in present and is_flow_run_id(run_id)
        ]
        found = await read_flow_runs_by_id(self._client, asked)
        for flow_run_id in asked:
            final = final_name(found.get(flow_run_id))
            if final is not None:
                with self._faults.contained(flow_run_id, flow_run_id, "finished"):
                    await self._finish(flow_run_id, final)


def final_name(run: FlowRun | None) -> str | None:
    """The name of the run's final state; None while it is not over."""
    if run is None:
        return DELETED
    if run.state is None or not run.state.is_final():
        return None
    return run.state.name
