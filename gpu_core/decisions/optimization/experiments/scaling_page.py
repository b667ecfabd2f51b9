"""Replicas over a day as people read them: what was measured, and what is computed."""

from collections.abc import Iterable, Sequence

from gpu_core.decisions.model.markdown import escaped, table
from gpu_core.decisions.model.units import count, digits
from gpu_core.decisions.optimization.experiments.ladder import with_interval
from gpu_core.decisions.optimization.experiments.low_priority import batch_s
from gpu_core.decisions.optimization.experiments.page import latency_text, usd_text
from gpu_core.decisions.optimization.experiments.plot import Point, trade_off_plot
from gpu_core.decisions.optimization.experiments.scaling import ScalingComparison
from gpu_core.decisions.optimization.experiments.trial import Origin

_HEAD = (
    "",
    "Replicas",
    "Origin",
    "1,000 requests",
    "p99 of the worst hour",
    "Replica-hours per day",
    "Front",
)
_NOTE = (
    "These results are from a simulation in which replicas of the measured device process a "
    "single first-in, first-out queue with the mean measured duration per request. Request "
    "arrivals are a Poisson process with an hourly rate, and each hour starts with an empty "
    "queue. In the strategy *scaled at the hour*, additional replicas are started at the "
    "beginning of the hour; in *scaled ahead*, they are already available. The cost of a replica "
    "is counted from the decision to start it. All intervals are 95% confidence intervals over "
    "the repeats."
)


def scaling_page(found: ScalingComparison) -> str:
    """One day under several plans. The same input always gives the same page."""
    times_s, demand = batch_s(found.measured.trials[0]), found.demand
    needed = ", ".join(map(str, demand.replicas))
    parts = [
        "# Scaling replicas with demand",
        f"**{escaped(found.sentence)}**",
        f"Measured: {escaped(found.measured.what)}; one request takes "
        f"{latency_text(with_interval(times_s))}, {count(len(times_s), 'repeat')}. All other "
        "results are calculated from this time.",
        f"The peak demand is equal to the capacity of {digits(demand.peak_load)} fully utilized "
        f"replicas. With a maximum utilization of {demand.target_load:.0%}, the hours from 0 to "
        f"23 require {needed} replicas. Starting a replica takes {digits(demand.startup_s)}s.",
        table(_HEAD, _rows(found)),
        trade_off_plot(_points(found)),
        *(f"- Insufficient for the peak demand: {n} fixed." for n in found.too_few),
        _NOTE,
    ]
    return "\n\n".join(parts) + "\n"


def _rows(found: ScalingComparison) -> Iterable[Sequence[str]]:
    for number, day in enumerate(found.days, start=1):
        yield (
            str(number),
            day.plan.name,
            str(Origin.COMPUTED),
            usd_text(with_interval(day.usd_per_1k)),
            latency_text(with_interval(day.p99_s)),
            digits(day.replica_hours),
            "yes" if day.plan.name in found.front else "",
        )


def _points(found: ScalingComparison) -> list[Point]:
    return [
        Point(
            label=str(number),
            usd_per_1k=with_interval(day.usd_per_1k).likely,
            latency_s=with_interval(day.p99_s).likely,
            origin=Origin.COMPUTED,
        )
        for number, day in enumerate(found.days, start=1)
    ]
