"""The three files by which a worker and a run talk while the run lives.

`notice.json` (worker to run: end soon), `checkpoint.json` (run to worker: what is safe) and
`exit.json` (launcher to worker: how it ended). Each is replaced in one step, so a reader sees the
old one or the new one. A reader ignores keys that it does not know, so that a worker and a run
of neighboring versions understand each other.
"""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from gpu_core.adapters.files.atomic_file import replace_file
from gpu_core.adapters.files.plain_file import read_plain_file
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.units import require_plausible
from gpu_core.decisions.requests.runs.run_context import CHECKPOINT_FILE, EXIT_FILE, NOTICE_FILE

_log = logging.getLogger(__name__)

Record = TypeVar("Record")

_LARGEST_BYTES = 64 * 1024

# What the ledger's databases hold of a number.
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """The run will be ended: save now, SIGTERM follows the save or the deadline."""

    reason: str
    """A stable word, such as `Preempted`."""
    message: str
    """The same for people, with the names and numbers."""
    requested_at: datetime
    deadline_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointReport:
    """The newest saved checkpoint of this attempt.

    Its existence says that the run saves when given notice.
    """

    attempt_id: str
    restored_from: str | None = None
    """The checkpoint that the attempt continued from; None: it started from the beginning."""
    checkpoint: str | None = None
    """The newest checkpoint of this attempt; None: nothing saved yet, and the rest is None too."""
    sequence: int | None = None
    saved_at: datetime | None = None
    size_bytes: int | None = None
    duration_s: float | None = None
    answers_notice: bool = False
    """The save started after the notice had come: nothing more will be saved for it."""
    first_step_at: datetime | None = None
    """When the flow first asked whether to save, or saved: it has done a new step by then."""
    expected_loss_s: float | None = None
    """Work that an interruption without notice loses on average; None: no save was measured."""
    saves: int | None = None
    """How many checkpoints this attempt has committed; None: none, or by an earlier version."""
    save_stall_s: float | None = None
    """How long the training stands still for a save; None: no save was measured."""

    @property
    def checkpointed_at(self) -> datetime | None:
        """The time of the newest checkpoint, in the ledger's format."""
        return self.saved_at

    @property
    def works_since(self) -> datetime | None:
        """From when on the attempt's time counts as work; None: from its admission.

        A run time holds one start-up, which an attempt that continued from a checkpoint repeats.
        """
        return None if self.restored_from is None else self.first_step_at


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitReport:
    """The exit report of the command of an attempt."""

    exit_code: int
    """Negative: the signal that killed it, as in Python's `subprocess`."""
    ended_at: datetime
    started_at: datetime | None = None
    error: str | None = None
    """Why the command could not be started; None: it was started."""


def write_notice(run_dir: str | Path, notice: Notice) -> None:
    """Give the run notice of its end. A second notice replaces the first.

    Raises:
        OSError: The run's folder is missing, or the disk refused.
    """
    _write(Path(run_dir, NOTICE_FILE), notice)


def notice_text(notice: Notice) -> str:
    """The notice as the content of its file, for who brings it there in another way."""
    return _text(notice).decode()


def read_notice_file(path: Path) -> Notice | None:
    """Must the run end? None: no, or the file cannot be understood (logged).

    The file is that of the run's folder, or a pod annotation that Kubernetes mounts.
    """
    return read_record(path, _notice)


def write_checkpoint_report(run_dir: str | Path, report: CheckpointReport) -> None:
    """Report to the worker what is safe.

    Raises:
        OSError: The run's folder is missing, or the disk refused.
    """
    _write(Path(run_dir, CHECKPOINT_FILE), report)


def read_checkpoint_report(run_dir: str | Path) -> CheckpointReport | None:
    """The report of checkpoints.

    None: the run does not save, or the file cannot be understood (logged).
    """
    return read_record(Path(run_dir, CHECKPOINT_FILE), _checkpoint_report)


def checkpoint_report_of(values: Mapping[str, object]) -> CheckpointReport | None:
    """The report that these values make; None: they cannot be understood (logged)."""
    try:
        return _checkpoint_report(RecordFields(values))
    except (ValueError, TypeError, KeyError, InvalidInput) as error:
        _log.warning("Ignoring checkpoint report that could not be parsed: %s", error)
        return None


def read_exit_report(run_dir: str | Path) -> ExitReport | None:
    """The end of the command; None: its end was not seen, or the file cannot be understood."""
    return read_record(Path(run_dir, EXIT_FILE), _exit_report)


def _write(path: Path, record: Notice | CheckpointReport) -> None:
    replace_file(path, _text(record))


def _text(record: Notice | CheckpointReport) -> bytes:
    values = {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in asdict(record).items()
    }
    return json.dumps(values, indent=2).encode()


def read_record(path: Path, parse: Callable[["RecordFields"], Record]) -> Record | None:
    """The JSON object in a file; None: the file is missing or invalid (logged).

    Args:
        path: The run can put anything there.
        parse: Makes the record; what it raises for fields is a file that cannot be understood.
    """
    try:
        content = read_plain_file(path, _LARGEST_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        _log.warning("Ignoring %s because it could not be read: %s", path, error)
        return None
    try:
        return parse(RecordFields(json.loads(content)))
    except (ValueError, TypeError, KeyError, RecursionError, InvalidInput) as error:
        _log.warning("Ignoring %s because it could not be parsed: %s", path, error)
        return None


class RecordFields:
    """The values of one JSON object, each of the type that is asked for."""

    def __init__(self, values: object) -> None:
        if not isinstance(values, Mapping):
            raise TypeError("it is not a JSON object")
        self._values = values

    def optional(self, name: str, kind: type[Record]) -> Record | None:
        """The value; None: it is missing, or null.

        Raises:
            TypeError: It is of another type, or out of range.
            ValueError: It is no moment.
        """
        value = self._values.get(name)
        if value is None:
            return None
        if kind is datetime and isinstance(value, str):
            value = require_plausible(datetime.fromisoformat(value), name)
        if kind is float and type(value) is int:
            value = float(value)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise TypeError(f"{name} is {value!r}, not a {kind.__name__}")
        if isinstance(value, int | float) and not -_LARGEST <= value <= _LARGEST:
            raise TypeError(f"{name} is out of range")  # NaN too
        return value

    def required(self, name: str, kind: type[Record]) -> Record:
        """The same, of a value that must be there.

        Raises:
            KeyError: It is missing.
        """
        value = self.optional(name, kind)
        if value is None:
            raise KeyError(f"{name} is missing")
        return value


def _notice(fields: RecordFields) -> Notice:
    return Notice(
        reason=fields.required("reason", str),
        message=fields.required("message", str),
        requested_at=fields.required("requested_at", datetime),
        deadline_at=fields.required("deadline_at", datetime),
    )


def _checkpoint_report(fields: RecordFields) -> CheckpointReport:
    return CheckpointReport(
        attempt_id=fields.required("attempt_id", str),
        restored_from=fields.optional("restored_from", str),
        checkpoint=fields.optional("checkpoint", str),
        sequence=fields.optional("sequence", int),
        saved_at=fields.optional("saved_at", datetime),
        size_bytes=fields.optional("size_bytes", int),
        duration_s=fields.optional("duration_s", float),
        answers_notice=fields.optional("answers_notice", bool) or False,
        first_step_at=fields.optional("first_step_at", datetime),
        expected_loss_s=fields.optional("expected_loss_s", float),
        saves=fields.optional("saves", int),
        save_stall_s=fields.optional("save_stall_s", float),
    )


def _exit_report(fields: RecordFields) -> ExitReport:
    return ExitReport(
        exit_code=fields.required("exit_code", int),
        ended_at=fields.required("ended_at", datetime),
        started_at=fields.optional("started_at", datetime),
        error=fields.optional("error", str),
    )
