"""Refresh the catalog of GPU offerings: look at AWS, decide, publish."""

from datetime import UTC, datetime
from pathlib import Path

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_table_artifact
from prefect.cache_policies import NO_CACHE

from gpu_core.adapters.aws.catalog import PROVIDER, Look, look_at_aws
from gpu_core.adapters.files.catalog_file import load_catalog, save_catalog
from gpu_core.decisions.catalog import DEFAULT_CATALOG
from gpu_core.decisions.catalog.refresh import Refreshed, change_rows, refreshed


@flow(name="refresh-catalog")
def refresh_catalog(
    regions: list[str] | None = None,
    path: Path = DEFAULT_CATALOG,
    accept_large_changes: bool = False,
) -> None:
    """Keep the catalog of GPU offerings and their prices up to date.

    What cannot be read is logged and stays as it was; the run fails if nothing can be read.

    Args:
        regions: The AWS regions to look at; by default us-east-1.
        path: Where the catalog is kept.
        accept_large_changes: Take over prices that moved tenfold, once somebody has confirmed.
    """
    now = datetime.now(UTC)
    catalog = load_catalog(path)
    look = look_at_aws(regions or ["us-east-1"], now, catalog.instance_types)
    log_failures(look)
    after = refreshed(catalog, look.observation, now, accepts_large_changes=accept_large_changes)
    save_catalog(path, after.catalog, PROVIDER, now)
    publish_changes(after)


def log_failures(look: Look) -> None:
    """Log what could not be read; nothing at all was read: fail.

    Raises:
        RuntimeError: No price was found; the catalog is as it was.
    """
    logger = get_run_logger()
    for failure in look.failures:
        logger.warning("Not refreshed: %s", failure)
    if not look.observation.micro_usd_per_hour:
        raise RuntimeError("No price was found: see the warnings above for what to do")


@task(cache_policy=NO_CACHE)
def publish_changes(after: Refreshed) -> None:
    """Publish what is other than before, where people look."""
    create_table_artifact(
        change_rows(after.changes), key="gpu-catalog-changes", description="GPU catalog changes"
    )
