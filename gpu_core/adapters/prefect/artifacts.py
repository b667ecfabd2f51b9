"""Artifacts by their key, of a run or of none."""

from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    ArtifactFilterKey,
)
from prefect.client.schemas.objects import Artifact
from prefect.client.schemas.sorting import ArtifactSort


async def find_artifact(
    client: PrefectClient, key: str, flow_run_id: str | None = None
) -> Artifact | None:
    """The newest artifact of this key; None: there is none.

    Args:
        client: Prefect's client.
        key: Its key.
        flow_run_id: Only those of this run; None: of any, or of none.
    """
    of_run = None if flow_run_id is None else ArtifactFilterFlowRunId(any_=[UUID(flow_run_id)])
    found = await client.read_artifacts(
        artifact_filter=ArtifactFilter(key=ArtifactFilterKey(any_=[key]), flow_run_id=of_run),
        sort=ArtifactSort.CREATED_DESC,
        limit=1,
    )
    return found[0] if found else None


async def write_artifact(
    client: PrefectClient, artifact: ArtifactCreate, artifact_id: UUID | None
) -> UUID:
    """Write an artifact. Returns its id.

    Args:
        client: Prefect's client.
        artifact: Its key, run, type and content.
        artifact_id: The one to edit in place; None: a new one is made.
    """
    if artifact_id is None:
        return (await client.create_artifact(artifact)).id
    await client.update_artifact(
        artifact_id,
        ArtifactUpdate(
            data=artifact.data,
            description=artifact.description,
            metadata_=artifact.metadata_,
        ),
    )
    return artifact_id
