"""Rows of a bill that wait on the disk until the amounts of all are known."""

import pickle
from collections.abc import Iterator
from tempfile import TemporaryFile

from gpu_core.decisions.costs.billing.focus import FocusRow


class RowsOnDisk:
    """Rows in a temporary file without a name, which ends with this object."""

    def __init__(self) -> None:
        self._file = TemporaryFile()  # noqa: SIM115 - it is open as long as this object

    def append(self, row: FocusRow, /) -> None:
        """Keep one more.

        Raises:
            OSError: The disk is full.
        """
        pickle.dump(row, self._file, pickle.HIGHEST_PROTOCOL)

    def __iter__(self) -> Iterator[FocusRow]:
        """All of them, in their order; ask when none is added any more."""
        self._file.seek(0)
        while True:
            try:
                # This process wrote it, and no other one can open it.
                row: FocusRow = pickle.load(self._file)  # noqa: S301
            except EOFError:
                return
            yield row

    def close(self) -> None:
        """Forget them."""
        self._file.close()
