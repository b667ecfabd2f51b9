"""`prefect-gpu queue`: a pool as its worker published it. Works from any machine."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import Artifact
from prefect.exceptions import ObjectNotFound

from gpu_core.adapters.prefect.artifacts import find_artifact
from gpu_core.adapters.prefect.work_pool import read_pool_status, read_pools, read_waiting
from gpu_core.cli.queue.table import holder_lines, waiting_lines
from gpu_core.cli.shared.folding import fold
from gpu_core.cli.shared.prefect_api import ask
from gpu_core.cli.shared.terminal import terminal_width
from gpu_core.decisions.checks.doctor.prefect_pool import OUR_TYPES
from gpu_core.decisions.checks.prefect.pool_commands import setup_command
from gpu_core.decisions.checks.prefect.pool_status import notices
from gpu_core.decisions.costs.reports.holders_table import (
    HoldersTableEntry,
    from_holder_row,
    holder_json,
    holders_key,
)
from gpu_core.decisions.model.errors import InvalidInput, listed, nearest_name
from gpu_core.decisions.model.units import count
from gpu_core.decisions.scheduling.queue.queue_table import (
    QueueTableEntry,
    artifact_key,
    from_row,
    notices_in,
    to_json,
)

# What Prefect calls our worker types; the module that has them takes seconds to import.


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedLine:
    """The runs that hold GPUs and the runs that wait, as last published."""

    published_at: datetime | None
    """None: no worker has published it yet."""
    entries: tuple[QueueTableEntry, ...]
    holders: tuple[HoldersTableEntry, ...]
    """The runs that hold GPUs."""
    notices: tuple[str, ...]
    """The notices on the pool and its workers."""
    is_served: bool
    """Is a GPU worker of the pool online?"""
    waiting: int
    """Runs that wait in Prefect now, whether a worker has seen them or not."""


def queue(pool: str, *, as_json: bool) -> int:
    """Print who holds GPUs of this pool, who waits, and why.

    Raises:
        InvalidInput: There is no such pool, it is not one of ours, or the server cannot be reached.
    """
    line = ask(lambda client: _read(client, pool, datetime.now(UTC)))
    if as_json:
        print(_document(pool, line, datetime.now(UTC)))
        return 0
    for text in _shown(pool, line, datetime.now(UTC), terminal_width()):
        print(text)
    return 0


def _shown(pool: str, line: PublishedLine, now: datetime, width: int | None) -> Iterator[str]:
    for notice in line.notices:
        yield from fold(f"! {notice}", width)
    if (line.entries or line.holders) and not line.is_served and line.published_at is not None:
        at = f"{line.published_at:%Y-%m-%d %H:%M:%S} UTC"
        yield from fold(f"No worker is online. Showing the last known state as of {at}:", width)
    yield from holder_lines(pool, line.holders, now, width)
    yield ""
    if line.entries:
        yield from waiting_lines(pool, line.entries, now, width)
    unseen = line.waiting - len(line.entries)
    if unseen > 0:
        more = count(unseen, "more run" if line.entries else "run")
        yield from fold(
            f"{more} scheduled in work pool {pool!r}, but not yet picked up by a GPU worker.", width
        )
    elif not line.entries:
        yield from fold(f"No pending flow runs found in work pool {pool!r}.", width)


async def _read(client: PrefectClient, pool: str, now: datetime) -> PublishedLine:
    try:
        status = await read_pool_status(client, pool)
    except ObjectNotFound:
        raise await _unknown(client, pool) from None
    if status.worker_type not in OUR_TYPES:
        raise InvalidInput(
            "pool",
            f"{pool!r} is not a GPU pool",
            got=status.worker_type,
            allowed=f"a pool of type {' or '.join(OUR_TYPES)}",
            remedy=f"create one with another name: `{setup_command('gpu', OUR_TYPES[0])}`",
        )
    _, waiting = await read_waiting(client, pool, now)
    published = await find_artifact(client, artifact_key(pool))
    holders = await find_artifact(client, holders_key(pool))
    return PublishedLine(
        published_at=None if published is None else published.updated,
        entries=tuple(map(from_row, _rows(published))) if waiting else (),
        holders=tuple(map(from_holder_row, _rows(holders))),
        notices=_notices(published, tuple(notice.text for notice in notices(status))),
        is_served=status.has_worker,
        waiting=waiting,
    )


async def _unknown(client: PrefectClient, pool: str) -> InvalidInput:
    ours = [each.name for each in await read_pools(client, OUR_TYPES)]
    return InvalidInput(
        "pool",
        "is not a work pool on this server",
        got=pool,
        nearest=nearest_name(pool, ours),
        allowed=listed(ours) if ours else None,
        remedy=f"to create it, run `{setup_command(pool, OUR_TYPES[0])}`",
    )


def _rows(published: Artifact | None) -> list[Any]:
    rows = [] if published is None else published.data
    if not isinstance(rows, list):
        raise InvalidInput("queue", "is not a table", remedy="start a GPU worker of this version")
    return rows


def _notices(published: Artifact | None, now: tuple[str, ...]) -> tuple[str, ...]:
    """Those of this moment, then what only the worker knows, such as that its policy is broken."""
    return (*now, *notices_in(None if published is None else published.metadata_))


def _document(pool: str, line: PublishedLine, now: datetime) -> str:
    published_at = line.published_at
    return json.dumps(
        {
            "pool": pool,
            "published_at": None if published_at is None else published_at.isoformat(),
            "notices": line.notices,
            "waiting": line.waiting,
            "holders": [_holder(entry, now) for entry in line.holders],
            "line": [to_json(entry) for entry in line.entries],
        },
        indent=2,
        ensure_ascii=False,
    )


def _holder(entry: HoldersTableEntry, now: datetime) -> dict[str, object]:
    """With the cost of this moment, rather than that of the last publication."""
    cost = entry.cost_micro_usd(now)
    return holder_json(replace(entry, accrued_micro_usd=cost, accrued_at=now))
