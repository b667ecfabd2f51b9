"""What each configuration leaves in MLflow, as a child run of its experiment.

Names are public: `inference/usd_per_1k` with `_low` and `_high`, and so on.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpu_core.decisions.experiments.comparison import Comparison
from gpu_core.decisions.experiments.ladder import LadderStep, with_interval
from gpu_core.decisions.experiments.projection import Bounds, Projection
from gpu_core.decisions.experiments.repeats import mean_of
from gpu_core.decisions.experiments.trial import Origin, Setting, Trial

ORIGIN_TAG = "experiment.origin"
"""`measured` or `projected`."""
FRONT_TAG = "experiment.on_front"
"""`true`: no other configuration dominates it."""
CHEAPEST_TAG = "experiment.cheapest"
"""`true`: the only one that may be the cheapest; `undecided`: one of several."""
VERDICT_TAG = "experiment.verdict"
"""What the step does to the cost, against the step before."""
CUMULATIVE_VERDICT_TAG = "experiment.cumulative_verdict"
"""What all steps so far do to it, against the first."""

_USD, _LATENCY, _QUALITY = "inference/usd_per_1k", "inference/latency_s", "inference/quality"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildRun:
    """One child run."""

    name: str
    params: Mapping[str, str]
    metrics: Mapping[str, float]
    tags: Mapping[str, str]
    repeats: Mapping[str, tuple[float, ...]]
    """Metrics with one value for each repeat."""


def children_of(
    comparison: Comparison, projections: Iterable[Projection] = ()
) -> tuple[ChildRun, ...]:
    """The children of one experiment: what was measured, and what is projected."""
    measured = (_measured(trial, comparison) for trial in comparison.trials)
    return (*measured, *(_projected(each) for each in projections))


def children_of_ladder(steps: Sequence[LadderStep]) -> tuple[ChildRun, ...]:
    """The children of a ladder: its steps in order."""
    return tuple(_step(number, step) for number, step in enumerate(steps, start=1))


def _measured(trial: Trial, comparison: Comparison) -> ChildRun:
    name = str(trial.setting)
    tags = {ORIGIN_TAG: str(Origin.MEASURED)}
    if name in comparison.front:
        tags[FRONT_TAG] = "true"
    if name in comparison.cheapest:
        tags[CHEAPEST_TAG] = "true" if len(comparison.cheapest) == 1 else "undecided"
    quality = trial.quality
    return ChildRun(
        name=name,
        params=_params(trial.setting),
        metrics={
            **_bounds(_USD, with_interval(trial.usd_per_1k)),
            **_bounds(_LATENCY, with_interval(trial.p99_s)),
            **({} if quality is None else {_QUALITY: mean_of(quality)}),
        },
        tags=tags,
        repeats={
            "repeat/usd_per_1k": trial.usd_per_1k,
            "repeat/p99_s": trial.p99_s,
            "repeat/per_s": tuple(each.inferences_per_s for each in trial.repeats),
        },
    )


def _projected(found: Projection) -> ChildRun:
    return ChildRun(
        name=f"{found.setting} (projected)",
        params={**_params(found.setting), "offering": found.offering, "limit": found.limit},
        metrics={**_bounds(_USD, found.usd_per_1k), **_bounds(_LATENCY, found.latency_s)},
        tags={ORIGIN_TAG: str(Origin.PROJECTED)},
        repeats={},
    )


def _step(number: int, step: LadderStep) -> ChildRun:
    savings = {
        "inference/saving": step.saving,
        "inference/cumulative_saving": step.cumulative_saving,
        _QUALITY: step.quality,
    }
    return ChildRun(
        name=f"{number} {step.name} ({step.origin})",
        params=_params(step.setting),
        metrics={
            **({} if step.usd_per_1k is None else _bounds(_USD, step.usd_per_1k)),
            **({} if step.latency_s is None else _bounds(_LATENCY, step.latency_s)),
            **{name: value for name, value in savings.items() if value is not None},
        },
        tags={
            ORIGIN_TAG: str(step.origin),
            VERDICT_TAG: str(step.verdict),
            CUMULATIVE_VERDICT_TAG: str(step.cumulative_verdict),
        },
        repeats={},
    )


def _bounds(name: str, found: Bounds) -> dict[str, float]:
    return {name: found.likely, f"{name}_low": found.low, f"{name}_high": found.high}


def _params(setting: Setting) -> dict[str, str]:
    return {
        "device": setting.device,
        "batch_size": str(setting.batch_size),
        "precision": str(setting.precision),
        "processes": str(setting.processes),
    }
