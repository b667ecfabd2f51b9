"""The queue of a pool as one table for people, the CLI and automations."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count, takewhile

from gpu_core.decisions.model import markdown
from gpu_core.decisions.model.reasons import Explanation
from gpu_core.decisions.model.table_cells import (
    moment,
    moment_or_none,
    table_value,
    text,
    text_or_none,
    whole,
)
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

_HEAD = ("#", "Run", "Reason", "GPUs", "Since (UTC)", "Starts", "Team")
_MOST_ROWS = 20

_NOTICES = "notices"
# Prefect cuts each value of an artifact's metadata off there (`validate_max_metadata_length`, 3.8).
_LONGEST_METADATA = 500


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
    """The key of the artifact of this pool's queue."""
    return re.sub("[^a-z0-9-]", "-", f"gpu-queue-{pool.lower()}")


def table_entries(
    explanations: Sequence[Explanation], workloads: Mapping[str, Workload]
) -> tuple[QueueTableEntry, ...]:
    """The entries of the runs that wait, in the order of the explanations.

    Args:
        explanations: Of the pending runs, the next one first.
        workloads: The runs, by workload id.
    """
    return tuple(
        _entry(explanation, workloads[explanation.workload_id]) for explanation in explanations
    )


def to_row(entry: QueueTableEntry) -> dict[str, object]:
    """The entry as a row of the table: plain data for JSON, times as ISO 8601 text in UTC."""
    return {column: table_value(getattr(entry, field)) for column, field in COLUMNS.items()}


def queue_markdown(entries: Sequence[QueueTableEntry], most_rows: int = _MOST_ROWS) -> str:
    """The waiting runs as Markdown: a table with links to the runs, the next one first."""
    if not entries:
        return "No runs are waiting for GPUs."
    rows = [
        (
            str(entry.position or "–"),
            markdown.flow_run_cell(entry.run, entry.run_id),
            entry.reason,
            str(entry.gpus),
            f"{entry.waiting_since:%Y-%m-%d %H:%M}",
            _expected(entry),
            markdown.cell(entry.team or "–"),
        )
        for entry in entries[:most_rows]
    ]
    others = len(entries) - len(rows)
    more = f"\n\nand {others} more" if others else ""
    return f"Runs waiting for GPUs, in scheduling order:\n\n{markdown.table(_HEAD, rows)}{more}"


def _expected(entry: QueueTableEntry) -> str:
    start, low, high = (
        entry.expected_start_at,
        entry.expected_start_from,
        entry.expected_start_until,
    )
    parts = [] if start is None else [f"{start:%H:%M}"]
    if low is not None and high is not None:
        parts.append(f"(80%: {low:%H:%M} to {high:%H:%M})")
    return " ".join(parts) or "unknown"


def notices_metadata(notices: Sequence[str]) -> dict[str, str]:
    """The notices as metadata of the table's artifact, which Prefect does not cut off.

    Returns:
        A JSON list under `notices`, continued under `notices.1`, `notices.2` and so on.
    """
    written = json.dumps(list(notices))
    starts = range(0, len(written), _LONGEST_METADATA)
    parts = (written[start : start + _LONGEST_METADATA] for start in starts)
    return {_part_key(number): part for number, part in enumerate(parts)}


def notices_in(metadata: Mapping[str, object] | None) -> tuple[str, ...]:
    """Which notices does the metadata of the table's artifact hold? None where it is not ours."""
    if not metadata:
        return ()
    keys = takewhile(metadata.__contains__, map(_part_key, count()))
    try:
        found = json.loads("".join(str(metadata[key]) for key in keys))
    except ValueError:
        return ()
    return tuple(map(str, found)) if isinstance(found, list) else ()


def _part_key(number: int) -> str:
    return f"{_NOTICES}.{number}" if number else _NOTICES


def without_texts(row: Mapping[str, object]) -> dict[str, object]:
    """The row of `to_row` with no text that a person or another system chose."""
    return {
        **row,
        "Run": row["Run id"],
        "Queue": None,
        "Team": None,
        "Why": (
            "Unable to display the details of this queue. See the run's page for more information."
        ),
        "What would help": "",
    }


def to_json(entry: QueueTableEntry) -> dict[str, object]:
    """The entry with the names of its fields, which automations may rely on."""
    row = to_row(entry)
    return {field: row[column] for column, field in COLUMNS.items()}


def from_row(row: Mapping[str, object]) -> QueueTableEntry:
    """The entry that this row shows.

    Raises:
        InvalidInput: The row is not one that `to_row` makes.
    """
    return QueueTableEntry(
        position=whole(row, "Position"),
        run=text(row, "Run"),
        run_id=text(row, "Run id"),
        queue=text_or_none(row, "Queue"),
        team=text_or_none(row, "Team"),
        gpus=whole(row, "GPUs"),
        priority=whole(row, "Priority"),
        waiting_since=moment(row, "Waiting since"),
        reason=text(row, "Reason"),
        summary=text(row, "Why"),
        resolution=text(row, "What would help"),
        expected_start_at=moment_or_none(row, "Expected start"),
        expected_start_from=moment_or_none(row, "From"),
        expected_start_until=moment_or_none(row, "Until"),
    )


def _entry(explanation: Explanation, workload: Workload) -> QueueTableEntry:
    return QueueTableEntry(
        position=explanation.position,
        run=workload.name,
        run_id=workload.workload_id,
        queue=workload.queue,
        team=workload.team,
        gpus=workload.shape.total_gpus,
        priority=workload.priority,
        waiting_since=workload.submitted_at,
        reason=explanation.reason.value,
        summary=explanation.summary,
        resolution=explanation.resolution,
        expected_start_at=explanation.expected_start_at,
        expected_start_from=explanation.expected_start_from,
        expected_start_until=explanation.expected_start_until,
    )
