"""Experiments as people read them: in Prefect's UI and in MLflow."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from gpu_core.decisions.model.markdown import escaped, table
from gpu_core.decisions.model.units import count, digits
from gpu_core.decisions.optimization.experiments.comparison import Comparison
from gpu_core.decisions.optimization.experiments.ladder import (
    ChangeVerdict,
    LadderStep,
    with_interval,
)
from gpu_core.decisions.optimization.experiments.plot import Point, trade_off_plot
from gpu_core.decisions.optimization.experiments.projection import Bounds, NoProjection, Projection
from gpu_core.decisions.optimization.experiments.repeats import mean_of
from gpu_core.decisions.optimization.experiments.trial import Measured, Origin, Trial

_T = TypeVar("_T")

_HEAD = ("", "Configuration", "Origin", "1,000 inferences", "Latency", "Quality", "Front")
_LADDER_HEAD = (
    "",
    "Step",
    "Configuration",
    "Origin",
    "1,000 inferences",
    "Latency",
    "Quality",
    "Saving",
    "Total saving",
)
LATENCY_NOTE = (
    "The measured latency is the 99th percentile of the batch duration, while the projected "
    "latency is the estimated batch duration. The time required to fill a batch is not included. "
    "Costs assume a device that is never idle and are shown with the 95% interval of the repeats "
    "or the bounds of the estimate."
)


def comparison_page(
    comparison: Comparison,
    measured: Measured,
    projections: Sequence[Projection | NoProjection] = (),
    projected_job: str = "",
) -> str:
    """One experiment with its trade-offs. The same input always gives the same page.

    Args:
        measured: What the comparison is of.
        projections: What other GPU types would be.
        projected_job: What the projections are of: another model than the one that ran.
    """
    repeats = len(comparison.trials[0].repeats)
    parts = [
        f"# Inference: {comparison.name}",
        f"**{escaped(comparison.sentence)}**",
        f"Measured: {escaped(measured.what)}; {count(repeats, 'repeat')} of each configuration "
        "in alternating order. Configurations on the Pareto front are not dominated by any other "
        "configuration in cost, latency and quality.",
        table(_HEAD, _measured_rows(comparison)),
        trade_off_plot(
            [_measured_point(number, trial) for number, trial in _numbered(comparison.trials)]
        ),
        *(f"- Not run: {setting}: {escaped(why)}." for setting, why in measured.not_run),
    ]
    if projections:
        parts += [
            f"## Other GPU types, projected: {escaped(projected_job)}",
            table(_HEAD[:5], _projected_rows(projections)),
        ]
    return "\n\n".join([*parts, LATENCY_NOTE]) + "\n"


def ladder_page(sections: Sequence[tuple[str, Sequence[LadderStep]]]) -> str:
    """The ladder of changes: one table and one plot. The same input always gives the same page.

    Args:
        sections: What each ladder is of, with its steps; measured and projected ones apart.
    """
    steps = [step for _, section in sections for step in section]
    rows: list[Sequence[str]] = []
    number = 0
    for title, section in sections:
        rows.append(("", f"**{escaped(title)}**", *([""] * (len(_LADDER_HEAD) - 2))))
        for step in section:
            number += 1
            rows.append(_ladder_row(number, step))
    notes = [f"- {step.name}: {escaped(step.note)}." for step in steps if step.note]
    points = [
        Point(
            label=str(position),
            usd_per_1k=step.usd_per_1k.likely,
            latency_s=step.latency_s.likely,
            origin=step.origin,
        )
        for position, step in _numbered(steps)
        if step.usd_per_1k is not None and step.latency_s is not None
    ]
    parts = [
        "# Savings of each optimization step for inference",
        *(f"**{escaped(ladder_sentence(title, section))}**" for title, section in sections),
        table(_LADDER_HEAD, rows),
        trade_off_plot(points),
        *notes,
        LATENCY_NOTE,
    ]
    return "\n\n".join(parts) + "\n"


def ladder_sentence(title: str, steps: Sequence[LadderStep]) -> str:
    """The saving of all steps together, for people."""
    last = next((s for s in reversed(steps) if s.cumulative_saving is not None), None)
    if last is None or last.cumulative_saving is None:
        return f"{title}: unable to determine the savings."
    word = "saved" if last.cumulative_saving >= 0 else "more"
    within = _within(last.cumulative_verdict, last.origin)
    latencies = steps[0].latency_s, last.latency_s
    trade = ""
    if latencies[0] is not None and latencies[1] is not None:
        trade = f", latency {_ms(latencies[0].likely)} to {_ms(latencies[1].likely)}"
    return (
        f"{title}: {abs(last.cumulative_saving):.0%} {word} in total{within} "
        f"({last.origin}){trade}."
    )


def _measured_rows(comparison: Comparison) -> Iterable[Sequence[str]]:
    for number, trial in _numbered(comparison.trials):
        name = str(trial.setting)
        yield (
            str(number),
            escaped(name),
            str(Origin.MEASURED),
            usd_text(with_interval(trial.usd_per_1k)),
            latency_text(with_interval(trial.p99_s)),
            "" if trial.quality is None else _quality(mean_of(trial.quality)),
            "yes" if name in comparison.front else "",
        )


def _projected_rows(found: Sequence[Projection | NoProjection]) -> Iterable[Sequence[str]]:
    for number, each in _numbered(found):
        name = escaped(str(each.setting))
        if isinstance(each, Projection):
            costs = usd_text(each.usd_per_1k), latency_text(each.latency_s)
        else:
            costs = escaped(each.why), ""
        yield (str(number), name, str(Origin.PROJECTED), *costs)


def _ladder_row(number: int, step: LadderStep) -> Sequence[str]:
    return (
        str(number),
        escaped(step.name),
        escaped(str(step.setting)),
        str(step.origin),
        "unknown" if step.usd_per_1k is None else usd_text(step.usd_per_1k),
        "unknown" if step.latency_s is None else latency_text(step.latency_s),
        "" if step.quality is None else _quality(step.quality),
        _saving_text(step.saving, step.verdict, step.origin),
        _saving_text(step.cumulative_saving, step.cumulative_verdict, step.origin),
    )


def _saving_text(saving: float | None, verdict: ChangeVerdict, origin: Origin) -> str:
    if verdict is ChangeVerdict.BASELINE:
        return ""
    if saving is None:
        return "unknown"
    return f"{round(saving, 2) + 0.0:.0%}{_within(verdict, origin)}"


def _within(verdict: ChangeVerdict, origin: Origin) -> str:
    """The end of a sentence for an undecided saving; empty for a decided one."""
    if verdict is not ChangeVerdict.UNDECIDED:
        return ""
    return ", within noise" if origin is Origin.MEASURED else ", within the bounds"


def _measured_point(number: int, trial: Trial) -> Point:
    return Point(
        label=str(number),
        usd_per_1k=with_interval(trial.usd_per_1k).likely,
        latency_s=with_interval(trial.p99_s).likely,
        origin=Origin.MEASURED,
    )


def _numbered(values: Sequence[_T]) -> Iterable[tuple[int, _T]]:
    return enumerate(values, start=1)


def usd_text(cost: Bounds) -> str:
    """A cost with its bounds, where it has any."""
    if cost.low == cost.high:
        return f"${digits(cost.likely)}"
    return f"${digits(cost.likely)} ({digits(cost.low)} to {digits(cost.high)})"


def latency_text(latency: Bounds) -> str:
    """A latency with its bounds, where it has any."""
    if latency.low == latency.high:
        return _ms(latency.likely)
    return f"{_ms(latency.likely)} ({_ms(latency.low)} to {_ms(latency.high)})"


def _ms(seconds: float) -> str:
    return f"{digits(seconds * 1000)} ms" if seconds < 0.9995 else f"{digits(seconds)} s"


def _quality(value: float) -> str:
    return f"{value:.4f}"
