"""Finds the ledger that a pool's worker writes, from the Prefect server."""

from prefect.client.orchestration import PrefectClient

from gpu_core.adapters.prefect.pool_blocks import read_ledger_url
from gpu_core.adapters.prefect.work_pool import read_pools
from gpu_core.cli.shared.prefect_api import ask
from gpu_core.decisions.checks.doctor.prefect_pool import OUR_TYPES, chosen_pool
from gpu_core.decisions.model.errors import InvalidInput, listed, nearest_name


def ledger_of_pool(pool: str | None) -> str:
    """The address of the pool's ledger, as the Prefect server knows it.

    Args:
        pool: None: the pool `gpu`, or the only GPU pool.

    Raises:
        InvalidInput: It knows none, or it cannot be reached.
        ApiError: It refused or failed.
    """
    return ask(lambda client: _ledger_url(client, pool))


async def _ledger_url(client: PrefectClient, given: str | None) -> str:
    pools = [each.name for each in await read_pools(client, OUR_TYPES)]
    pool = chosen_pool(given, pools)
    found = await read_ledger_url(client, pool)
    if found is not None:
        return found
    if pool is None:
        raise InvalidInput(
            "--pool",
            "is required, because this Prefect server does not have exactly one GPU work pool",
            allowed=listed(pools),
            remedy="add --pool, or name a ledger with --ledger or --ledger-file",
        )
    if pool not in pools:
        raise InvalidInput(
            "--pool",
            "is not a GPU work pool on this Prefect server",
            got=pool,
            allowed=listed(pools),
            nearest=nearest_name(pool, pools),
        )
    raise InvalidInput(
        "--pool",
        "does not have a ledger configured",
        got=pool,
        remedy=f"please run `prefect-gpu setup --pool {pool}` or specify a ledger with --ledger",
    )
