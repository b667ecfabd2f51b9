"""The blocks of a work pool, read as plain documents: no block class is needed for that."""

from typing import Any

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import BlockDocument
from prefect.exceptions import ObjectNotFound

from gpu_core.decisions.checks.prefect.pool_blocks import (
    LEDGER_BLOCK,
    MLFLOW_BLOCK,
    pool_block_names,
)
from gpu_core.decisions.costs.mlflow.mlflow_access import MlflowAccess


async def read_block(client: PrefectClient, slug: str, name: str) -> BlockDocument | None:
    """The block SLUG/NAME, with its secrets; None: there is no such block."""
    try:
        return await client.read_block_document_by_name(name, slug, include_secrets=True)
    except ObjectNotFound:
        return None


async def read_pool_block(
    client: PrefectClient, slug: str, pool: str | None
) -> BlockDocument | None:
    """The block of this type that a pool uses: its own, else the one that pools share."""
    for name in pool_block_names(pool):
        document = await read_block(client, slug, name)
        if document is not None:
            return document
    return None


def block_text(document: BlockDocument | None, field: str) -> str | None:
    """The field's value as text; None: there is no block, or it leaves the field empty."""
    value: Any = None if document is None else document.data.get(field)
    return str(value) if value else None


async def read_ledger_url(client: PrefectClient, pool: str | None) -> str | None:
    """The address of the pool's ledger; None: no block says it."""
    return block_text(await read_pool_block(client, LEDGER_BLOCK, pool), "url")


async def read_mlflow_access(client: PrefectClient, pool: str | None) -> MlflowAccess | None:
    """The MLflow server for the pool's costs, with its user; None: no block says it."""
    return mlflow_access(await read_pool_block(client, MLFLOW_BLOCK, pool))


def mlflow_access(document: BlockDocument | None) -> MlflowAccess | None:
    """The access that a block of MLflow describes; None: there is no block, or no address."""
    address = block_text(document, "tracking_uri")
    if address is None:
        return None
    known = {name: block_text(document, name) for name in ("username", "password", "token")}
    return MlflowAccess.of(address, **known)
