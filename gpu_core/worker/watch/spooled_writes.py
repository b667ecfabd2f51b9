"""Writes to the ledger that may wait: in a file while the ledger is unavailable, replayed in order.

They decide nothing, so a record that the ledger refuses is kept for a person, and stops no cycle.
"""

import logging
import threading
import time
from pathlib import Path

from gpu_core.adapters.ledger import Ledger, is_ledger_outage
from gpu_core.adapters.ledger.database import Logged
from gpu_core.adapters.ledger.spool import Spool, SpooledRecord, SpoolFull
from gpu_core.worker.operations.threads import in_thread

_log = logging.getLogger("prefect.gpu.ledger")


class SpooledWrites:
    """Writes records that decide nothing, at once or when the ledger is back.

    What a killed worker left in the file is replayed by the next one.

    Args:
        ledger: Where records belong.
        path: The file in which they wait.
    """

    def __init__(self, ledger: Ledger, path: Path) -> None:
        self._ledger = ledger
        self._path = path
        self._opened: Spool | None = None
        # A cycle's records are written in the background, while the next cycle may replay the file.
        # A record that is appended during a replay would be deleted with the file.
        self._one_at_a_time = threading.Lock()

    @property
    def is_behind(self) -> bool:
        """Do records wait?"""
        return not self._spool.is_empty

    async def write(self, record: SpooledRecord) -> None:
        """Write a record to the ledger, or let it wait behind those that wait already.

        One that the ledger refuses is kept in a file of its own.

        Raises:
            SpoolFull: It cannot wait either.
        """
        await in_thread(self._write, record)

    def _write(self, record: SpooledRecord) -> None:
        with self._one_at_a_time:
            if not self.is_behind:
                try:
                    self._is_taken(record)
                except Exception:
                    _log.warning("The ledger is unavailable. Storing records in %s", self._path)
                else:
                    return
            self._spool.append(record)

    async def replay(self) -> None:
        """Write down what waits. Nothing may be admitted before.

        Raises:
            Exception: The ledger is still away; all of it waits further.
        """
        if self.is_behind:
            written = await in_thread(self._replay)
            _log.info("The ledger is available again. Wrote %d stored records", written)

    def _replay(self) -> int:
        """How many records were written? A file with lines that are no records is kept."""
        written, unreadable = 0, 0
        with self._one_at_a_time:
            for record in self._spool.records():
                if record is None:
                    unreadable += 1
                else:
                    written += self._is_taken(record)
            suffix = f".{time.time_ns()}.unreadable"
            kept_as = self._path.with_suffix(suffix) if unreadable else None
            if kept_as is not None:
                _log.error("Failed to read %d records, keeping them in %s", unreadable, kept_as)
            self._spool.clear(kept_as=kept_as)
        return written

    def _is_taken(self, record: SpooledRecord) -> bool:
        """Does the ledger have the record now? False: it refuses this one, which is kept.

        Raises:
            Exception: The ledger is unavailable.
        """
        try:
            self._apply(record)
        except Exception as error:
            if is_ledger_outage(error):
                raise
            self._keep(record)
            return False
        return True

    def _keep(self, record: SpooledRecord) -> None:
        """Keep a refused record for a person, as long as its file has room."""
        path = self._path.with_suffix(".refused")
        try:
            Spool(path).append(record)
        except SpoolFull:
            _log.exception("Lost a record: the ledger rejected it, and %s is full", path)
        else:
            _log.exception("The ledger rejected a record, keeping it in %s", path)

    def _apply(self, record: SpooledRecord) -> None:
        if record.decisions:
            self._ledger.log(Logged(record.writer, record.decisions))
        if record.seen_at is not None:
            self._ledger.write_capacity(record.changes, record.seen, record.seen_at)
        if record.forget_windows_before is not None:
            self._ledger.add_gpu_windows(record.windows, record.forget_windows_before)

    @property
    def _spool(self) -> Spool:
        if self._opened is None:
            self._opened = Spool(self._path)
        return self._opened
