"""The cost of GPUs while nothing ran on them, by run and team: the parts add up to the cost.

An attempt's idle part is the part of its samples with a utilization under 5%, over all its GPUs.
It is known when the attempt has ended; an attempt that was not sampled, or on virtual GPUs, is
unmeasured, which is never the same as used.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from gpu_core.decisions.costs.usage.usage import Exact, apportioned
from gpu_core.decisions.costs.usage.usage_cost import Held, RunCost, Window, held_usage
from gpu_core.decisions.model.attempts import Attempt
from gpu_core.decisions.telemetry.summary import gpu_use

_RESOLUTION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUseCost:
    """The cost of some runs by what their GPUs did. Begin with `GpuUseCost()`: nothing."""

    used: Exact = 0
    """Micro-USD of the time in which a kernel ran, as an exact number."""
    idle: Exact = 0
    unmeasured: Exact = 0

    @property
    def micro_usd(self) -> tuple[int, int, int]:
        """Used, idle and unmeasured in whole micro-USD, which add up to the whole cost."""
        used, idle, unmeasured = apportioned([self.used, self.idle, self.unmeasured])
        return used, idle, unmeasured

    def __add__(self, other: "GpuUseCost") -> "GpuUseCost":
        return GpuUseCost(
            used=self.used + other.used,
            idle=self.idle + other.idle,
            unmeasured=self.unmeasured + other.unmeasured,
        )


def waste_of(cost: RunCost, window: Window) -> GpuUseCost:
    """The cost of the run's GPUs while nothing ran on them.

    Args:
        cost: Of the run in this window; what has no price is in none of the parts.
        window: The time that counts.
    """
    used: Exact = 0
    idle: Exact = 0
    for attempt in cost.attempts:
        ratio = idle_part(attempt)
        if ratio is None:
            continue
        spent = held_usage(attempt, Held.by(attempt), window, window.end).exact_micro_usd
        idle += spent * ratio
        used += spent * (1 - ratio)
    unmeasured = cost.usage.exact_micro_usd - used - idle
    return GpuUseCost(used=used, idle=idle, unmeasured=unmeasured)


def idle_part(attempt: Attempt) -> Fraction | None:
    """The part of its time in which the attempt's GPUs were idle, to the millionth.

    None: unmeasured.
    """
    if attempt.released_at is None:
        return None
    use = gpu_use(attempt.gpu_summaries or ())
    if use.busy_ratio is None or use.is_simulated:
        return None
    busy = round(_RESOLUTION * min(1.0, use.busy_ratio))
    return Fraction(_RESOLUTION - busy, _RESOLUTION)


def mean_utilization(costs: Iterable[RunCost]) -> float | None:
    """The mean utilization of all GPUs of these runs that were measured; None: none was."""
    summaries = [
        summary
        for cost in costs
        for attempt in cost.attempts
        for summary in attempt.gpu_summaries or ()
        if not summary.is_simulated
    ]
    return gpu_use(summaries).utilization_mean_ratio
