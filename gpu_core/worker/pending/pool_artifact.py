"""A table about a pool as an artifact in Prefect: edited in place, also after a restart."""

import logging
from collections.abc import Callable, Sequence
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import ArtifactCreate

from gpu_core.adapters.prefect.artifacts import find_artifact, write_artifact
from gpu_core.decisions.model.table_cells import Row
from gpu_core.worker.operations.outage_errors import is_outage

_log = logging.getLogger("prefect.gpu.publisher")


class PoolTable:
    """One table artifact of a pool.

    Args:
        client: Prefect's client.
        key: The artifact's key.
        without_texts: A row without texts that people or other systems chose.
    """

    def __init__(
        self, client: PrefectClient, key: str, without_texts: Callable[[Row], Row]
    ) -> None:
        self._client = client
        self._key = key
        self._without_texts = without_texts
        self._id: UUID | None = None

    async def write(
        self,
        rows: Sequence[Row],
        description: str,
        *,
        plain_description: str | None = None,
        metadata: dict[str, str] | None = None,
    ) -> None:
        """Write these rows; where the server refuses them, the same without texts of people.

        Args:
            rows: Of the table.
            description: Markdown that the artifact's page shows above it.
            plain_description: The same without texts of people; None: it has none.
            metadata: Of the artifact.
        """
        if self._id is None:
            found = await find_artifact(self._client, self._key)
            self._id = None if found is None else found.id
        try:
            await self._write(rows, description, metadata)
        except Exception as error:
            if is_outage(error):
                raise
            _log.warning("Failed to read the pending reasons in table %s: %s", self._key, error)
            plain = [self._without_texts(row) for row in rows]
            await self._write(plain, plain_description or description, metadata)

    async def _write(
        self, rows: Sequence[Row], description: str, metadata: dict[str, str] | None
    ) -> None:
        artifact = ArtifactCreate(
            key=self._key, type="table", data=rows, description=description, metadata_=metadata
        )
        self._id = await write_artifact(self._client, artifact, self._id)
