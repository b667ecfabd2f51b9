"""The runs that hold GPUs of a pool as one table for people, the CLI and automations."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpu_core.decisions.costs.usage.usage_cost import Held, usage_for, usage_until
from gpu_core.decisions.model import markdown
from gpu_core.decisions.model.attempts import Attempt, RunRecord
from gpu_core.decisions.model.table_cells import (
    Row,
    moment,
    moment_or_none,
    number,
    table_value,
    text,
    text_or_none,
    whole_or_none,
)
from gpu_core.decisions.model.units import SECONDS_PER_HOUR, format_usd
from gpu_core.decisions.model.virtual_nodes import planned_kind

COLUMNS: Mapping[str, str] = {
    "Run": "run",
    "Team": "team",
    "Queue": "queue",
    "GPUs": "gpus",
    "GPU type": "gpu_type",
    "Nodes": "nodes",
    "Held since": "held_since",
    "May run until": "may_run_until",
    "Ending": "ending",
    "Must stop by": "must_stop_by",
    "Accrued micro-USD": "accrued_micro_usd",
    "Accrued at": "accrued_at",
    "Micro-USD per hour": "micro_usd_per_hour",
    "Attempt": "attempt",
    "Run id": "run_id",
}
"""Column names in the table, and the fields here."""

_MICROSECONDS_PER_HOUR = SECONDS_PER_HOUR * 1_000_000
_MOST_NODES = 3
_HEAD = ("Run", "Cost so far", "GPUs", "Held since (UTC)", "Until (UTC)", "Team", "Nodes")


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldersTableEntry:
    """One run that holds GPUs."""

    run: str
    run_id: str
    queue: str | None
    team: str | None
    attempt: int
    gpus: float
    """Over all nodes; a part of one counts as that part."""
    gpu_type: str | None
    nodes: str
    """Their names, or what the run waits for where a node is still to be created."""
    held_since: datetime
    may_run_until: datetime | None
    """The end of its `max_duration`; None: it has none."""
    ending: str | None
    """The `EndReason` that the worker terminates it for; None: it runs."""
    must_stop_by: datetime | None
    """The latest moment at which it is killed, where it is being terminated."""
    accrued_micro_usd: int | None
    """The cost of this attempt until `accrued_at`; None: a part of it has no price."""
    accrued_at: datetime
    micro_usd_per_hour: int | None

    def cost_micro_usd(self, now: datetime) -> int | None:
        """The cost of this attempt by now; None: a part of it has no price."""
        if self.accrued_micro_usd is None or self.micro_usd_per_hour is None:
            return None
        since_us = max(timedelta(0), now - self.accrued_at) // timedelta(microseconds=1)
        return self.accrued_micro_usd + self.micro_usd_per_hour * since_us // _MICROSECONDS_PER_HOUR


def holders_key(pool: str) -> str:
    """The key of the artifact with the holders of this pool's GPUs."""
    return re.sub("[^a-z0-9-]", "-", f"gpu-holders-{pool.lower()}")


def holder_entry(
    attempt: Attempt, record: RunRecord, max_duration_s: int | None, now: datetime
) -> HoldersTableEntry:
    """The GPUs that this attempt holds, with their time and cost.

    Args:
        attempt: It is open.
        record: Its run.
        max_duration_s: How long the attempt may run; None: without limit.
        now: Until when its cost is counted, aware.
    """
    limit = None if max_duration_s is None else timedelta(seconds=max_duration_s)
    rates = attempt.price_changes[-1].rates
    gpus = round(float(attempt.gpus), 3)
    return HoldersTableEntry(
        run=record.name,
        run_id=record.flow_run_id,
        queue=record.queue,
        team=record.team,
        attempt=attempt.number,
        gpus=int(gpus) if gpus.is_integer() else gpus,
        gpu_type=attempt.gpu_type,
        nodes=_nodes(attempt),
        held_since=attempt.admitted_at,
        may_run_until=None if limit is None else attempt.admitted_at + limit,
        ending=None if attempt.drain_reason is None else attempt.drain_reason.value,
        must_stop_by=attempt.drain_deadline_at,
        accrued_micro_usd=usage_until(attempt, now).total_micro_usd,
        accrued_at=now,
        micro_usd_per_hour=usage_for(
            Held.by(attempt), _MICROSECONDS_PER_HOUR, rates
        ).total_micro_usd,
    )


def to_holder_row(entry: HoldersTableEntry) -> dict[str, object]:
    """The entry as a row of the table: plain data for JSON."""
    return {column: table_value(getattr(entry, field)) for column, field in COLUMNS.items()}


def holder_json(entry: HoldersTableEntry) -> dict[str, object]:
    """The entry with the names of its fields, which automations may rely on."""
    row = to_holder_row(entry)
    return {field: row[column] for column, field in COLUMNS.items()}


def without_holder_texts(row: Row) -> dict[str, object]:
    """The row of `to_holder_row` with no text that a person or another system chose."""
    return {**row, "Run": row["Run id"], "Queue": None, "Team": None, "Nodes": ""}


def from_holder_row(row: Row) -> HoldersTableEntry:
    """The entry that this row shows.

    Raises:
        InvalidInput: The row is not one that `to_holder_row` makes.
    """
    return HoldersTableEntry(
        run=text(row, "Run"),
        run_id=text(row, "Run id"),
        queue=text_or_none(row, "Queue"),
        team=text_or_none(row, "Team"),
        attempt=int(number(row, "Attempt")),
        gpus=number(row, "GPUs"),
        gpu_type=text_or_none(row, "GPU type"),
        nodes=text(row, "Nodes"),
        held_since=moment(row, "Held since"),
        may_run_until=moment_or_none(row, "May run until"),
        ending=text_or_none(row, "Ending"),
        must_stop_by=moment_or_none(row, "Must stop by"),
        accrued_micro_usd=whole_or_none(row, "Accrued micro-USD"),
        accrued_at=moment(row, "Accrued at"),
        micro_usd_per_hour=whole_or_none(row, "Micro-USD per hour"),
    )


def holders_markdown(entries: Sequence[HoldersTableEntry], most_rows: int = 20) -> str:
    """The holders of GPUs as Markdown: a sentence, and a table with links to the runs."""
    if not entries:
        return "No running flow runs found."
    rows = [
        (
            markdown.flow_run_cell(entry.run, entry.run_id),
            format_usd(entry.accrued_micro_usd),
            gpus_text(entry),
            f"{entry.held_since:%Y-%m-%d %H:%M}",
            _until(entry),
            markdown.cell(entry.team or "–"),
            markdown.cell(entry.nodes),
        )
        for entry in entries[:most_rows]
    ]
    others = len(entries) - len(rows)
    more = f"\n\nand {others} more" if others else ""
    return (
        "Running flow runs and the cost of their current "
        f"attempts:\n\n{markdown.table(_HEAD, rows)}{more}"
    )


def gpus_text(entry: HoldersTableEntry) -> str:
    """`4 × a100-80gb`; `none` where the run asked for no GPU."""
    return f"{entry.gpus:g} × {entry.gpu_type}" if entry.gpu_type else "none"


def _until(entry: HoldersTableEntry) -> str:
    if entry.ending is not None and entry.must_stop_by is not None:
        return f"{entry.ending}: must stop by {entry.must_stop_by:%H:%M:%S}"
    return "–" if entry.may_run_until is None else f"{entry.may_run_until:%Y-%m-%d %H:%M}"


def _nodes(attempt: Attempt) -> str:
    shown = [_shown(share.node, attempt) for share in attempt.held]
    rest = len(shown) - _MOST_NODES
    return ", ".join(shown[:_MOST_NODES]) + (f" and {rest} more" if rest > 0 else "")


def _shown(node: str, attempt: Attempt) -> str:
    kind = planned_kind(node)
    if kind is not None:
        return f"a new node of {kind}"
    return node if attempt.bound_at is not None else "not placed yet"
