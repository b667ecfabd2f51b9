"""The worker's own guard around what Prefect's base class does."""

from uuid import uuid4

import anyio
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun

from gpu_core.cli.quickstart.services import free_port
from gpu_core.worker import GpuProcessWorker


def test_an_api_that_cannot_be_reached_while_a_run_is_submitted_does_not_end_the_worker() -> None:
    """The error stays in the submission, and the run may be submitted again."""
    flow_run = FlowRun(id=uuid4(), flow_id=uuid4(), deployment_id=uuid4())

    async def submit() -> set:
        worker = GpuProcessWorker(work_pool_name="pool")
        async with PrefectClient(f"http://127.0.0.1:{free_port()}/api") as client:
            worker._client = client
            worker._submitting_flow_run_ids.add(flow_run.id)
            await worker._submit_run(flow_run)
        return worker._submitting_flow_run_ids

    assert anyio.run(submit) == set()
