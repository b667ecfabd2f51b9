"""The use of GPUs on a day: their cost while nothing ran on them, by team and by run."""

from collections.abc import Sequence
from functools import reduce
from operator import add

from gpu_core.decisions.costs.anomalies.report.waste import GpuUseCost, mean_utilization, waste_of
from gpu_core.decisions.costs.usage.usage_cost import RunCost, Window
from gpu_core.decisions.model.markdown import cell, flow_run_cell, table
from gpu_core.decisions.model.units import format_usd
from gpu_core.decisions.policy.idle import IdlePolicy
from gpu_core.decisions.telemetry.idle_state import is_under_used
from gpu_core.decisions.telemetry.use_text import format_ratio

_MOST_ROWS = 10
_HEAD = ("Cost", "Used", "Idle", "Unmeasured", "Utilization")


def use_section(costs: Sequence[RunCost], window: Window) -> list[str]:
    """The section of the report; empty: nothing was measured.

    Args:
        costs: Of all runs of the day.
        window: The day.
    """
    wastes = [(cost, waste_of(cost, window)) for cost in costs]
    if not any(waste.used or waste.idle for _, waste in wastes):
        return []
    total = reduce(add, (waste for _, waste in wastes), GpuUseCost())
    by_team: dict[str | None, list[tuple[RunCost, GpuUseCost]]] = {}
    for cost, waste in wastes:
        by_team.setdefault(cost.run.team, []).append((cost, waste))
    teams = [
        (cell(team or "(none)"), reduce(add, (w for _, w in of_team), GpuUseCost()), of_team)
        for team, of_team in by_team.items()
    ]
    teams.sort(key=lambda row: -row[1].idle)
    shown = teams[:_MOST_ROWS]
    if len(teams) > _MOST_ROWS:
        rest = [pair for _, _, of_team in teams[_MOST_ROWS:] for pair in of_team]
        name = f"{len(teams) - _MOST_ROWS} others"
        shown.append((name, reduce(add, (w for _, w in rest), GpuUseCost()), rest))
    rows = [_row(name, waste, [cost for cost, _ in pairs]) for name, waste, pairs in shown]
    rows.append(_row("all teams", total, costs))
    parts = ["## GPU use", table(("Team", *_HEAD), rows)]
    return ["\n\n".join((*parts, *_runs(wastes)))]


def _runs(wastes: Sequence[tuple[RunCost, GpuUseCost]]) -> list[str]:
    """The runs whose idle GPUs cost the most, and those that are under-used."""
    policy = IdlePolicy()
    found = [
        (cost, waste, mean)
        for cost, waste in wastes
        if is_under_used(mean := mean_utilization([cost]), policy)
    ]
    if not found:
        return []
    found.sort(key=lambda row: (-row[1].idle, row[0].run.flow_run_id))
    rows = [
        _row(flow_run_cell(cost.run.name, cost.run.flow_run_id), waste, [cost])
        for cost, waste, _ in found[:_MOST_ROWS]
    ]
    count = f"{len(found)} run" + ("" if len(found) == 1 else "s")
    limit = format_ratio(policy.under_used_below)
    said = f"{count} had a GPU utilization below {limit}, sorted by the cost of idle time:"
    return [said, table(("Run", *_HEAD), rows)]


def _row(name: str, waste: GpuUseCost, costs: Sequence[RunCost]) -> tuple[str, ...]:
    used, idle, unmeasured = waste.micro_usd
    amounts = (used + idle + unmeasured, used, idle, unmeasured)
    return (name, *map(format_usd, amounts), format_ratio(mean_utilization(costs)))
