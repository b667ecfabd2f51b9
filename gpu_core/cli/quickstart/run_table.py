"""The table that the quickstart ends with: what each run waited, held, cost, and what was saved."""

from collections.abc import Sequence

from rich.console import JustifyMethod
from rich.table import Table

from gpu_core.decisions.costs.usage.usage_cost import RunCost, total
from gpu_core.decisions.model.units import format_duration, format_usd


def run_table(costs: Sequence[RunCost]) -> Table:
    """The runs in the order of their submission, and their sum."""
    table = Table(title="Runs")
    for heading, justify in COLUMNS:
        table.add_column(heading, justify=justify)
    for cost in sorted(costs, key=lambda cost: cost.run.submitted_at):
        table.add_row(*_row(cost))
    together = total(costs)
    table.add_section()
    table.add_row(
        "all with a known price" if together.usage.is_unpriced else "all",
        "",
        str(sum(len(cost.attempts) for cost in costs)),
        "",
        f"{together.usage.gpu_hours:.4f}",
        format_usd(together.usage.micro_usd),
        format_usd(together.saved.total_micro_usd),
        format_usd(together.lost.total_micro_usd),
    )
    return table


COLUMNS: tuple[tuple[str, JustifyMethod], ...] = (
    ("Run", "left"),
    ("Queue", "left"),
    ("Attempts", "right"),
    ("Waited", "right"),
    ("GPU-hours", "right"),
    ("Cost", "right"),
    ("Saved", "right"),
    ("Lost", "right"),
)


def _row(cost: RunCost) -> tuple[str, ...]:
    return (
        cost.run.name,
        cost.run.queue or "–",
        str(len(cost.attempts)),
        format_duration(cost.wait_s),
        f"{cost.usage.gpu_hours:.4f}",
        format_usd(cost.total_micro_usd),
        format_usd(cost.saved.total_micro_usd) if cost.setbacks else "–",
        format_usd(cost.lost_micro_usd) if cost.setbacks else "–",
    )
