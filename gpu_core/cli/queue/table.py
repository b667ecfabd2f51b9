"""The line of a pool as a table for people."""

from collections.abc import Sequence
from datetime import datetime

from rich.console import Group
from rich.table import Table
from rich.text import Text

from gpu_core.decisions.model.units import format_duration
from gpu_core.decisions.scheduling.queue_table import QueueTableEntry

_NOTHING = "–"


def queue_table(pool: str, entries: Sequence[QueueTableEntry], now: datetime) -> Group:
    """The waiting runs, the next one first, and below them why each waits and what would help.

    The reasons are sentences: beside the facts they would stand in a column of single words on a
    terminal of ordinary width.

    Args:
        pool: The pool's name, for the title.
        entries: The line.
        now: What waiting times and expected starts are counted from, aware.
    """
    table = Table(title=f"Waiting in {pool}", title_justify="left")
    for heading in ("#", "GPUs"):
        table.add_column(heading, justify="right")
    for heading in ("Run", "Queue", "Team", "Waits", "Starts in"):
        table.add_column(heading, overflow="fold")
    reasons = Table.grid(padding=(0, 2))
    for entry in entries:
        table.add_row(*map(Text, _cells(entry, now)))
        reasons.add_row(Text(_position(entry)), Text(f"{entry.run}: {_reason(entry)}"))
    return Group(table, reasons)


def _cells(entry: QueueTableEntry, now: datetime) -> tuple[str, ...]:
    return (
        _position(entry),
        str(entry.gpus),
        entry.run,
        entry.queue or _NOTHING,
        entry.team or _NOTHING,
        _from_now((now - entry.waiting_since).total_seconds()),
        _expected(entry, now),
    )


def _position(entry: QueueTableEntry) -> str:
    return str(entry.position or _NOTHING)


def _reason(entry: QueueTableEntry) -> str:
    return f"{entry.reason}: {entry.summary} {entry.resolution}"


def _expected(entry: QueueTableEntry, now: datetime) -> str:
    def until(moment: datetime) -> str:
        return _from_now((moment - now).total_seconds())

    start, low, high = (
        entry.expected_start_at,
        entry.expected_start_from,
        entry.expected_start_until,
    )
    parts = [] if start is None else [until(start)]
    if low is not None and high is not None:
        parts.append(f"({until(low)} to {until(high)})")
    return " ".join(parts) or "unknown"


def _from_now(seconds: float) -> str:
    """Never negative: what was expected by now may happen at any moment."""
    return format_duration(max(0, round(seconds)))
