"""Policies for a backlog as people read them: what was measured, and what is computed."""

from collections.abc import Iterable, Sequence

from gpu_core.decisions.model.markdown import escaped, table
from gpu_core.decisions.model.units import count, digits
from gpu_core.decisions.optimization.experiments.ladder import with_interval
from gpu_core.decisions.optimization.experiments.low_priority import (
    BatchPolicy,
    PolicyComparison,
    batch_s,
)
from gpu_core.decisions.optimization.experiments.page import latency_text, usd_text
from gpu_core.decisions.optimization.experiments.plot import Point, trade_off_plot
from gpu_core.decisions.optimization.experiments.repeats import mean_of
from gpu_core.decisions.optimization.experiments.trial import Origin

_MEASURED_HEAD = ("Batch", "Origin", "Time of a batch", "Requests a second")
_HEAD = (
    "",
    "Low-priority requests",
    "Origin",
    "Cost of 1,000: whole device",
    "Cost of 1,000: time used",
    "p99 of interactive requests",
    "Low-priority requests per second",
    "Busy",
    "Front",
)
_NOTE = (
    "These results are from a simulation of a single device, using measured batch durations and "
    "Poisson arrivals that are identical for all policies. Interactive requests are prioritized, "
    "but running batches are not interrupted. The backlog is assumed to be unlimited. In the "
    "*Whole device* column, the entire cost is allocated to low-priority requests; in the *Time "
    "used* column, only the cost of their own batches. All intervals are 95% confidence "
    "intervals over the repeats."
)


def policies_page(found: PolicyComparison) -> str:
    """One backlog under several policies. The same input always gives the same page."""
    repeats = len(found.policies[0].repeats)
    demand, idle = found.demand, found.policies[0]
    busy = mean_of([each.busy_part for each in idle.repeats])
    parts = [
        "# Low-priority requests in batches",
        f"**{escaped(found.sentence)}**",
        f"Measured: {escaped(found.measured.what)}; {count(repeats, 'repeat')} of each batch size, "
        "in alternating order. All other results are calculated from these times.",
        table(_MEASURED_HEAD, _measured_rows(found)),
        f"In each repeat, {demand.requests:,} interactive requests arrive at a rate of "
        f"{digits(found.requests_per_s)} per second. They are answered in batches of up to "
        f"{demand.interactive_batch}. Without a backlog, the device is busy for {busy:.0%} of the "
        "time.",
        table(_HEAD, _rows(found)),
        trade_off_plot(_points(found)),
        *(f"- Not run: {setting}: {escaped(why)}." for setting, why in found.measured.not_run),
        _NOTE,
    ]
    return "\n\n".join(parts) + "\n"


def _measured_rows(found: PolicyComparison) -> Iterable[Sequence[str]]:
    for trial in found.measured.trials:
        rates = [each.inferences_per_s for each in trial.repeats]
        yield (
            str(trial.setting.batch_size),
            str(Origin.MEASURED),
            latency_text(with_interval(batch_s(trial))),
            digits(with_interval(rates).likely),
        )


def _rows(found: PolicyComparison) -> Iterable[Sequence[str]]:
    for number, policy in enumerate(found.policies):
        whole, marginal = policy.usd_per_1k, policy.marginal_usd_per_1k
        yield (
            str(number) if number else "",
            str(policy),
            str(Origin.COMPUTED),
            "" if whole is None else usd_text(with_interval(whole)),
            "" if marginal is None else usd_text(with_interval(marginal)),
            latency_text(with_interval(policy.p99_s)),
            digits(mean_of(policy.low_priority_per_s)),
            f"{mean_of([each.busy_part for each in policy.repeats]):.0%}",
            "yes" if str(policy) in found.front else "",
        )


def _points(found: PolicyComparison) -> list[Point]:
    numbered: Iterable[tuple[int, BatchPolicy]] = enumerate(found.policies)
    return [
        Point(
            label=str(number),
            usd_per_1k=with_interval(costs).likely,
            latency_s=with_interval(policy.p99_s).likely,
            origin=Origin.COMPUTED,
        )
        for number, policy in numbered
        if (costs := policy.usd_per_1k) is not None
    ]
