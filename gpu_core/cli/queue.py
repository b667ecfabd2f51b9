"""`prefect-gpu queue`: the line of a pool, as its worker published it. Works from any machine."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey
from prefect.exceptions import ObjectNotFound
from rich.console import Console

from gpu_core.cli.prefect_api import ask
from gpu_core.cli.queue_table import queue_table
from gpu_core.decisions.errors import InvalidInput
from gpu_core.decisions.line_table import LineEntry, from_row, line_key, to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedLine:
    """The line at the moment when it last changed."""

    published_at: datetime | None
    entries: tuple[LineEntry, ...]


def queue(pool: str, *, as_json: bool) -> int:
    """Print who waits in this pool, and why.

    Raises:
        InvalidInput: There is no such pool, no worker has published its line, or the server
            cannot be reached.
    """
    line = ask(lambda client: _read(client, pool))
    if as_json:
        print(_document(pool, line))
        return 0
    console = Console()
    if not line.entries:
        console.print(f"Nobody waits in pool {pool!r}.", highlight=False)
        return 0
    console.print(queue_table(pool, line.entries, datetime.now(UTC)))
    return 0


async def _read(client: PrefectClient, pool: str) -> PublishedLine:
    try:
        await client.read_work_pool(pool)
    except ObjectNotFound:
        raise InvalidInput(
            "pool", "is not known to this server", got=pool, remedy="see `prefect work-pool ls`"
        ) from None
    found = await client.read_artifacts(
        artifact_filter=ArtifactFilter(key=ArtifactFilterKey(any_=[line_key(pool)])), limit=1
    )
    if not found:
        raise InvalidInput(
            "pool",
            "has no published line",
            got=pool,
            remedy=f"start its GPU worker: prefect worker start --pool {pool}",
        )
    rows = found[0].data
    if not isinstance(rows, list):
        raise InvalidInput("line", "is not a table", remedy="start a GPU worker of this version")
    return PublishedLine(
        published_at=found[0].updated, entries=tuple(from_row(row) for row in rows)
    )


def _document(pool: str, line: PublishedLine) -> str:
    published_at = line.published_at
    return json.dumps(
        {
            "pool": pool,
            "published_at": None if published_at is None else published_at.isoformat(),
            "line": [to_json(entry) for entry in line.entries],
        },
        indent=2,
        ensure_ascii=False,
    )
