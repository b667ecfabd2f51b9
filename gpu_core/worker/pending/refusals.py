"""Ends pending runs that can never start or may not wait any longer, each with its reason."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun, State
from prefect.states import Cancelled, Failed

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.model.errors import ended
from gpu_core.decisions.model.reasons import Explanation, Reason
from gpu_core.decisions.policy.waiting import WaitingPolicy
from gpu_core.decisions.scheduling.plan.plan import Plan
from gpu_core.decisions.spot.capacity_view import CapacityView
from gpu_core.decisions.spot.run_budget import why_unpayable
from gpu_core.worker.attempts.run_faults import RunFaults
from gpu_core.worker.pending.demand import Demand, PendingRuns
from gpu_core.worker.pending.waiting_bounds import find_refused
from gpu_core.worker.watch.decision_log import DecisionLog

_log = logging.getLogger("prefect.gpu.scheduler")

# Each is a request to Prefect before the cycle can start others.
_ENDED_PER_CYCLE = 20


class Refusals:
    """Ends the pending runs that the pool refuses.

    Args:
        client: Prefect's client.
        ledger: The usage ledger, open.
        decisions: Where each refusal is recorded.
        faults: Keeps the fault of one run from the others.
        ended: Called with the ids of runs that were ended.
    """

    def __init__(
        self,
        client: PrefectClient,
        ledger: Ledger,
        decisions: DecisionLog,
        faults: RunFaults,
        ended: Callable[[Iterable[str]], None],
    ) -> None:
        self._ended = ended
        self._client = client
        self._ledger = ledger
        self._decisions = decisions
        self._faults = faults

    async def invalid(self, queue: PendingRuns) -> None:
        """End the runs with an invalid job variable."""
        for refused in queue.refusals:
            await self._fail(refused.flow_run, ended(f"Invalid job variable: {refused.error}"))

    async def hopeless(self, plan: Plan, demands: Mapping[str, Demand]) -> None:
        """End the runs that ask for more than the whole pool has, which never grows."""
        # Explanations are made when they are read, which takes longer than the plan.
        for explanation in readable(plan.explanations):
            if explanation.reason is Reason.EXCEEDS_CLUSTER:
                text = f"{explanation.reason}: {explanation.summary} {explanation.resolution}"
                await self._fail(demands[explanation.workload_id].flow_run, text)

    async def over_bounds(
        self, demands: dict[str, Demand], policy: WaitingPolicy, now: datetime
    ) -> None:
        """Take out the runs that may not wait any longer; some of them are ended in each cycle."""
        refused = await find_refused(self._ledger, demands, policy, now)
        for place, run in enumerate(refused):
            flow_run = demands.pop(run.workload_id).flow_run
            if place < _ENDED_PER_CYCLE:
                is_stale = run.why.reason == Reason.EXPIRED
                end = Cancelled if is_stale else Failed
                await self._end(flow_run, end(message=run.message))

    async def unpayable(
        self, demands: Mapping[str, Demand], view: CapacityView, now: datetime
    ) -> dict[str, Demand]:
        """End the new runs whose budget or deadline cannot hold; the others stay."""
        left: dict[str, Demand] = {}
        for flow_run_id, demand in demands.items():
            if demand.flow_run.run_count or demand.workload.hold is not None:
                left[flow_run_id] = demand
                continue
            name, why = demand.workload.name, None
            with self._faults.contained(flow_run_id, name, "planned", now):
                why = why_unpayable(demand.workload, view)
                left[flow_run_id] = demand
            if why is not None:
                del left[flow_run_id]
                await self._fail(demand.flow_run, why)
        return left

    async def _fail(self, flow_run: FlowRun, message: str) -> None:
        await self._end(flow_run, Failed(message=message))

    async def _end(self, flow_run: FlowRun, state: State[Any]) -> None:
        with self._faults.contained(str(flow_run.id), flow_run.name, "refused"):
            await self._client.set_flow_run_state(flow_run.id, state)
            self._ended([str(flow_run.id)])
            self._decisions.refused(str(flow_run.id), state.message or "", datetime.now(UTC))
            fields = {"flow_run_id": str(flow_run.id), "flow_run_name": flow_run.name}
            _log.warning(
                "Flow run %r cannot be scheduled: %s", flow_run.name, state.message, extra=fields
            )


def readable(explanations: Sequence[Explanation]) -> list[Explanation]:
    """These explanations, each made now; without those that cannot be made."""
    made: list[Explanation] = []
    try:
        made.extend(explanations)
    except Exception:
        _log.exception("Failed to determine the reason for some pending flow runs")
        for place in range(len(made), len(explanations)):
            with suppress(Exception):
                made.append(explanations[place])
    return made
