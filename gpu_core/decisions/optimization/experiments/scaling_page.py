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
    "Replica-hours a day",
    "Front",
)
_NOTE = (
    "Computed: replicas of the measured device answer one queue of requests, first come, first "
    "served, one at a time, each in the mean time of the repeat. Requests are a Poisson process "
    "with the rate of the hour, and each hour begins without a queue. Scaled at the hour: the "
    "missing replicas begin to start when the hour does. Scaled ahead: they are ready then. A "
    "replica costs from the decision to start it. Intervals are 95% over the repeats."
)


def scaling_page(found: ScalingComparison) -> str:
    """One day under several plans. The same input always gives the same page."""
    times_s, demand = batch_s(found.measured.trials[0]), found.demand
    needed = ", ".join(map(str, demand.replicas))
    parts = [
        "# Replicas by the demand of the hour",
        f"**{escaped(found.sentence)}**",
        f"Measured: {escaped(found.measured.what)}; one request takes "
        f"{latency_text(with_interval(times_s))}, {count(len(times_s), 'repeat')}. All else is "
        "computed from this time.",
        f"Demand: at the peak what {digits(demand.peak_load)} replicas answer that are never idle. "
        f"At most {demand.target_load:.0%} busy, the hours from 0 to 23 need {needed} replicas. "
        f"One takes {digits(demand.startup_s)} s to start.",
        table(_HEAD, _rows(found)),
        trade_off_plot(_points(found)),
        *(f"- Too few for the peak: {n} fixed." for n in found.too_few),
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
