"""The queue of a pool as one table for people, the CLI and automations."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from gpu_core.decisions.model.errors import InvalidInput, one_line
from gpu_core.decisions.model.reasons import Explanation
from gpu_core.decisions.model.workload import Workload

COLUMNS: Mapping[str, str] = {
    "Position": "position",
    "Run": "run",
    "Queue": "queue",
    "Team": "team",
    "GPUs": "gpus",
    "Priority": "priority",
    "Waiting since": "waiting_since",
    "Reason": "reason",
    "Why": "summary",
    "What would help": "resolution",
    "Expected start": "expected_start_at",
    "From": "expected_start_from",
    "Until": "expected_start_until",
    "Run id": "run_id",
}
"""Column names in the table, and the fields here."""

NOTICES = "notices"
"""The key of the notices in the table's metadata: a JSON list."""

# One run must not fill the artifact of all runs.
_LONGEST_TEXT = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTableEntry:
    """One pending run in the queue."""

    position: int
    """1 is the head; 0: held, not in the queue."""
    run: str
    run_id: str
    queue: str | None
    team: str | None
    gpus: int
    """Over all nodes."""
    priority: int
    waiting_since: datetime
    reason: str
    """A member of `reasons.Reason`."""
    summary: str
    resolution: str
    expected_start_at: datetime | None
    expected_start_from: datetime | None
    expected_start_until: datetime | None


def artifact_key(pool: str) -> str:
    """Which key does the artifact of this pool's queue have?"""
    return re.sub("[^a-z0-9-]", "-", f"gpu-queue-{pool.lower()}")


def table_entries(
    explanations: Sequence[Explanation], workloads: Mapping[str, Workload]
) -> tuple[QueueTableEntry, ...]:
    """Which runs wait, and why? In the order of the explanations.

    Args:
        explanations: Of the pending runs, the next one first.
        workloads: The runs, by workload id.
    """
    return tuple(
        _entry(explanation, workloads[explanation.workload_id]) for explanation in explanations
    )


def to_row(entry: QueueTableEntry) -> dict[str, object]:
    """The entry as a row of the table: plain data for JSON, times as ISO 8601 text in UTC."""
    return {column: _cell(getattr(entry, field)) for column, field in COLUMNS.items()}


def without_texts(row: Mapping[str, object]) -> dict[str, object]:
    """The row of `to_row` with no text that a person or another system chose."""
    return {
        **row,
        "Run": row["Run id"],
        "Queue": None,
        "Team": None,
        "Why": "The texts of this queue cannot be shown: see the page of the run.",
        "What would help": "",
    }


def to_json(entry: QueueTableEntry) -> dict[str, object]:
    """The entry with the names of its fields, which automations may rely on."""
    row = to_row(entry)
    return {field: row[column] for column, field in COLUMNS.items()}


def from_row(row: Mapping[str, object]) -> QueueTableEntry:
    """Which entry does this row show?

    Raises:
        InvalidInput: The row is not one that `to_row` makes.
    """
    return QueueTableEntry(
        position=_whole(row, "Position"),
        run=_text(row, "Run"),
        run_id=_text(row, "Run id"),
        queue=_text_or_none(row, "Queue"),
        team=_text_or_none(row, "Team"),
        gpus=_whole(row, "GPUs"),
        priority=_whole(row, "Priority"),
        waiting_since=_moment(row, "Waiting since"),
        reason=_text(row, "Reason"),
        summary=_text(row, "Why"),
        resolution=_text(row, "What would help"),
        expected_start_at=_moment_or_none(row, "Expected start"),
        expected_start_from=_moment_or_none(row, "From"),
        expected_start_until=_moment_or_none(row, "Until"),
    )


def _entry(explanation: Explanation, workload: Workload) -> QueueTableEntry:
    return QueueTableEntry(
        position=explanation.position,
        run=workload.name,
        run_id=workload.workload_id,
        queue=workload.queue,
        team=workload.team,
        gpus=workload.total_gpus,
        priority=workload.priority,
        waiting_since=workload.submitted_at,
        reason=explanation.reason.value,
        summary=explanation.summary,
        resolution=explanation.resolution,
        expected_start_at=explanation.expected_start_at,
        expected_start_from=explanation.expected_start_from,
        expected_start_until=explanation.expected_start_until,
    )


def _cell(value: object) -> object:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%SZ}"
    return one_line(value, _LONGEST_TEXT) if isinstance(value, str) else value


def _whole(row: Mapping[str, object], column: str) -> int:
    value = row.get(column)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _unreadable(column, value)
    return value


def _text(row: Mapping[str, object], column: str) -> str:
    value = row.get(column)
    if not isinstance(value, str):
        raise _unreadable(column, value)
    return value


def _text_or_none(row: Mapping[str, object], column: str) -> str | None:
    return None if row.get(column) is None else _text(row, column)


def _moment(row: Mapping[str, object], column: str) -> datetime:
    text = _text(row, column)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise _unreadable(column, text) from None


def _moment_or_none(row: Mapping[str, object], column: str) -> datetime | None:
    return None if row.get(column) is None else _moment(row, column)


def _unreadable(column: str, value: object) -> InvalidInput:
    return InvalidInput(
        f"line.{column}",
        "cannot be read",
        got=value,
        remedy="the worker that published the line is of another version",
    )
