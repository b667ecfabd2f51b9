"""The cost of interruptions: time for checkpoints, work that is done again, and restarts.

Sources: the interval is Daly's higher-order one (Daly 2006, equation 37); the expected time is
exact for interruptions at a constant rate (the same, equation 13).
"""

import math
from collections.abc import Callable

Overhead = Callable[[float, float, float], float]
"""From the seconds of a save, of a restart, and of a mean life, to how many times as long as
without interruption it takes; `inf`: it never ends."""

# Beyond this the exponential is larger than any job can wait for.
_HOPELESS_LIVES = 50.0


def interval_s(save_s: float, mean_life_s: float) -> float:
    """How long should a run work between two checkpoints?

    Args:
        save_s: How long a checkpoint stops the work, in seconds.
        mean_life_s: How long an instance lives on average, in seconds.
    """
    if save_s >= 2 * mean_life_s:
        return mean_life_s
    ratio = save_s / (2 * mean_life_s)
    daly = math.sqrt(2 * save_s * mean_life_s) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - save_s
    # Saving more often than a save takes would be saving all the time.
    return max(daly, save_s, 1.0)


def daly_overhead(save_s: float, restart_s: float, mean_life_s: float) -> float:
    """How many times as long does work take with interruptions and checkpoints?

    Args:
        save_s: How long a checkpoint stops the work, in seconds.
        restart_s: From an interruption until work continues, in seconds.
        mean_life_s: How long an instance lives on average, in seconds.
    """
    tau = interval_s(save_s, mean_life_s)
    if (restart_s + tau + save_s) / mean_life_s > _HOPELESS_LIVES:
        return math.inf
    lost = math.exp(restart_s / mean_life_s) * math.expm1((tau + save_s) / mean_life_s)
    return mean_life_s * lost / tau


def interruption_chance(wall_s: float, mean_life_s: float) -> float:
    """How likely is at least one interruption in this time, at a constant rate?"""
    return -math.expm1(-wall_s / mean_life_s)
