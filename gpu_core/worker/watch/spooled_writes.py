"""Writes to the ledger that may wait: in a file while the ledger is away, replayed in order."""

import logging
import time
from pathlib import Path

from gpu_core.adapters.ledger import Ledger, is_ledger_outage
from gpu_core.adapters.ledger.spool import Spool, SpooledRecord
from gpu_core.adapters.ledger.store import Logged
from gpu_core.worker.operations.threads import in_thread

_log = logging.getLogger("prefect.gpu.ledger")


class SpooledWrites:
    """Writes records of capacity and of decisions, at once or when the ledger is back.

    What a killed worker left in the file is replayed by the next one.

    Args:
        ledger: Where records belong.
        path: The file in which they wait.
    """

    def __init__(self, ledger: Ledger, path: Path) -> None:
        self._ledger = ledger
        self._path = path
        self._opened: Spool | None = None

    @property
    def is_behind(self) -> bool:
        """Do records wait?"""
        return not self._spool.is_empty

    async def write(self, record: SpooledRecord) -> None:
        """Write a record to the ledger, or let it wait behind those that wait already.

        Raises:
            SpoolFull: It cannot wait either.
        """
        if not self.is_behind:
            try:
                await in_thread(self._apply, record)
            except Exception as error:
                if not is_ledger_outage(error):
                    raise
                _log.warning("The ledger is unavailable: records wait in %s", self._path)
            else:
                return
        await in_thread(self._spool.append, record)

    async def replay(self) -> None:
        """Write down what waits. Nothing may be admitted before.

        Raises:
            Exception: The ledger is still away; all of it waits further.
        """
        if self.is_behind:
            written = await in_thread(self._replay)
            _log.info("The ledger is back: %d records that waited are written down", written)

    def _replay(self) -> int:
        """How many records were written? What the ledger refuses is kept in a file of its own."""
        written, left = 0, 0
        for record in self._spool.records():
            if record is not None and self._is_taken(record):
                written += 1
            else:
                left += 1
        kept_as = self._path.with_suffix(f".{time.time_ns()}.refused") if left else None
        if kept_as is not None:
            _log.error("%d records cannot be written; they are kept in %s", left, kept_as)
        self._spool.clear(kept_as=kept_as)
        return written

    def _is_taken(self, record: SpooledRecord) -> bool:
        try:
            self._apply(record)
        except Exception as error:
            if is_ledger_outage(error):
                raise
            _log.exception("The ledger refuses a record that waited")
            return False
        return True

    def _apply(self, record: SpooledRecord) -> None:
        if record.decisions:
            self._ledger.log(Logged(record.writer, record.decisions))
        if record.seen_at is not None:
            self._ledger.write_capacity(record.changes, record.seen, record.seen_at)

    @property
    def _spool(self) -> Spool:
        if self._opened is None:
            self._opened = Spool(self._path)
        return self._opened
