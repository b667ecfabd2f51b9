"""Records that wait on the disk while the ledger is unavailable: bounded, in order, each once.

Only what decides nothing waits here. An admission never does: it is the fence against starting a
run twice, and needs the ledger itself.
"""

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from gpu_core.adapters.files.atomic_file import sync_folder
from gpu_core.adapters.ledger.errors import LedgerError
from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityChanges
from gpu_core.decisions.model.decision_chain import Decision
from gpu_core.decisions.model.errors import sentences
from gpu_core.decisions.telemetry.history import GpuWindow

MOST_BYTES = 64 * 2**20
"""A record has some hundred bytes: this is over 100,000 of them, hours of a large cluster."""


class SpoolFull(LedgerError):
    """The ledger is unavailable, and the file that records wait in has no room for one more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpooledRecord:
    """A pending write. Writing it twice has the effect of writing it once."""

    writer: str = ""
    """The writer of the chain that the decisions are added to."""
    decisions: tuple[Decision, ...] = ()
    changes: CapacityChanges = field(default_factory=CapacityChanges)
    seen: tuple[str, ...] = ()
    """Intervals of capacity whose machines were there at `seen_at`."""
    seen_at: datetime | None = None
    windows: tuple[GpuWindow, ...] = ()
    """The activity of GPUs, minute by minute."""
    forget_windows_before: datetime | None = None
    """Older windows are deleted with it."""


_records = TypeAdapter(SpooledRecord)


class Spool:
    """The records of one worker in a file, a line each. Safe to use from any thread.

    A record is on the disk before `append` returns. The half of a line that a kill or a full disk
    leaves was never a record, and is cut off.

    Args:
        path: The file; its folder exists.
        most_bytes: The size that it never exceeds.
    """

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._size = _whole_bytes(path)

    @property
    def is_empty(self) -> bool:
        """Does no record wait?"""
        return not self._size

    def append(self, record: SpooledRecord) -> None:
        """Let one more record wait.

        Raises:
            SpoolFull: The file, or its disk, has no room for it; those before it still wait.
        """
        line = _records.dump_json(record) + b"\n"
        with self._lock:
            if self._size + len(line) > self._most_bytes:
                raise self._full(f"it has {self._size:,} of {self._most_bytes:,} bytes")
            try:
                self._write(line)
            except OSError as error:
                raise self._full(str(error)) from error
            self._size += len(line)

    def records(self) -> Iterator[SpooledRecord | None]:
        """The records that wait, the oldest first; None for a line that cannot be read."""
        if self.is_empty:
            return
        for line in self._path.read_bytes()[: self._size].splitlines():
            try:
                yield _records.validate_json(line)
            except ValidationError:
                yield None

    def clear(self, *, kept_as: Path | None = None) -> None:
        """No record waits any more.

        Args:
            kept_as: The file for a person to look at, where a record could not be written.
        """
        with self._lock:
            if kept_as is None:
                self._path.unlink(missing_ok=True)
            else:
                self._path.replace(kept_as)
            sync_folder(self._path.parent)
            self._size = 0

    def _write(self, line: bytes) -> None:
        size = self._size
        is_new = not self._path.exists()
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(file, size)
            try:
                if os.pwrite(file, line, size) != len(line):
                    raise OSError("the record was only partially written to disk")
                os.fsync(file)
            except OSError:
                os.ftruncate(file, size)
                raise
        finally:
            os.close(file)
        if is_new:
            sync_folder(self._path.parent)

    def _full(self, why: str) -> SpoolFull:
        return SpoolFull(
            sentences(
                f"the ledger is unavailable and records cannot be stored in {self._path}: {why}",
                "no runs are started until the ledger is available",
            )
        )


def _whole_bytes(path: Path) -> int:
    """The size of the file without the half of a line at its end."""
    return path.read_bytes().rfind(b"\n") + 1 if path.exists() else 0
