"""Finds the ledger, MLflow and the checkpoint store: settings first, then Prefect blocks.

The blocks are read as plain documents. The worker therefore needs none of the block classes, and
a change made in the UI reaches the next run without a restart.
"""

import logging
from dataclasses import dataclass, field
from pathlib import Path

from prefect.client.orchestration import PrefectClient

from gpu_core.adapters.prefect.pool_blocks import (
    block_text,
    mlflow_access,
    read_ledger_url,
    read_pool_block,
)
from gpu_core.decisions.checks.prefect.pool_blocks import CHECKPOINT_BLOCK, MLFLOW_BLOCK
from gpu_core.decisions.costs.mlflow.mlflow_access import MlflowAccess, split_credentials
from gpu_core.decisions.model.redaction import secrets_in
from gpu_core.worker.startup.settings import GpuWorkerSettings

_log = logging.getLogger("prefect.gpu.connections")


@dataclass(frozen=True, slots=True)
class Connections:
    """The outside systems of one worker. What is secret is not shown."""

    ledger_url: str = field(repr=False)
    mlflow: MlflowAccess | None
    checkpoint_uri: str

    def secrets(self) -> tuple[str, ...]:
        """The values that no text may show."""
        of_mlflow = () if self.mlflow is None else self.mlflow.secrets()
        return (*secrets_in(self.ledger_url), *of_mlflow)


async def read_connections(
    client: PrefectClient, settings: GpuWorkerSettings, state_dir: Path, pool: str
) -> Connections:
    """The ledger, MLflow and the checkpoint store of this pool's worker.

    Without setting or block the ledger is an SQLite file and the checkpoint store a folder, both
    in the worker's state folder, and costs are not logged to MLflow.
    """
    ledger_url = settings.ledger_url or await read_ledger_url(client, pool)
    return Connections(
        ledger_url=ledger_url or f"sqlite:///{state_dir / 'ledger.db'}",
        mlflow=await _mlflow(client, settings, pool),
        checkpoint_uri=await read_checkpoint_uri(client, settings, state_dir, pool),
    )


async def read_checkpoint_uri(
    client: PrefectClient, settings: GpuWorkerSettings, state_dir: Path, pool: str
) -> str:
    """The store of checkpoints for runs that name none."""
    if settings.checkpoint_uri:
        return settings.checkpoint_uri
    block = await read_pool_block(client, CHECKPOINT_BLOCK, pool)
    return block_text(block, "uri") or str(state_dir / "checkpoints")


async def _mlflow(
    client: PrefectClient, settings: GpuWorkerSettings, pool: str
) -> MlflowAccess | None:
    if settings.mlflow_tracking_uri:
        # The block's user belongs to the block's server.
        return MlflowAccess.of(settings.mlflow_tracking_uri)
    block = await read_pool_block(client, MLFLOW_BLOCK, pool)
    address = block_text(block, "tracking_uri")
    if block is not None and address and split_credentials(address)[1] is not None:
        _log.warning(
            "The URL of block %s/%s contains credentials that are visible to all users with "
            "access to blocks. Run `prefect-gpu setup --pool %s` to move them to secret "
            "fields",
            MLFLOW_BLOCK,
            block.name,
            pool,
        )
    return mlflow_access(block)
