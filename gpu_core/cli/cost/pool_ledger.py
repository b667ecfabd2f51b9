"""Finds the ledger that a pool's worker writes, from the Prefect server."""

from gpu_core.adapters.prefect.pool_blocks import read_ledger_url
from gpu_core.cli.shared.prefect_api import ask
from gpu_core.decisions.model.errors import InvalidInput


def ledger_of_pool(pool: str | None) -> str:
    """The address of the pool's ledger, as the Prefect server knows it.

    Raises:
        InvalidInput: It knows none, or it cannot be reached.
        ApiError: It refused or failed.
    """
    found = ask(lambda client: read_ledger_url(client, pool))
    if found is None:
        raise InvalidInput(
            "ledger",
            "is not given, and the Prefect server knows none",
            remedy="name it with --ledger-file, or its pool with --pool",
        )
    return found
