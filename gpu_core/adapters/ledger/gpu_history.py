"""The table of GPUs' hours: written minute by minute, read by span, forgotten by age."""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from gpu_core.adapters.ledger.schema import gpu_hours
from gpu_core.decisions.telemetry.history import (
    MINUTE,
    GpuHour,
    GpuWindow,
    hours_of,
    merged,
    windows_of,
)

_c = gpu_hours.c


def add_windows(connection: sa.Connection, windows: Iterable[GpuWindow]) -> None:
    """Add these windows to their hours; a minute that is there already stays as it is."""
    for hour in hours_of(windows):
        place = (_c.gpu_id == hour.gpu_id, _c.hour == hour.hour)
        before = connection.scalar(sa.select(_c.windows).where(*place).with_for_update())
        if before is None:
            statement: sa.Executable = sa.insert(gpu_hours).values(
                gpu_id=hour.gpu_id, hour=hour.hour, windows=hour.windows
            )
        else:
            whole = merged(before, hour.windows)
            statement = sa.update(gpu_hours).where(*place).values(windows=whole)
        connection.execute(statement)


def forget_windows(connection: sa.Connection, before: datetime) -> int:
    """Delete the hours that have ended by this moment. Returns their number."""
    ended = before - timedelta(hours=1)
    return int(connection.execute(sa.delete(gpu_hours).where(_c.hour <= ended)).rowcount)


def read_windows(
    connection: sa.Connection, since: datetime, until: datetime, gpu_ids: Collection[str] | None
) -> tuple[GpuWindow, ...]:
    """The windows that begin in this span, by minute and GPU."""
    statement: sa.Select[Any] = sa.select(gpu_hours).where(
        _c.hour > since - timedelta(hours=1) - MINUTE, _c.hour < until
    )
    if gpu_ids is not None:
        statement = statement.where(_c.gpu_id.in_(gpu_ids))
    hours = (GpuHour(**row._mapping) for row in connection.execute(statement))
    found = (window for hour in hours for window in windows_of(hour))
    inside = (window for window in found if since <= window.minute < until)
    return tuple(sorted(inside, key=lambda window: (window.minute, window.summary.gpu_id)))
