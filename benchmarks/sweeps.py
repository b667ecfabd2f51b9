"""What does a sweep by dollars save, and how often does it lose the best run?

`python -m benchmarks.sweeps`. Sweeps of 27 runs with known learning curves: the error falls as a
power of the dollars, or exponentially, to a floor of the run's own, a metric has noise. A run's
floor, start and speed are drawn; so curves cross, and a slow learner can be the best at last. The
forms are compared with every run to the end, and with the same dollars for runs chosen at random.
"""

import argparse
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import fmean

from gpu_core.decisions.optimization.sweeps.rungs import (
    MetricGoal,
    SweepDecision,
    SweepPlan,
    SweepRun,
    SweepStep,
    sweep_step,
)

RUNS, PLACES = 27, 4
PLAN = SweepPlan(
    budget_micro_usd=10**12, first_rung_micro_usd=1_000_000, rungs=3, goal=MetricGoal.LOWER
)


@dataclass(frozen=True, slots=True)
class Curve:
    """The error of one run by its dollars."""

    floor: float
    start: float
    speed: float
    is_power: bool

    def at(self, usd: float) -> float:
        """The error without noise."""
        falls = math.pow(usd, -self.speed) if self.is_power else math.exp(-self.speed * usd)
        return self.floor + self.start * falls


@dataclass(frozen=True, slots=True)
class Outcome:
    """One sweep."""

    spent_share: float
    """Of what all runs would cost to the end."""
    is_best_lost: bool
    regret: float
    """The error of the chosen run over that of the best one, without noise."""
    random_regret: float
    """The same for the best of as many runs to the end as the dollars pay for, chosen at random."""
    said: float | None
    """The chance of a loss that the decision states."""


def curves_of(chance: random.Random, *, is_power: bool) -> list[Curve]:
    """27 runs; floors of 0.10 to 0.30, exponents or rates of 0.3 to 0.9."""
    return [
        Curve(
            chance.uniform(0.1, 0.3), chance.uniform(0.2, 0.6), chance.uniform(0.3, 0.9), is_power
        )
        for _ in range(RUNS)
    ]


def sweep(plan: SweepPlan, curves: Sequence[Curve], noise: float, seed: int) -> Outcome:
    """One sweep to its end. Runs cost a dollar in times that differ up to fourfold."""
    chance = random.Random(seed)
    pace = [chance.uniform(1, 4) for _ in curves]
    runs = {n: SweepRun(run_id=f"{n:02}", granted=None, spent_micro_usd=0, metrics=())
            for n in range(len(curves))}  # fmt: skip
    busy: dict[int, float] = {}
    clock = 0.0
    while True:
        decided = sweep_step(plan, list(runs.values()), PLACES)
        for n, run in runs.items():
            if decided.steps[run.run_id] in (SweepStep.START, SweepStep.PROMOTE):
                runs[n] = _granted(run)
                cost = plan.rung_micro_usd(runs[n].granted or 0) - run.spent_micro_usd
                busy[n] = clock + cost * pace[n]
        if not busy:
            return _outcome(plan, curves, list(runs.values()), decided, chance)
        n = min(busy, key=lambda each: (busy[each], each))
        clock = busy.pop(n)
        micro_usd = plan.rung_micro_usd(runs[n].granted or 0)
        error = curves[n].at(micro_usd / 1e6) + chance.gauss(0, noise)
        runs[n] = replace(runs[n], metrics=(*runs[n].metrics, error), spent_micro_usd=micro_usd)


def _granted(run: SweepRun) -> SweepRun:
    return replace(run, granted=0 if run.granted is None else run.granted + 1)


def _outcome(
    plan: SweepPlan,
    curves: Sequence[Curve],
    runs: Sequence[SweepRun],
    decided: SweepDecision,
    chance: random.Random,
) -> Outcome:
    whole = plan.rung_micro_usd(plan.last_rung)
    errors = [curve.at(whole / 1e6) for curve in curves]
    (chosen,) = (n for n, run in enumerate(runs) if decided.steps[run.run_id] is SweepStep.BEST)
    spent = sum(run.spent_micro_usd for run in runs)
    tried = chance.sample(errors, max(spent // whole, 1))
    reached = {n for n, run in enumerate(runs) if run.has_reached(plan.last_rung)}
    return Outcome(
        spent_share=spent / (whole * len(runs)),
        is_best_lost=errors.index(min(errors)) not in reached,
        regret=errors[chosen] - min(errors),
        random_regret=min(tried) - min(errors),
        said=decided.lost_chance,
    )


def main() -> None:
    """Print one row for each form and noise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sweeps", type=int, default=400)
    asked = parser.parse_args()
    print("curves, form, noise: saved; best lost (said); regret; random regret")
    for is_power, waits, noise in product((True, False), (False, True), (0.0, 0.01, 0.03)):
        plan = replace(PLAN, waits_for_rung=waits)
        found = [
            sweep(plan, curves_of(random.Random(n), is_power=is_power), noise, n)
            for n in range(asked.sweeps)
        ]
        said = [each.said for each in found if each.said is not None]
        print(
            f"{'power' if is_power else 'exponential'}, "
            f"{'synchronous' if waits else 'asynchronous'}, {noise}: "
            f"{1 - fmean(each.spent_share for each in found):.3f}; "
            f"{fmean(each.is_best_lost for each in found):.3f} "
            f"({f'{fmean(said):.3f} in {len(said)}' if said else 'unknown'}); "
            f"{fmean(each.regret for each in found):.4f}; "
            f"{fmean(each.random_regret for each in found):.4f}"
        )


if __name__ == "__main__":
    main()
