"""What the worker writes to runs that changed since it looked."""

from datetime import UTC, datetime
from uuid import UUID

import anyio
from prefect.client.orchestration import PrefectClient

from gpu_core.decisions.plan import Explanation, Reason
from gpu_core.decisions.request import GpuRequest, RunLimits
from gpu_core.decisions.workload import Workload
from gpu_core.worker.demand import Demand
from gpu_core.worker.publisher import Publisher
from tests.end_to_end.conftest import FLOWS


def test_a_run_that_was_cancelled_meanwhile_is_not_brought_back(server, pool):
    """Prefect accepts Scheduled for a cancelled run: telling it why it waits would revive it."""
    run = pool.submit(pool.deploy(f"{FLOWS}:do_nothing"), "cancelled")

    async def tell_after_cancelling():
        async with PrefectClient(server.api_url) as client:
            seen = await client.read_flow_run(UUID(run))
            pool.call("POST", f"/flow_runs/{run}/set_state", {"state": {"type": "CANCELLED"}})
            publisher = Publisher(client, pool.name, "AwaitingConcurrencySlot")
            await publisher.waiting(
                [explanation()], {run: demand(seen)}, {}, limit=1, is_held=lambda _: False
            )

    def explanation():
        return Explanation(
            workload_id=run, reason=Reason.WAITING_FOR_GPUS, summary="", resolution="", position=1
        )

    def demand(seen):
        return Demand(
            flow_run=seen,
            flow_name="do_nothing",
            deployment=None,
            queue=None,
            request=GpuRequest(),
            limits=RunLimits(max_duration_s=None, max_failures=3, max_interruptions=None),
            workload=Workload(
                workload_id=run, name="run", priority=1, submitted_at=datetime.now(UTC), gpu_count=1
            ),
        )

    anyio.run(tell_after_cancelling)

    assert pool.state(run) == "Cancelled"
