"""The line of a pool as a table for people."""

from collections.abc import Sequence
from datetime import datetime

from rich.table import Table
from rich.text import Text

from gpu_core.decisions.line_table import LineEntry
from gpu_core.decisions.units import format_duration

_NOTHING = "–"


def queue_table(pool: str, entries: Sequence[LineEntry], now: datetime) -> Table:
    """The waiting runs, the next one first.

    Args:
        pool: The pool's name, for the title.
        entries: The line.
        now: What waiting times and expected starts are counted from, aware.
    """
    table = Table(title=f"Waiting in {pool}", title_justify="left", show_lines=True)
    for heading in ("#", "GPUs"):
        table.add_column(heading, justify="right")
    for heading in ("Run", "Queue", "Team", "Waits", "Starts in", "Why, and what would help"):
        table.add_column(heading, overflow="fold")
    for entry in entries:
        table.add_row(*map(Text, _cells(entry, now)))
    return table


def _cells(entry: LineEntry, now: datetime) -> tuple[str, ...]:
    return (
        str(entry.position or _NOTHING),
        str(entry.gpus),
        entry.run,
        entry.queue or _NOTHING,
        entry.team or _NOTHING,
        _from_now((now - entry.waiting_since).total_seconds()),
        _expected(entry, now),
        f"{entry.reason}: {entry.summary}\n{entry.resolution}",
    )


def _expected(entry: LineEntry, now: datetime) -> str:
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
