"""A pool that is typed wrong costs nothing in any sum, like one that ran nothing."""

from gpu_core.adapters.ledger.store import Ledger
from gpu_core.cli.shared.terminal import print_notice
from gpu_core.decisions.model.errors import InvalidInput, listed, nearest_name


def name_unknown_pool(ledger: Ledger, pool: str | None, command: str) -> None:
    """Say on stderr that the ledger has nothing of this pool; one that is new may have nothing.

    Args:
        pool: None: all pools were asked for.
        command: Of `prefect-gpu cost`.
    """
    if pool is None:
        return
    known = ledger.pools()
    if pool in known:
        return
    problem = InvalidInput(
        "pool",
        "does not have any runs or machines in the ledger",
        got=pool,
        allowed=listed(known) if known else None,
        nearest=nearest_name(pool, known),
    )
    print_notice(f"prefect-gpu cost {command}: {problem}")
