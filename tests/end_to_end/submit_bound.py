"""Submit a flow that is bound to a pool, in a process of its own, as a person does.

`python -m tests.end_to_end.submit_bound HOW POOL TYPE FOLDER`
"""

import sys
import warnings
from contextlib import suppress

from prefect.client.orchestration import get_client
from prefect.exceptions import MissingResult
from prefect.flows import InfrastructureBoundFlow, bind_flow_to_infrastructure
from prefect.utilities.asyncutils import run_coro_as_sync

from gpu_core.worker import WORKERS
from tests.end_to_end.bound_flow import bound


def main(how: str, pool: str, worker_type: str, folder: str) -> None:
    """Submit or call the flow, or run one more time the run whose id is given.

    Prints the id of what was submitted; the other ways return when the run has ended.
    """
    warnings.simplefilter("ignore")  # Prefect calls parts of this experimental
    # With a launcher of its own Prefect leaves the packages alone; it installs them with uv else.
    mine = bind_flow_to_infrastructure(bound, pool, WORKERS[worker_type], launcher=[sys.executable])
    if how == "submit_to_work_pool":
        print(mine.submit_to_work_pool(folder).flow_run_id)
        return
    # Prefect asks for the result of a run that completed, and this flow keeps none.
    with suppress(MissingResult):
        if how == "call":
            mine(folder)
        else:
            run_coro_as_sync(try_again(mine, how))


async def try_again(mine: InfrastructureBoundFlow, flow_run_id: str) -> None:
    """Run it one more time, and wait for the end."""
    async with get_client() as client:
        run = await client.read_flow_run(flow_run_id)
    await mine.retry(run)


if __name__ == "__main__":
    main(*sys.argv[1:])
