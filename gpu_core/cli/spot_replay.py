"""`prefect-gpu spot-replay`: what would a job have cost on these spot traces?"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import cast

from rich.console import Console
from rich.table import Table

from gpu_core.adapters.traces.spot import read_spot_trace
from gpu_core.decisions.capacity.comparison import Comparison, StrategyResult, compare
from gpu_core.decisions.capacity.policy import StrategyName
from gpu_core.decisions.capacity.replay import Task
from gpu_core.decisions.capacity.strategies import STRATEGIES
from gpu_core.decisions.capacity.trace import SpotTrace
from gpu_core.decisions.errors import InvalidInput, listed, nearest_name
from gpu_core.decisions.units import MICRO_USD_PER_USD, SECONDS_PER_HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotReplayOptions:
    """What was asked for on the command line."""

    files: tuple[Path, ...]
    task_hours: float
    deadline_hours: float
    changeover_hours: float
    price_ratio: float
    starts: int
    seed: int = 1
    ticks: int | None = None
    nodes: int = 1
    policies: tuple[str, ...] = ()
    as_json: bool = False


def run_spot_replay(options: SpotReplayOptions) -> int:
    """Replay, and print a table or JSON. Returns the exit code: 1 if a deadline was missed.

    Raises:
        InvalidInput: Something that was asked for cannot be used.
    """
    task = _task(options)
    names = tuple(_strategy(name) for name in options.policies) or tuple(STRATEGIES)
    for field, number in (("starts", options.starts), ("nodes", options.nodes)):
        if number < 1:
            raise InvalidInput(field, "is too small", got=number, allowed="1 or more")
    traces = [_trace(path, options.ticks) for path in options.files]
    comparison = compare(
        traces, task, names, starts=options.starts, seed=options.seed, nodes=options.nodes
    )
    if options.as_json:
        print(json.dumps(asdict(comparison), indent=2))
    else:
        Console().print(comparison_table(comparison))
    return int(any(result.misses for result in comparison.results))


def comparison_table(comparison: Comparison) -> Table:
    """A table with a column for each strategy, and one for the optimum."""
    table = Table(
        title=f"Spot was up {comparison.spot_up:.1%} of the time; costs are by on-demand's",
        title_justify="left",
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
    ("By hindsight's", lambda row: f"{row.cost_by_optimum:.3f}"),
    ("On-demand hours", lambda row: f"{row.on_demand_h:.2f}"),
    ("Spot hours", lambda row: f"{row.spot_h:.2f}"),
    ("Starts", lambda row: f"{row.switches:.1f}"),
    ("Deadlines missed", lambda row: f"{row.misses:,} of {row.replays:,}"),
)


def _task(options: SpotReplayOptions) -> Task:
    values = {
        "task-hours": options.task_hours,
        "deadline-hours": options.deadline_hours,
        "price-ratio": options.price_ratio,
    }
    for field, value in values.items():
        if not 0 < value < 1e6:
            raise InvalidInput(field, "is out of range", got=value, allowed="over 0, under 1e6")
    if not 0 <= options.changeover_hours < 1e6:
        raise InvalidInput(
            "changeover-hours", "is negative or too large", got=options.changeover_hours
        )
    return Task(
        work_s=options.task_hours * SECONDS_PER_HOUR,
        deadline_s=options.deadline_hours * SECONDS_PER_HOUR,
        changeover_s=options.changeover_hours * SECONDS_PER_HOUR,
        spot_micro_usd_per_hour=MICRO_USD_PER_USD,
        on_demand_micro_usd_per_hour=round(options.price_ratio * MICRO_USD_PER_USD),
    )


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


def _trace(path: Path, ticks: int | None) -> SpotTrace:
    trace = read_spot_trace(path)
    return trace if ticks is None else replace(trace, nodes_up=_first(trace.nodes_up, ticks))


def _first(nodes_up: Sequence[int], ticks: int) -> tuple[int, ...]:
    if ticks < 1:
        raise InvalidInput("ticks", "is too small", got=ticks, allowed="1 or more")
    return tuple(nodes_up[:ticks])
