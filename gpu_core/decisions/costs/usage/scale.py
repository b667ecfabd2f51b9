"""Sums over many tariffs in whole numbers: exact, and ten times as fast as sums of fractions."""

from collections.abc import Iterable
from fractions import Fraction
from math import lcm

from gpu_core.decisions.costs.usage.time_use import Tariff
from gpu_core.decisions.costs.usage.usage import US_PER_HOUR, Exact, Usage

Used = Iterable[tuple[Tariff, int]]
"""Tariffs, each with how many microseconds."""


class Scale:
    """Amounts of many tariffs as whole numbers of two units: one of time, and one of cost.

    Args:
        tariffs: All that are asked for later; the same object may come many times.
    """

    def __init__(self, tariffs: Iterable[Tariff]) -> None:
        self._known = {id(tariff): tariff for tariff in tariffs}  # kept: no id is used again
        units = {key: tariff.unit for key, tariff in self._known.items()}
        self.cost_denominator = lcm(*(n.denominator for u in units.values() for n in _costs(u)))
        self._time_denominator = lcm(*(n.denominator for u in units.values() for n in _times(u)))
        self._costs = {
            key: tuple(int(n * self.cost_denominator) for n in _costs(unit))
            for key, unit in units.items()
        }
        self._times = {
            key: tuple(int(n * self._time_denominator) for n in _times(unit))
            for key, unit in units.items()
        }
        self._cost = {key: sum(costs) for key, costs in self._costs.items()}

    def cost(self, used: Used) -> int:
        """The cost, in `cost_denominator`-ths of a micro-dollar."""
        cost_of = self._cost
        return sum([us * cost_of[id(tariff)] for tariff, us in used])

    def costs(self, used: Used) -> tuple[int, int, int]:
        """The same of GPUs, of CPU and of memory."""
        gpu = cpu = gib = 0
        for tariff, us in used:
            of_gpu, of_cpu, of_gib = self._costs[id(tariff)]
            gpu, cpu, gib = gpu + us * of_gpu, cpu + us * of_cpu, gib + us * of_gib
        return gpu, cpu, gib

    def gpu_hours(self, used: Used) -> float:
        """GPU-hours, rounded once."""
        gpu = sum(us * self._times[id(tariff)][0] for tariff, us in used)
        return gpu / (self._time_denominator * US_PER_HOUR)

    def usage(self, used: Used) -> Usage:
        """Its use and cost, exactly."""
        of_each = list(used)
        times = [0] * 5
        for tariff, us in of_each:
            for place, weight in enumerate(self._times[id(tariff)]):
                times[place] += us * weight
        gpu_us, cpu_us, gib_us, unpriced_gpu_us, unpriced_us = (
            _exact(number, self._time_denominator) for number in times
        )
        gpu, cpu, gib = (_exact(n, self.cost_denominator) for n in self.costs(of_each))
        return Usage(
            gpu_us=gpu_us,
            cpu_us=cpu_us,
            gib_us=gib_us,
            gpu_micro_usd=gpu,
            cpu_micro_usd=cpu,
            gib_micro_usd=gib,
            unpriced_gpu_us=unpriced_gpu_us,
            unpriced_us=unpriced_us,
        )


def _costs(unit: Usage) -> tuple[Exact, Exact, Exact]:
    return unit.gpu_micro_usd, unit.cpu_micro_usd, unit.gib_micro_usd


def _times(unit: Usage) -> tuple[Exact, Exact, Exact, Exact, Exact]:
    return unit.gpu_us, unit.cpu_us, unit.gib_us, unit.unpriced_gpu_us, unit.unpriced_us


def _exact(numerator: int, denominator: int) -> Exact:
    whole, rest = divmod(numerator, denominator)
    return Fraction(numerator, denominator) if rest else whole
