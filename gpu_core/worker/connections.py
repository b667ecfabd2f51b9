"""Where the ledger, MLflow and the checkpoints are: settings first, then the blocks of the UI.

The blocks are read as plain documents. The worker therefore needs none of the block classes, and
a change made in the UI reaches the next run without a restart.
"""

from dataclasses import dataclass
from pathlib import Path

from prefect.client.orchestration import PrefectClient
from prefect.exceptions import ObjectNotFound

from gpu_core.worker.settings import GpuWorkerSettings

_DOCUMENT = "default"


@dataclass(frozen=True, slots=True)
class Connections:
    """The outside systems of one worker."""

    ledger_url: str
    mlflow_tracking_uri: str | None
    checkpoint_uri: str


async def read_connections(
    client: PrefectClient, settings: GpuWorkerSettings, state_dir: Path
) -> Connections:
    """Where are the ledger, MLflow and the checkpoint store of this worker?

    Without setting or block the ledger is an SQLite file and the checkpoint store a folder, both
    in the worker's state folder, and costs are not logged to MLflow.
    """
    ledger_url = settings.ledger_url or await _block_field(client, "gpu-usage-ledger", "url")
    mlflow_uri = settings.mlflow_tracking_uri or await _block_field(
        client, "gpu-mlflow-tracking", "tracking_uri"
    )
    return Connections(
        ledger_url=ledger_url or f"sqlite:///{state_dir / 'ledger.db'}",
        mlflow_tracking_uri=mlflow_uri,
        checkpoint_uri=await read_checkpoint_uri(client, settings, state_dir),
    )


async def read_checkpoint_uri(
    client: PrefectClient, settings: GpuWorkerSettings, state_dir: Path
) -> str:
    """Where do runs that say nothing else save their checkpoints?"""
    uri = settings.checkpoint_uri or await _block_field(client, "gpu-checkpoint-store", "uri")
    return uri or str(state_dir / "checkpoints")


async def _block_field(client: PrefectClient, slug: str, field: str) -> str | None:
    try:
        document = await client.read_block_document_by_name(_DOCUMENT, slug, include_secrets=True)
    except ObjectNotFound:
        return None
    value = document.data.get(field)
    return str(value) if value else None
