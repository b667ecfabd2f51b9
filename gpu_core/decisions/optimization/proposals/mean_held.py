"""How long do runs hold their GPUs on average, so that no answer depends on one chance of many?"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_core.decisions.optimization.proposals.interruption_model import (
    Numbers,
    expected_held_s,
    simulated_held_s,
)

Indices = NDArray[np.intp]

SIMULATIONS = 200
"""Of each run of a deployment with a change: the standard error of its GPU-hours is 1% for 50 runs
whose times vary by their mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanHeld:
    """The time for which each of some runs holds its GPUs, over many simulations."""

    mean_s: Numbers
    error_s: Numbers
    """The standard error of each mean."""


def mean_held(simulate: Callable[[Indices], Numbers], runs: int, simulations: int) -> MeanHeld:
    """How long does each of these runs hold its GPUs in the mean over the simulations?

    Args:
        simulate: How long the runs with these indices hold their GPUs, once, in seconds.
        runs: How many there are.
        simulations: Of each of them, 2 or more.
    """
    everything = np.tile(np.arange(runs), simulations)
    held_s = simulate(everything).reshape(simulations, runs)
    error_s = held_s.std(axis=0, ddof=1) / math.sqrt(simulations)
    return MeanHeld(mean_s=held_s.mean(axis=0), error_s=error_s)


def mean_held_with_interval(
    work_s: Numbers,
    rate_per_hour: Numbers,
    startup_s: Numbers,
    interval_s: float | None,
    simulations: int,
    rng: np.random.Generator,
) -> MeanHeld:
    """The same by `simulated_held_s`; without checkpoints the mean is known without simulations."""
    if interval_s is None:
        held_s = expected_held_s(work_s, rate_per_hour, startup_s)
        return MeanHeld(mean_s=held_s, error_s=np.zeros_like(held_s))

    def simulate(chosen: Indices) -> Numbers:
        drawn = (work_s[chosen], rate_per_hour[chosen], startup_s[chosen])
        return simulated_held_s(*drawn, interval_s, rng)

    return mean_held(simulate, len(work_s), simulations)
