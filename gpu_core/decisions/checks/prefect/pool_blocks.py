"""The Prefect blocks that hold the addresses of a work pool."""

import hashlib
import re

LEDGER_BLOCK = "gpu-usage-ledger"
CHECKPOINT_BLOCK = "gpu-checkpoint-store"
MLFLOW_BLOCK = "gpu-mlflow-tracking"

SHARED_BLOCK_NAME = "default"
"""The name of the blocks that all pools had in common before each had its own."""


def pool_block_name(pool: str) -> str:
    """The name of the blocks of this work pool.

    Args:
        pool: The work pool's name. The names of blocks are lowercase letters, digits and dashes;
            another name gets a few digits of its hash, so that `GPU a` and `gpu-a` stay two.
    """
    if re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", pool):
        return pool
    readable = re.sub(r"[^a-z0-9]+", "-", pool.lower()).strip("-")
    digest = hashlib.sha256(pool.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{readable}-{digest}" if readable else f"pool-{digest}"


def pool_block_names(pool: str | None) -> tuple[str, ...]:
    """The names under which a block of this pool is looked up, in this order.

    Args:
        pool: The work pool's name; None: there is no pool.
    """
    own = () if pool is None else (pool_block_name(pool),)
    return tuple(dict.fromkeys((*own, SHARED_BLOCK_NAME)))
