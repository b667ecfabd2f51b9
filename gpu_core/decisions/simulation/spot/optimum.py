"""The cost of the best possible choices, with the whole trace known beforehand.

Dynamic programming over ticks. Time is counted in units that divide the tick and the changeover,
so the answer is exact. All that matters at a tick is what runs, for how many ticks it has been
running (while its changeover lasts), and how much slack is left; a tick costs as much slack as it
makes no progress, so a table is only as wide as the slack: `cost[what runs, start, slack left]`.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gpu_core.decisions.simulation.spot.replay import Task

_STARTS_AT_ONCE = 32
"""Tables of this many starts fit into a processor's cache."""


def optimum_cost_ratios(
    is_up: Sequence[bool], tick_s: int, starts: Sequence[int], task: Task
) -> list[float]:
    """The cost of the best possible choices, relative to that of the work alone on on-demand.

    Args:
        is_up: Whether spot is up in each tick of the trace.
        tick_s: The length of a tick; whole seconds, as the changeover is rounded to.
        starts: The ticks at which the task begins.
        task: What there is to do; its deadline can be met.

    Returns:
        One ratio for each start.
    """
    ticks = task.ticks(tick_s)
    up = np.asarray(is_up, dtype=bool)
    ratios: list[float] = []
    for first in range(0, len(starts), _STARTS_AT_ONCE):
        chunk = starts[first : first + _STARTS_AT_ONCE]
        windows = np.stack([up[start : start + ticks] for start in chunk])
        ratios += _Table(windows, tick_s, task).solve()
    return ratios


class _Table:
    """The least cost of every state, in spot prices × units, tick after tick."""

    def __init__(self, windows: npt.NDArray[np.bool_], tick_s: int, task: Task) -> None:
        changeover_s = round(task.changeover_s)
        unit_s = math.gcd(tick_s, changeover_s)
        self._windows = windows
        self._starts, self._ticks = windows.shape
        self._tick = tick_s // unit_s
        self._work = task.work_s / unit_s
        # The work need not be whole units: then slack is a whole number and always this fraction.
        slack = self._tick * self._ticks - self._work
        self._fraction = slack % 1
        self._width = int(slack) + 1
        self._ratio = task.on_demand_micro_usd_per_hour / task.spot_micro_usd_per_hour
        self._lost = _lost_by_age(changeover_s // unit_s, self._tick)
        """Units of each tick that make no progress, by how many ticks it runs."""
        self._best = np.full(self._starts, np.inf)

    def solve(self) -> list[float]:
        idle = self._nothing()
        idle[:, -1] = 0.0
        spot = [self._nothing() for _ in self._lost]
        on_demand = [self._nothing() for _ in self._lost]
        for tick in range(self._ticks):
            any_way = np.minimum.reduce([idle, *spot, *on_demand])
            is_up = self._windows[:, tick, np.newaxis]
            there = [np.where(is_up, cost, np.inf) for cost in self._before(any_way, spot)]
            spot = self._run(there, 1.0, tick)
            on_demand = self._run(self._before(any_way, on_demand), self._ratio, tick)
            idle = self._spend(any_way, self._tick)
        return [float(cost) for cost in self._best / (self._ratio * self._work)]

    def _nothing(self) -> npt.NDArray[np.float64]:
        return np.full((self._starts, self._width), np.inf)

    @staticmethod
    def _before(
        any_way: npt.NDArray[np.float64], running: list[npt.NDArray[np.float64]]
    ) -> list[npt.NDArray[np.float64]]:
        """The states that a tick of each age can follow: the first any, the last itself too."""
        return [any_way, *running[:-2], np.minimum(running[-2], running[-1])]

    def _run(
        self, before: list[npt.NDArray[np.float64]], price: float, tick: int
    ) -> list[npt.NDArray[np.float64]]:
        after = []
        for cost, lost in zip(before, self._lost, strict=True):
            self._finish(cost, lost, price, tick)
            after.append(self._spend(cost + price * self._tick, lost))
        return after

    def _finish(self, cost: npt.NDArray[np.float64], lost: int, price: float, tick: int) -> None:
        """The states whose work ends within this tick pay only for the part that they use."""
        # With slack s, `tick × (ticks - now) - s` units of work are left.
        time_left = self._tick * (self._ticks - tick)
        first = max(0, time_left - (self._tick - lost))
        if first >= min(self._width, time_left):
            return
        work_left = time_left - self._fraction - np.arange(first, min(self._width, time_left))
        total = cost[:, first : first + len(work_left)] + price * (lost + work_left)
        np.minimum(self._best, total.min(axis=1), out=self._best)

    def _spend(self, cost: npt.NDArray[np.float64], slack: int) -> npt.NDArray[np.float64]:
        """The same states with less slack."""
        if slack == 0:
            return cost
        left = self._nothing()
        if slack < self._width:
            left[:, :-slack] = cost[:, slack:]
        return left


def _lost_by_age(changeover: int, tick: int) -> list[int]:
    """The loss of a start in its first tick, its second and so on; 0 at last. Two ages or more."""
    lost = [min(tick, max(0, changeover - age * tick)) for age in range(-(-changeover // tick) + 1)]
    return lost if len(lost) > 1 else [0, 0]
