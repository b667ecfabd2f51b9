"""Strategies side by side on the same traces and starts, with the optimum of hindsight."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from gpu_core.decisions.model.units import SECONDS_PER_HOUR
from gpu_core.decisions.policy.capacity import CapacityPolicy, StrategyName
from gpu_core.decisions.simulation.spot.optimum import optimum_cost_ratios
from gpu_core.decisions.simulation.spot.optimum_error import OptimumErrors, optimum_errors
from gpu_core.decisions.simulation.spot.replay import Replay, Task, replay, watched
from gpu_core.decisions.simulation.spot.trace import SpotTrace, window_starts
from gpu_core.decisions.simulation.spot.worker_replay import replay_worker
from gpu_core.decisions.spot.survival import SpotRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyResult:
    """One strategy over all replays. Costs are by what the work alone costs on on-demand."""

    strategy: StrategyName
    replays: int
    mean_cost: float
    p75_cost: float
    p95_cost: float
    on_demand_h: float
    """Hours of work done there, in the mean."""
    spot_h: float
    """Hours of work done there, in the mean."""
    switches: float
    """Starts, in the mean."""
    misses: int
    cost_by_optimum: float
    """Its mean cost by the optimum's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyComparison:
    """The comparison of strategies."""

    results: tuple[StrategyResult, ...]
    optimum_cost: float
    """The mean cost of the best choices in hindsight."""
    optimum_errors: OptimumErrors
    spot_up: float
    """The part of all replayed time in which spot was up."""


@dataclass(frozen=True, slots=True)
class _Window:
    """The part of a trace that one replay sees."""

    tick_s: int
    records: list[SpotRecord]


def compare_strategies(
    traces: Sequence[SpotTrace],
    task: Task,
    strategies: Sequence[StrategyName],
    *,
    starts: int,
    seed: int,
    nodes: int = 1,
    as_worker: bool = False,
) -> StrategyComparison:
    """What does each strategy cost on these traces?

    Args:
        traces: At least one; each longer than the task's time.
        seed: Of the moments at which the replays begin.
        nodes: Spot is up where this many nodes are up at once.
        as_worker: Replay what a worker does, with its limits; else the model of the papers.

    Raises:
        InvalidInput: The task cannot be replayed on one of the traces.
    """
    optima = _optima(traces, task, starts, seed, nodes)
    optimum_cost = fmean(cost for of_trace in optima for cost in of_trace)
    windows = list(_windows(traces, task, starts, seed, nodes))
    results = []
    for strategy in strategies:
        policy = CapacityPolicy(strategy=strategy)
        replays = [_replayed(window, task, policy, as_worker=as_worker) for window in windows]
        results.append(_result(strategy, replays, optimum_cost))
    spot_up = [fmean(record.is_up for record in window.records) for window in windows]
    by_trace = [spot_up[first : first + starts] for first in range(0, len(spot_up), starts)]
    return StrategyComparison(
        results=tuple(results),
        optimum_cost=optimum_cost,
        optimum_errors=optimum_errors(optima, by_trace),
        spot_up=fmean(spot_up),
    )


def _replayed(window: _Window, task: Task, policy: CapacityPolicy, *, as_worker: bool) -> Replay:
    if not as_worker:
        return replay(window.records, window.tick_s, task, policy)
    is_up = [record.is_up for record in window.records]
    return replay_worker(is_up, window.tick_s, task, policy)


def _optima(
    traces: Sequence[SpotTrace], task: Task, starts: int, seed: int, nodes: int
) -> list[list[float]]:
    found = []
    for trace in traces:
        first_ticks = window_starts(trace, task.ticks(trace.tick_s), starts, seed)
        found.append(optimum_cost_ratios(trace.is_up(nodes), trace.tick_s, first_ticks, task))
    return found


def _windows(
    traces: Sequence[SpotTrace], task: Task, starts: int, seed: int, nodes: int
) -> Iterator[_Window]:
    for trace in traces:
        is_up = trace.is_up(nodes)
        ticks = task.ticks(trace.tick_s)
        for first in window_starts(trace, ticks, starts, seed):
            yield _Window(trace.tick_s, watched(is_up[first : first + ticks], trace.tick_s))


def _result(
    strategy: StrategyName, replays: Sequence[Replay], optimum_cost: float
) -> StrategyResult:
    costs = sorted(run.cost_ratio for run in replays)
    mean_cost = fmean(costs)
    return StrategyResult(
        strategy=strategy,
        replays=len(replays),
        mean_cost=mean_cost,
        p75_cost=costs[int(0.75 * len(costs))],
        p95_cost=costs[int(0.95 * len(costs))],
        on_demand_h=fmean(run.on_demand_s for run in replays) / SECONDS_PER_HOUR,
        spot_h=fmean(run.spot_s for run in replays) / SECONDS_PER_HOUR,
        switches=fmean(run.switches for run in replays),
        misses=sum(run.is_missed for run in replays),
        cost_by_optimum=mean_cost / optimum_cost,
    )
