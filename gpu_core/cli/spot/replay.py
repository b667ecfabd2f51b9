"""`prefect-gpu spot-replay`: the cost of a job on these spot traces."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from rich.table import Table

from gpu_core.adapters.traces.spot import read_spot_trace
from gpu_core.cli.shared.tables import print_table
from gpu_core.cli.spot.options import SpotReplayOptions
from gpu_core.decisions.model.errors import InvalidInput, listed, nearest_name
from gpu_core.decisions.model.units import MICRO_USD_PER_USD, SECONDS_PER_HOUR
from gpu_core.decisions.policy.capacity import StrategyName
from gpu_core.decisions.simulation.spot.comparison import (
    StrategyComparison,
    StrategyResult,
    compare_strategies,
)
from gpu_core.decisions.simulation.spot.recorded_availability import spot_traces
from gpu_core.decisions.simulation.spot.replay import Task
from gpu_core.decisions.simulation.spot.trace import SpotTrace
from gpu_core.decisions.spot.strategies import STRATEGIES

_MOST = 1_000_000
"""Of hours, of a ratio and of replays."""

_EXAMPLE = (
    "example: `prefect-gpu spot-replay trace.json --task-hours 8 --deadline-hours 12 "
    "--price-ratio 3`"
)


def run_spot_replay(files: tuple[Path, ...], ledger: str | None, options: SpotReplayOptions) -> int:
    """Replay, and print a table or JSON. Returns the exit code: 1 if a deadline was missed.

    Raises:
        InvalidInput: A file, the ledger or an option cannot be used.
    """
    if ledger is None and not files:
        raise InvalidInput("FILE", "is required, or --ledger", remedy=_EXAMPLE)
    if ledger is not None and files:
        raise InvalidInput("FILE", "and --ledger are alternatives", remedy="name one of them")
    if ledger is not None and options.task_hours is None:
        # SQLAlchemy takes longer to load than a small replay takes.
        from gpu_core.cli.spot.hindsight import run_spot_hindsight

        if options.price_ratio is not None:
            _in_range("price-ratio", options.price_ratio, least=0.001)
        return run_spot_hindsight(ledger, options.price_ratio, as_json=options.as_json)
    task = _task(options)
    names = tuple(_strategy(name) for name in options.policy) or tuple(STRATEGIES)
    for field, number in (("starts", options.starts), ("nodes", options.nodes)):
        if not 1 <= number <= _MOST:
            raise InvalidInput(field, "is out of range", got=number, allowed=f"1 to {_MOST:,}")
    traces = [_cut(trace, options.ticks) for trace in _traces(files, ledger)]
    comparison = compare_strategies(
        traces,
        task,
        names,
        starts=options.starts,
        seed=options.seed,
        nodes=options.nodes,
        as_worker=True,
    )
    if options.as_json:
        print(json.dumps(asdict(comparison), indent=2))
    else:
        print_table(comparison_table(comparison))
    return int(any(result.misses for result in comparison.results))


def comparison_table(comparison: StrategyComparison) -> Table:
    """A table with a column for each strategy, and one for the optimum."""
    table = Table(
        title=f"Spot was up {comparison.spot_up:.1%} of the time; 1.0 is the cost on on-demand",
    )
    table.add_column("")
    for result in comparison.results:
        table.add_column(result.strategy.replace("-", " "), justify="right")
    table.add_column("hindsight", justify="right")
    for label, cell in _ROWS:
        optimum = f"{comparison.optimum_cost:.4f}" if label == "Cost, mean" else ""
        table.add_row(label, *(cell(result) for result in comparison.results), optimum)
    return table


_ROWS: tuple[tuple[str, Callable[[StrategyResult], str]], ...] = (
    ("Cost, mean", lambda row: f"{row.mean_cost:.4f}"),
    ("Cost, p75", lambda row: f"{row.p75_cost:.4f}"),
    ("Cost, p95", lambda row: f"{row.p95_cost:.4f}"),
    ("Cost, by hindsight", lambda row: f"{row.cost_by_optimum:.3f}"),
    ("On-demand hours", lambda row: f"{row.on_demand_h:.2f}"),
    ("Spot hours", lambda row: f"{row.spot_h:.2f}"),
    ("Starts", lambda row: f"{row.switches:.1f}"),
    ("Deadlines missed", lambda row: f"{row.misses:,} of {row.replays:,}"),
)


def _task(options: SpotReplayOptions) -> Task:
    task_hours = _in_range("task-hours", options.task_hours)
    deadline_hours = _in_range("deadline-hours", options.deadline_hours)
    price_ratio = _in_range("price-ratio", options.price_ratio, least=0.001)
    if not 0 <= options.changeover_hours <= _MOST:
        raise InvalidInput(
            "changeover-hours",
            "is out of range",
            got=options.changeover_hours,
            allowed=f"0 to {_MOST:,}",
        )
    return Task(
        work_s=task_hours * SECONDS_PER_HOUR,
        deadline_s=deadline_hours * SECONDS_PER_HOUR,
        changeover_s=options.changeover_hours * SECONDS_PER_HOUR,
        spot_micro_usd_per_hour=MICRO_USD_PER_USD,
        on_demand_micro_usd_per_hour=round(price_ratio * MICRO_USD_PER_USD),
    )


def _in_range(field: str, value: float | None, least: float = 1e-6) -> float:
    allowed = f"{least:f}".rstrip("0").rstrip(".") + " to 1,000,000"
    if value is None:
        raise InvalidInput(field, "is missing", allowed=allowed)
    if not least <= value <= _MOST:
        raise InvalidInput(field, "is out of range", got=value, allowed=allowed)
    return value


def _strategy(name: str) -> StrategyName:
    if name not in STRATEGIES:
        raise InvalidInput(
            "policy",
            "is not a strategy",
            got=name,
            allowed=listed(STRATEGIES),
            nearest=nearest_name(name, STRATEGIES),
        )
    return cast("StrategyName", name)


def _traces(files: Sequence[Path], ledger: str | None) -> Sequence[SpotTrace]:
    if ledger is None:
        return [read_spot_trace(path) for path in files]
    from gpu_core.adapters.traces.ledger import read_records

    attempts = [attempt for _, of_run in read_records(ledger) for attempt in of_run]
    traces = spot_traces(attempts, datetime.now(UTC))
    if not traces:
        raise InvalidInput("ledger", "has no attempt on spot", got=ledger)
    return traces


def _cut(trace: SpotTrace, ticks: int | None) -> SpotTrace:
    return trace if ticks is None else replace(trace, nodes_up=_first(trace.nodes_up, ticks))


def _first(nodes_up: Sequence[int], ticks: int) -> tuple[int, ...]:
    if ticks < 1:
        raise InvalidInput("ticks", "is too small", got=ticks, allowed="1 or more")
    return tuple(nodes_up[:ticks])
