"""Where the ledger, MLflow and the checkpoints are: settings first, then the blocks of the UI.

The blocks are read as plain documents. The worker therefore needs none of the block classes, and
a change made in the UI reaches the next run without a restart.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prefect.client.orchestration import PrefectClient
from prefect.exceptions import ObjectNotFound

from gpu_core.decisions.mlflow_access import MlflowAccess, split_credentials
from gpu_core.decisions.redaction import secrets_in
from gpu_core.worker.settings import GpuWorkerSettings

_log = logging.getLogger("prefect.gpu.connections")

_DOCUMENT = "default"


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
    client: PrefectClient, settings: GpuWorkerSettings, state_dir: Path
) -> Connections:
    """Where are the ledger, MLflow and the checkpoint store of this worker?

    Without setting or block the ledger is an SQLite file and the checkpoint store a folder, both
    in the worker's state folder, and costs are not logged to MLflow.
    """
    ledger_url = settings.ledger_url or await _block_field(client, "gpu-usage-ledger", "url")
    return Connections(
        ledger_url=ledger_url or f"sqlite:///{state_dir / 'ledger.db'}",
        mlflow=await _mlflow(client, settings),
        checkpoint_uri=await read_checkpoint_uri(client, settings, state_dir),
    )


async def read_checkpoint_uri(
    client: PrefectClient, settings: GpuWorkerSettings, state_dir: Path
) -> str:
    """Where do runs that say nothing else save their checkpoints?"""
    uri = settings.checkpoint_uri or await _block_field(client, "gpu-checkpoint-store", "uri")
    return uri or str(state_dir / "checkpoints")


async def _mlflow(client: PrefectClient, settings: GpuWorkerSettings) -> MlflowAccess | None:
    if settings.mlflow_tracking_uri:
        # The block's user belongs to the block's server.
        return MlflowAccess.of(settings.mlflow_tracking_uri)
    data = await _block_data(client, "gpu-mlflow-tracking")
    if not data.get("tracking_uri"):
        return None
    if split_credentials(str(data["tracking_uri"]))[1] is not None:
        _log.warning(
            "The block gpu-mlflow-tracking/%s has a user or password in its address, for everybody "
            "who may read blocks; `prefect-gpu setup` moves them to the fields that hide them",
            _DOCUMENT,
        )
    known = {name: _text(data, name) for name in ("username", "password", "token")}
    return MlflowAccess.of(str(data["tracking_uri"]), **known)


async def _block_field(client: PrefectClient, slug: str, name: str) -> str | None:
    return _text(await _block_data(client, slug), name)


async def _block_data(client: PrefectClient, slug: str) -> Mapping[str, Any]:
    try:
        document = await client.read_block_document_by_name(_DOCUMENT, slug, include_secrets=True)
    except ObjectNotFound:
        return {}
    return document.data


def _text(data: Mapping[str, Any], name: str) -> str | None:
    value = data.get(name)
    return str(value) if value else None
