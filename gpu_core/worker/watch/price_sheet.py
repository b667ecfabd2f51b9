"""Your own price sheet: read again when its file changes, kept when the new one is malformed."""

import logging
from pathlib import Path

from gpu_core.adapters.files.catalog_file import load_sheet
from gpu_core.decisions.catalog.offerings import Catalog
from gpu_core.decisions.model.errors import GpuSchedulingError, sentences
from gpu_core.worker.operations.throttle import LastSaid

_log = logging.getLogger("prefect.gpu.prices")


class PriceSheetFile:
    """The price sheet of one worker.

    Args:
        path: The sheet, as `prefect-gpu plan --prices` takes it; None: there is none.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._failure = LastSaid()
        self.catalog = Catalog()
        """The offers of the sheet: none before it is read."""

    def refresh(self) -> None:
        """Read the sheet. One that cannot be used is named in the log, and the last one counts."""
        if self._path is None:
            return
        try:
            found = load_sheet(self._path)
        except (GpuSchedulingError, OSError) as error:
            if self._failure.is_news(str(error)):
                why = sentences(str(error), "the last valid version is used")
                _log.error("Failed to load price sheet: %s", why)
            return
        self._failure.forget()
        if found != self.catalog:
            self.catalog = found
