"""A pool as people read it in a terminal: who holds its GPUs, then who waits, and why."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from gpu_core.cli.queue.layout import QueueRow, lines
from gpu_core.cli.shared.folding import fold, isolated
from gpu_core.decisions.costs.reports.holders_table import HoldersTableEntry, gpus_text
from gpu_core.decisions.model.units import count, format_duration, format_usd
from gpu_core.decisions.scheduling.queue.queue_table import QueueTableEntry

_NOTHING = "–"
_HOLDERS = ("Run", "Team", "GPUs", "Nodes", "Held since", "Cost so far", "May run until")
_WAITING = ("#  Run", "Team", "GPUs", "Waited", "Starts in")


def holder_lines(
    pool: str, entries: Sequence[HoldersTableEntry], now: datetime, width: int | None
) -> Iterator[str]:
    """The lines on runs that hold GPUs: since when, at what cost so far, and until when.

    Args:
        pool: The pool's name.
        entries: The runs that hold GPUs.
        now: Until when cost is counted, aware.
        width: Of the terminal; None: a pipe.
    """
    if not entries:
        yield from fold(f"No running flow runs found in work pool {pool!r}.", width)
        return
    costs = [entry.cost_micro_usd(now) for entry in entries]
    known = sum(cost for cost in costs if cost is not None)
    unpriced = ", excluding resources without a price" if None in costs else ""
    verb = "holds" if len(entries) == 1 else "hold"
    yield from fold(
        f"{count(len(entries), 'run')} of pool {pool!r} {verb} GPUs: "
        f"{format_usd(known)} so far{unpriced}.",
        width,
    )
    yield from lines(_HOLDERS, [_holder(entry, now) for entry in entries], width)


def waiting_lines(
    pool: str, entries: Sequence[QueueTableEntry], now: datetime, width: int | None
) -> Iterator[str]:
    """The lines on runs that wait: position, reason, expected start, and what would help.

    Args:
        pool: The pool's name.
        entries: The queue.
        now: What waiting times and expected starts are counted from, aware.
        width: Of the terminal; None: a pipe.
    """
    verb = "waits" if len(entries) == 1 else "wait"
    yield from fold(f"{count(len(entries), 'run')} of pool {pool!r} {verb}.", width)
    yield from lines(_WAITING, [_waiting(entry, now) for entry in entries], width)


def _holder(entry: HoldersTableEntry, now: datetime) -> QueueRow:
    held_s = (now - entry.held_since).total_seconds()
    cells = (
        isolated(entry.run),
        isolated(entry.team or _NOTHING),
        gpus_text(entry),
        entry.nodes or _NOTHING,
        f"{_moment(entry.held_since, now)} ({_seconds(held_s)})",
        format_usd(entry.cost_micro_usd(now)),
        _NOTHING if entry.may_run_until is None else _moment(entry.may_run_until, now),
    )
    return QueueRow(cells, _ending(entry, now))


def _ending(entry: HoldersTableEntry, now: datetime) -> tuple[str, ...]:
    if entry.ending is None:
        return ()
    by = "" if entry.must_stop_by is None else f"; must stop by {_moment(entry.must_stop_by, now)}"
    return (f"{entry.ending}{by}.",)


def _waiting(entry: QueueTableEntry, now: datetime) -> QueueRow:
    cells = (
        f"{entry.position or _NOTHING}  {isolated(entry.run)}",
        isolated(entry.team or _NOTHING),
        str(entry.gpus),
        _seconds((now - entry.waiting_since).total_seconds()),
        _expected(entry, now),
    )
    return QueueRow(cells, (f"{entry.reason}: {entry.summary}", entry.resolution))


def _expected(entry: QueueTableEntry, now: datetime) -> str:
    def until(moment: datetime) -> str:
        return _seconds((moment - now).total_seconds())

    start, low, high = (
        entry.expected_start_at,
        entry.expected_start_from,
        entry.expected_start_until,
    )
    parts = [] if start is None else [until(start)]
    if low is not None and high is not None:
        parts.append(f"(80%: {until(low)} to {until(high)})")
    return " ".join(parts) or "unknown"


def _moment(moment: datetime, now: datetime) -> str:
    day = "" if moment.date() == now.date() else f"{moment:%Y-%m-%d} "
    return f"{day}{moment:%H:%M:%S} UTC"


def _seconds(seconds: float) -> str:
    """Never negative: what was expected by now may happen at any moment."""
    return format_duration(max(0, round(seconds)))
