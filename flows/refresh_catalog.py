"""Refreshes the catalog of GPU offerings from AWS."""

from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.runtime import flow_run
from prefect.utilities.asyncutils import run_coro_as_sync

from gpu_core.adapters.aws.catalog import PROVIDER, Look, look_at_aws
from gpu_core.adapters.files.catalog_file import load_catalog, save_catalog
from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.prefect.pool_blocks import read_ledger_url
from gpu_core.decisions.catalog import DEFAULT_CATALOG
from gpu_core.decisions.catalog.offerings import Catalog, combined
from gpu_core.decisions.catalog.refresh import Refreshed, change_rows, refreshed


@flow(name="refresh-catalog")
def refresh_catalog(
    regions: list[str] | None = None,
    path: Path = DEFAULT_CATALOG,
    accept_large_changes: bool = False,
    pool: str | None = None,
) -> None:
    """Updates the catalog of GPU offerings and their prices.

    Data that cannot be read is logged and not changed. If no data can be read, the run fails.

    Args:
        regions: A list of AWS regions. Defaults to us-east-1.
        path: The path at which the catalog is stored for commands on this machine.
        accept_large_changes: Whether to accept prices that have changed tenfold. Only set this
            after the prices have been confirmed by a person.
        pool: The work pool whose ledger stores the catalog for the workers. Defaults to the work
            pool of this run.
    """
    now = datetime.now(UTC)
    ledger_url = run_coro_as_sync(read_pool_ledger_url(pool))
    catalog = combined((load_catalog(path), kept_catalog(ledger_url)))
    look = look_at_aws(regions or ["us-east-1"], now, catalog.instance_types)
    log_failures(look)
    after = refreshed(catalog, look.observation, now, accepts_large_changes=accept_large_changes)
    save_catalog(path, after.catalog, PROVIDER, now)
    if ledger_url is not None:
        with Ledger.open(ledger_url) as ledger:
            ledger.save_catalog(after.catalog, PROVIDER, now)
    publish_changes(after)


async def read_pool_ledger_url(pool: str | None) -> str | None:
    """The address of the pool's ledger; None: the pool has none."""
    async with get_client() as client:
        if pool is None and flow_run.id is not None:
            pool = (await client.read_flow_run(UUID(flow_run.id))).work_pool_name
        return await read_ledger_url(client, pool)


def kept_catalog(ledger_url: str | None) -> Catalog:
    """What the last refresh has kept in the ledger, with the history of its prices."""
    if ledger_url is None:
        return Catalog()
    with Ledger.open(ledger_url) as ledger:
        return ledger.catalog()


def log_failures(look: Look) -> None:
    """Log what could not be read; nothing at all was read: fail.

    Raises:
        RuntimeError: No price was found; the catalog is as it was.
    """
    logger = get_run_logger()
    for failure in look.failures:
        logger.warning("Failed to refresh: %s", failure)
    if not look.observation.micro_usd_per_hour:
        raise RuntimeError("No prices found. Please see the warnings above for more information")


@task(cache_policy=NO_CACHE)
def publish_changes(after: Refreshed) -> None:
    """Publish what is other than before, where people look."""
    create_table_artifact(
        change_rows(after.changes), key="gpu-catalog-changes", description="GPU catalog changes"
    )
