"""Is the choice of spot or on-demand a good one? `python -m benchmarks.spot --data DIR [--json]`.

The protocol of Wu et al., "Can't Be Late" (NSDI'24): a job starts at 300 random moments of each of
eight AWS traces (V100 and K80, one or eight, two zones of us-west-2, October 2022; their first
1,950 ticks, which is what the paper's numbers come from). On-demand costs 3.1446 times spot. The
references are an earlier and separate measurement on the same traces with other random moments; its
greedy and Uniform Progress agree with the paper's Table 3 (at 48 h of work in 60 h, in hours of
on-demand: greedy 30.8, Uniform Progress 25.1).

The optimum is printed with its standard error, next to the reference's, whose moments were drawn at
random from each trace, the same for all changeovers. They happened to be at times when spot was up
more or less than in all of the trace. So the optimum is compared with the reference where spot is
up as often as there: off by at most 1%, or the exit code is 1.

The constants of `patience` come from zone us-west-2a; us-west-2b is held out. `--second-half`
replays the rest of both zones' files, which no constant comes from: patience may cost at most 0.5%
more than the better form of Uniform Progress in each row, or the exit code is 1. `--generated`
replays renewal traces instead: independent times up and away with falling hazards, and no
reference.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean

from benchmarks.renewal_trace import renewal_trace
from gpu_core.adapters.traces.spot import read_spot_trace
from gpu_core.decisions.policy.capacity import StrategyName
from gpu_core.decisions.simulation.spot.comparison import compare_strategies
from gpu_core.decisions.simulation.spot.optimum_error import OptimumErrors
from gpu_core.decisions.simulation.spot.replay import Task
from gpu_core.decisions.simulation.spot.trace import SpotTrace

TICKS = 1_950
_REFERENCE_REPLAYS = 8 * 300
_WITHIN = 0.01
"""So far may the optimum be from the reference, whose spot share has three digits only."""
_DEARER = 0.005
"""So much more than the better Uniform Progress may patience cost on traces held out."""
STRATEGIES: tuple[StrategyName, ...] = (
    "greedy",
    "plain-uniform-progress",
    "uniform-progress",
    "patience",
)
ZONES = {"us-west-2a, for constants": "us-west-2a", "us-west-2b, held out": "us-west-2b"}


@dataclass(frozen=True, slots=True)
class Cell:
    """48 hours of work under one deadline and changeover."""

    name: str
    deadline_h: float
    changeover_h: float
    reference_costs: tuple[float, ...]
    """Of the first three strategies and the optimum; none: not known."""
    reference_spot_up: float | None = None

    @property
    def references(self) -> dict[str, float]:
        """The reference costs by name."""
        return dict(zip((*STRATEGIES[:3], "optimum"), self.reference_costs, strict=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One cell on some traces. Costs are means, by what the work alone costs on on-demand."""

    cell: str
    traces: str
    replays: int
    spot_up: float
    misses: int
    """Of all strategies."""
    optimum: float
    costs: dict[str, float]
    on_demand_h: dict[str, float]
    optimum_errors: OptimumErrors
    references: dict[str, float] = field(default_factory=dict)
    reference_spot_up: float | None = None

    @property
    def optimum_off(self) -> float | None:
        """How far is the optimum from its reference, where spot is up as often as there?"""
        if self.reference_spot_up is None:
            return None
        more_up = self.reference_spot_up - self.spot_up
        there = self.optimum + self.optimum_errors.by_spot_up * more_up
        return there / self.references["optimum"] - 1

    @property
    def by_uniform_progress(self) -> float:
        """How much more does patience cost than Uniform Progress?"""
        return self.costs["patience"] / self.costs["uniform-progress"] - 1

    @property
    def by_better_uniform_progress(self) -> float:
        """How much more does patience cost than the better one of Uniform Progress and plain?"""
        better = min(self.costs["uniform-progress"], self.costs["plain-uniform-progress"])
        return self.costs["patience"] / better - 1

    @property
    def by_optimum(self) -> float:
        """What does patience cost by the optimum?"""
        return self.costs["patience"] / self.optimum


CELLS = (
    Cell("JF .9, d .2", 48 / 0.9, 0.2, (0.8481, 0.7938, 0.7975, 0.6909), 0.531),
    Cell("JF .8, d .2", 48 / 0.8, 0.2, (0.7597, 0.7043, 0.7047, 0.6317), 0.553),
    Cell("JF .7, d .2", 48 / 0.7, 0.2, (0.7022, 0.6616, 0.6548, 0.5952), 0.547),
    Cell("JF .6, d .2", 48 / 0.6, 0.2, ()),
    Cell("JF .8, d .05", 48 / 0.8, 0.05, (0.7073, 0.5912, 0.606, 0.5746), 0.553),
    Cell("JF .8, d .1", 48 / 0.8, 0.1, (0.7255, 0.6269, 0.6431, 0.5972), 0.553),
    Cell("JF .8, d .4", 48 / 0.8, 0.4, (0.8035, 0.7985, 0.788, 0.6854), 0.553),
    Cell("52 h, d .05", 52, 0.05, (0.8233, 0.6554, 0.7109, 0.6343), 0.54),
    Cell("52 h, d .2", 52, 0.2, (0.8612, 0.8235, 0.8198, 0.7014), 0.54),
    Cell("70 h, d .05", 70, 0.05, (0.6352, 0.561, 0.5652, 0.5331), 0.546),
    Cell("70 h, d .2", 70, 0.2, (0.6934, 0.657, 0.6506, 0.59), 0.546),
)
"""JF is the job fraction: work by time. d is the changeover in hours."""


def main() -> int:
    """Print the measurement. Returns the exit code: 1 if it is not as it should be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder with spot/")
    parser.add_argument("--starts", type=int, default=300, help="for each trace (300)")
    parser.add_argument("--seed", type=int, default=1, help="of the starts (1)")
    parser.add_argument("--cell", action="append", help="one cell's name; may be repeated (all)")
    other_traces = parser.add_mutually_exclusive_group()
    other_traces.add_argument("--generated", action="store_true", help="replay renewal traces")
    other_traces.add_argument(
        "--second-half", action="store_true", help="replay the rest of the files; no reference"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object for each line")
    arguments = parser.parse_args()
    if arguments.generated:
        sets = generated()
    else:
        sets = recorded(arguments.data, is_second_half=arguments.second_half)
    furthest, dearest = 0.0, -1.0
    for cell in CELLS:
        if arguments.cell and cell.name not in arguments.cell:
            continue
        if arguments.second_half:
            cell = replace(cell, reference_costs=(), reference_spot_up=None)
        rows = [row(cell, name, sets[name], arguments.starts, arguments.seed) for name in sets]
        for one in rows if arguments.generated else [pooled(cell, rows), *rows]:
            text = {**asdict(one), "optimum_off": one.optimum_off}
            print(json.dumps(text) if arguments.json else _line(one), flush=True)
            furthest = max(furthest, abs(one.optimum_off or 0.0))
            dearest = max(dearest, one.by_better_uniform_progress)
    return int(furthest > _WITHIN or (arguments.second_half and dearest > _DEARER))


def recorded(data: Path, *, is_second_half: bool = False) -> dict[str, list[SpotTrace]]:
    """The two-week traces: those of one zone gave the constants, those of the other did not.

    Args:
        data: The folder with `spot/`.
        is_second_half: The ticks after the first 1,950, which no constant was chosen on.
    """
    part = slice(TICKS, None) if is_second_half else slice(TICKS)
    traces = [read_spot_trace(path) for path in sorted((data / "spot").glob("*.json"))]
    traces = [replace(trace, nodes_up=trace.nodes_up[part]) for trace in traces]
    return {name: [trace for trace in traces if zone in trace.name] for name, zone in ZONES.items()}


def generated() -> dict[str, list[SpotTrace]]:
    """Renewal traces: mean times up and away from half an hour to half a day, tails of 1.5 to 3."""
    return {
        f"up {up_h:g} h, away {away_h:g} h, tail {tail:g}": [
            renewal_trace(
                mean_up_s=up_h * 3600,
                mean_away_s=away_h * 3600,
                tail=tail,
                ticks=TICKS,
                tick_s=600,
                seed=seed,
            )
            for seed in range(4)
        ]
        for up_h, away_h, tail in (
            (0.5, 0.5, 3),
            (1, 2, 1.5),
            (2, 1, 1.5),
            (4, 4, 2),
            (12, 3, 1.5),
            (6, 12, 2),
        )
    }


def row(cell: Cell, name: str, traces: Sequence[SpotTrace], starts: int, seed: int) -> Row:
    """The cell on these traces."""
    task = Task(
        work_s=48 * 3600,
        deadline_s=cell.deadline_h * 3600,
        changeover_s=cell.changeover_h * 3600,
        spot_micro_usd_per_hour=1_000_000,
        on_demand_micro_usd_per_hour=3_144_600,
    )
    found = compare_strategies(traces, task, STRATEGIES, starts=starts, seed=seed)
    return Row(
        cell=cell.name,
        traces=name,
        replays=sum(result.replays for result in found.results) // len(STRATEGIES),
        spot_up=found.spot_up,
        misses=sum(result.misses for result in found.results),
        optimum=found.optimum_cost,
        optimum_errors=found.optimum_errors,
        costs={result.strategy: result.mean_cost for result in found.results},
        on_demand_h={result.strategy: result.on_demand_h for result in found.results},
    )


def pooled(cell: Cell, rows: Sequence[Row]) -> Row:
    """All traces of the cell together, with its reference. The rows have as many replays each."""
    return Row(
        cell=cell.name,
        traces="all",
        replays=sum(one.replays for one in rows),
        spot_up=fmean(one.spot_up for one in rows),
        misses=sum(one.misses for one in rows),
        optimum=fmean(one.optimum for one in rows),
        optimum_errors=OptimumErrors(
            standard_error=_pooled_error(one.optimum_errors.standard_error for one in rows),
            at_random=_pooled_error(one.optimum_errors.at_random for one in rows),
            by_spot_up=fmean(one.optimum_errors.by_spot_up for one in rows),
        ),
        costs={name: fmean(one.costs[name] for one in rows) for name in STRATEGIES},
        on_demand_h={name: fmean(one.on_demand_h[name] for one in rows) for name in STRATEGIES},
        references=cell.references,
        reference_spot_up=cell.reference_spot_up,
    )


def _pooled_error(errors: Iterable[float]) -> float:
    """Of the mean of means that have these errors."""
    errors = tuple(errors)
    return math.hypot(*errors) / len(errors)


def _line(one: Row) -> str:
    costs = "  ".join(
        f"{name} {cost:.4f}{_reference(one, name)}"
        for name, cost in [*one.costs.items(), ("optimum", one.optimum)]
    )
    hours = ", ".join(f"{hours:.2f}" for hours in one.on_demand_h.values())
    return (
        f"{one.cell}, {one.traces}: patience {one.by_uniform_progress:+.2%} against UP, "
        f"{one.by_better_uniform_progress:+.2%} against the better UP, {one.by_optimum:.3f} of the "
        f"optimum, {one.misses} of {one.replays * len(STRATEGIES)} missed\n"
        f"    {costs}\n    {_errors(one)}\n    on-demand hours {hours}"
    )


def _errors(one: Row) -> str:
    errors = one.optimum_errors
    text = f"optimum ± {errors.standard_error:.4f}"
    if one.optimum_off is None or one.reference_spot_up is None:
        return text
    at_300 = errors.at_random * math.sqrt(one.replays / _REFERENCE_REPLAYS)
    return (
        f"{text}, reference ± {at_300:.4f}; where spot is up {one.reference_spot_up:.1%} of the "
        f"time as there, not {one.spot_up:.1%}: {one.optimum_off:+.2%} off the reference"
    )


def _reference(one: Row, name: str) -> str:
    return f" ({one.references[name]:.4f})" if name in one.references else ""


if __name__ == "__main__":
    sys.exit(main())
