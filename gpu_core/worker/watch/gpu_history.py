"""Records the activity of this machine's GPUs in the ledger, once a minute."""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from gpu_core.adapters.ledger.spool import SpooledRecord, SpoolFull
from gpu_core.decisions.model.errors import sentences
from gpu_core.decisions.telemetry.history import GpuWindow
from gpu_core.worker.operations.throttle import LastSaid, Throttle
from gpu_core.worker.watch.spooled_writes import SpooledWrites

_log = logging.getLogger("prefect.gpu.history")

_EVERY_S = 60.0

# Of 16 GPUs for a day: a ledger that is unavailable longer lacks what is older.
_MOST_WINDOWS = 16 * 24 * 60


class GpuHistory:
    """Writes the minutes that have ended. Without room to wait they stay in memory, for a day.

    Args:
        writes: Writes them to the ledger, or lets them wait on the disk.
        take: The minutes that have ended since the last call.
    """

    def __init__(self, writes: SpooledWrites, take: Callable[[], tuple[GpuWindow, ...]]) -> None:
        self._writes = writes
        self._take = take
        self._waiting: tuple[GpuWindow, ...] = ()
        self._turns = Throttle(_EVERY_S)
        self._failure = LastSaid()

    async def write(self, days: int, now: datetime, now_s: float) -> None:
        """Write what has ended, if that was not done within the last minute.

        Args:
            days: For how many days windows are kept; 0: none is.
            now: The moment.
            now_s: By a monotonic clock.
        """
        if not self._turns.allows(now_s):
            return
        found = (*self._waiting, *self._take())[-_MOST_WINDOWS:]
        self._waiting = ()
        if not days or not found:
            return
        try:
            await self._writes.write(
                SpooledRecord(windows=found, forget_windows_before=now - timedelta(days=days))
            )
        except SpoolFull as error:
            self._waiting = found
            if self._failure.is_news(type(error).__name__):
                why = sentences(str(error), "retrying in about a minute")
                _log.warning("Failed to record GPU activity: %s", why)
        else:
            self._failure.forget()
