"""Policies side by side, one column each."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from rich.table import Table

from gpu_core.decisions.model.units import format_duration, format_usd
from gpu_core.decisions.simulation.policies.metrics import Metrics, Spread

Values = TypeVar("Values")
_NOTHING = "–"


def simulation_table(columns: Sequence[tuple[str, Metrics, float]]) -> Table:
    """The replays: for each policy its name, its metrics, and its CPU seconds."""
    return comparison("Simulation", columns, _ROWS)


def comparison(
    title: str,
    columns: Sequence[tuple[str, Values, float]],
    rows: Sequence[tuple[str, Callable[[Values], str]]],
) -> Table:
    """A column for each policy's name, values and CPU seconds, and these rows."""
    table = Table(title=title)
    table.add_column("")
    for name, _, _ in columns:
        table.add_column(name, justify="right")
    for label, cell in rows:
        table.add_row(label, *(cell(values) for _, values, _ in columns))
    table.add_row("CPU time", *(format_duration(cpu_s) for _, _, cpu_s in columns))
    return table


def _duration(seconds: float | None) -> str:
    return _NOTHING if seconds is None else format_duration(seconds)


def _of(part: Spread | None, name: str) -> str:
    return _NOTHING if part is None else format_duration(getattr(part, name))


def _ratio(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:.3f}"


def _gpu_hours(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:,.1f}"


_ROWS: tuple[tuple[str, Callable[[Metrics], str]], ...] = (
    ("Jobs finished", lambda m: f"{m.finished:,} of {m.jobs:,}"),
    ("Wait, mean", lambda m: _of(m.wait_s, "mean")),
    ("Wait, p95", lambda m: _of(m.wait_s, "p95")),
    ("Wait, p99", lambda m: _of(m.wait_s, "p99")),
    ("Wait over 8 GPUs, mean", lambda m: _of(m.gang_wait_s, "mean")),
    ("Wait over 8 GPUs, p95", lambda m: _of(m.gang_wait_s, "p95")),
    ("Wait over 255 GPU-hours, mean", lambda m: _of(m.long_wait_s, "mean")),
    ("Completion, mean", lambda m: _duration(m.mean_completion_s)),
    ("Bounded slowdown, mean", lambda m: _ratio(m.mean_bounded_slowdown)),
    ("Makespan", lambda m: _duration(m.makespan_s)),
    ("Utilization", lambda m: _ratio(m.utilization)),
    ("Allocated", lambda m: _ratio(m.allocated)),
    ("Preemptions", lambda m: f"{m.preemptions:,}"),
    ("Interruptions", lambda m: f"{m.interruptions:,}"),
    ("Recoveries", lambda m: f"{m.recoveries:,}"),
    ("Recovery, mean", lambda m: _duration(m.mean_recovery_s)),
    ("GPU-hours lost", lambda m: _gpu_hours(m.lost_gpu_h)),
    ("GPU-hours of checkpoints", lambda m: _gpu_hours(m.checkpoint_gpu_h)),
    ("Jain's index", lambda m: _ratio(m.jain)),
    ("Share error, GPU-hours", lambda m: _gpu_hours(m.share_error_gpu_h)),
    ("Cost", lambda m: format_usd(m.cost_micro_usd)),
    ("Deadlines met", lambda m: f"{m.deadlines_met:,} of {m.deadlines:,}"),
)
