"""Machines, what their GPUs did, and the catalog of what there could be."""

from collections.abc import Iterable, Sequence
from datetime import datetime

import sqlalchemy as sa

from gpu_core.adapters.ledger.capacity import (
    KnownCapacity,
    note_seen,
    read_first,
    read_known,
    read_overlapping,
    write_changes,
)
from gpu_core.adapters.ledger.database import LedgerDatabase, values_of
from gpu_core.adapters.ledger.engine import (
    upsert,
)
from gpu_core.adapters.ledger.gpu_history import add_windows, forget_windows, read_windows
from gpu_core.adapters.ledger.schema import (
    catalogs,
)
from gpu_core.decisions.catalog.offerings import Catalog, combined
from gpu_core.decisions.catalog.sheet import parse_sheet, to_sheet
from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityChanges, CapacityInterval
from gpu_core.decisions.model.units import require_aware
from gpu_core.decisions.telemetry.history import GpuWindow


class MachineRecords(LedgerDatabase):
    """The records of machines, of the activity of their GPUs, and of the offers of providers."""

    def known_capacity(self, host: str) -> KnownCapacity:
        """The machines of this host that are there, and the time of the last sighting."""
        with self._reader.begin() as connection:
            return read_known(connection, host, self._damaged)

    def capacity(self, start: datetime, end: datetime) -> tuple[CapacityInterval, ...]:
        """The intervals of capacity with a time in [start, end), by their beginnings."""
        start, end = require_aware(start, "start"), require_aware(end, "end")
        with self._reader.begin() as connection:
            return read_overlapping(connection, start, end, self._damaged)

    def first_capacity_at(self, pool: str | None = None) -> datetime | None:
        """The moment since when machines are in the ledger, of a pool or all.

        None: there is none.
        """
        with self._reader.begin() as connection:
            return read_first(connection, pool)

    def write_capacity(
        self, changes: CapacityChanges, seen: Iterable[str], seen_at: datetime
    ) -> None:
        """Write down what came and went, and that the other machines were seen; all or none.

        Args:
            changes: Writing them twice is writing them once.
            seen: The ids of open intervals whose machines are there.
            seen_at: When they were seen.
        """
        ids = list(seen)

        def write(connection: sa.Connection) -> None:
            write_changes(connection, changes)
            note_seen(connection, ids, seen_at)

        self._commits.write(write)

    def add_gpu_windows(self, windows: Iterable[GpuWindow], forget_before: datetime) -> None:
        """Keep these windows, and delete those that are older than a moment."""
        found = tuple(windows)

        def write(connection: sa.Connection) -> None:
            add_windows(connection, found)
            forget_windows(connection, forget_before)

        self._commits.write(write)

    def gpu_windows(
        self, since: datetime, until: datetime, gpu_ids: Sequence[str] | None = None
    ) -> tuple[GpuWindow, ...]:
        """The activity of these GPUs in each minute of a span; None: all GPUs."""
        with self._reader.begin() as connection:
            return read_windows(connection, since, until, gpu_ids)

    def save_catalog(self, catalog: Catalog, provider: str, refreshed_at: datetime) -> None:
        """Keep what this provider offers for all workers of this ledger."""
        row = {
            "provider": provider,
            "sheet": to_sheet(catalog, provider, refreshed_at),
            "refreshed_at": refreshed_at,
        }
        insert = upsert(self._writer.dialect.name)(catalogs).values(values_of(row))
        statement = insert.on_conflict_do_update(
            index_elements=[catalogs.c.provider],
            set_={name: insert.excluded[name] for name in ("sheet", "refreshed_at")},
        )
        self._commits.write(lambda connection: connection.execute(statement))

    def catalog_refreshed_at(self) -> datetime | None:
        """The moment of the last refresh of the catalog; None: never."""
        with self._reader.begin() as connection:
            found: datetime | None = connection.scalar(
                sa.select(sa.func.max(catalogs.c.refreshed_at))
            )
        return found

    def catalog(self) -> Catalog:
        """The catalog of the last refresh of each provider; empty if there was none.

        Raises:
            InvalidInput: A sheet cannot be read: a newer version wrote it.
        """
        with self._reader.begin() as connection:
            rows = connection.execute(sa.select(catalogs.c.provider, catalogs.c.sheet)).all()
        return combined(parse_sheet(row.sheet, source=f"catalog of {row.provider}") for row in rows)
