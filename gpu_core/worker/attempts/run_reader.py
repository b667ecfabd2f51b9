"""The flow runs of attempts that end, as Prefect has them."""

from functools import partial

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun

from gpu_core.adapters.prefect.flow_runs import read_flow_run, read_flow_runs_by_id
from gpu_core.worker.operations.outage_errors import is_outage
from gpu_core.worker.prefect.batch_loader import BatchLoader


class RunReader:
    """Reads the runs of attempts that end together in one request.

    Args:
        client: Prefect's.
    """

    def __init__(self, client: PrefectClient) -> None:
        self._client = client
        self._together = BatchLoader(partial(read_flow_runs_by_id, client))

    async def of(self, flow_run_id: str) -> FlowRun | None:
        """The run of this id; None when it was deleted, or its id is damaged.

        Raises:
            Exception: Prefect's API is unavailable, or cannot answer for this run.
        """
        try:
            return await self._together.of(flow_run_id)
        except Exception as error:
            if is_outage(error):
                raise
        # One run that cannot be read costs the others of its page nothing but a request.
        return await read_flow_run(self._client, flow_run_id)
