"""The quickstart's table of GPU activity by attempt."""

from collections.abc import Sequence

from rich.table import Table

from gpu_core.decisions.costs.usage.usage_cost import RunCost
from gpu_core.decisions.model.attempts import Attempt
from gpu_core.decisions.model.units import format_duration
from gpu_core.decisions.telemetry.summary import gpu_use
from gpu_core.decisions.telemetry.use_text import SIMULATED, format_energy, format_ratio


def attempt_table(costs: Sequence[RunCost]) -> Table:
    """The attempts that held GPUs, by run and number; what is simulated is said below."""
    table = Table(title="GPUs of each attempt")
    table.add_column("Run")
    for heading in ("Attempt", "GPUs", "Held for", "Mean", "95%", "Busy", "Energy"):
        table.add_column(heading, justify="right")
    for cost in sorted(costs, key=lambda cost: cost.run.submitted_at):
        for attempt in cost.attempts:
            if attempt.gpu_ids:
                table.add_row(cost.run.name, *_cells(attempt))
    summaries = (s for cost in costs for a in cost.attempts for s in a.gpu_summaries or ())
    if any(summary.is_simulated for summary in summaries):
        table.caption = SIMULATED
    return table


def _cells(attempt: Attempt) -> tuple[str, ...]:
    use, until = gpu_use(attempt.gpu_summaries or ()), attempt.released_at
    return (
        str(attempt.number),
        str(attempt.gpu_count),
        "–" if until is None else format_duration((until - attempt.admitted_at).total_seconds()),
        format_ratio(use.utilization_mean_ratio),
        format_ratio(use.utilization_p95_ratio),
        format_ratio(use.busy_ratio),
        format_energy(use.energy_j),
    )
