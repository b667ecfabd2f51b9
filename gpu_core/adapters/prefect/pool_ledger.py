"""The ledger of the pool that a flow run runs in."""

from uuid import UUID

from prefect.client.orchestration import get_client

from gpu_core.adapters.prefect.pool_blocks import read_ledger_url
from gpu_core.decisions.checks.prefect.pool_blocks import LEDGER_BLOCK, pool_block_names
from gpu_core.decisions.model.errors import InvalidInput


async def pool_of_run(pool: str | None, flow_run_id: str | None) -> str | None:
    """This work pool; without one, that of the flow run that asks; None: it is in none.

    Args:
        flow_run_id: The flow run that asks; None: none does.
    """
    if pool is not None or flow_run_id is None:
        return pool
    async with get_client() as client:
        return (await client.read_flow_run(UUID(flow_run_id))).work_pool_name


async def pool_ledger_url(pool: str | None, flow_run_id: str | None) -> str:
    """The address of the pool's ledger.

    Args:
        pool: A work pool; None: the one that this run runs in.
        flow_run_id: The flow run that asks; None: none does.

    Raises:
        InvalidInput: No block says where the ledger is.
    """
    pool = await pool_of_run(pool, flow_run_id)
    async with get_client() as client:
        found = await read_ledger_url(client, pool)
    if found is None:
        names = " or ".join(f"{LEDGER_BLOCK}/{name}" for name in pool_block_names(pool))
        raise InvalidInput(
            "pool",
            f"has no ledger: block {names} was not found",
            got=pool,
            remedy=f"run `prefect-gpu setup --pool {pool or 'POOL'} --ledger-url URL`",
        )
    return found
