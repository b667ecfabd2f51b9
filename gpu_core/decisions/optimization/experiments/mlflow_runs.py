"""The record of each configuration in MLflow, as a child run of its experiment.

Names are public: `inference/usd_per_1k` or `serving/p99_s` with `_low` and `_high`, and so on.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpu_core.decisions.optimization.experiments.comparison import Comparison
from gpu_core.decisions.optimization.experiments.ladder import LadderStep, with_interval
from gpu_core.decisions.optimization.experiments.low_priority import BatchPolicy, PolicyComparison
from gpu_core.decisions.optimization.experiments.projection import Bounds, Projection
from gpu_core.decisions.optimization.experiments.repeats import mean_of
from gpu_core.decisions.optimization.experiments.scaling import PlannedDay, ScalingComparison
from gpu_core.decisions.optimization.experiments.trial import Origin, Setting, Trial

ORIGIN_TAG = "experiment.origin"
"""`measured`, `projected`, or `computed` from what was measured."""
FRONT_TAG = "experiment.on_front"
"""`true`: no other configuration dominates it."""
CHEAPEST_TAG = "experiment.cheapest"
"""`true`: the only one that may be the cheapest; `undecided`: one of several."""
VERDICT_TAG = "experiment.verdict"
"""The effect of the step on the cost, against the step before."""
CUMULATIVE_VERDICT_TAG = "experiment.cumulative_verdict"
"""The effect of all steps so far, against the first."""

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


def children_of_policies(found: PolicyComparison) -> tuple[ChildRun, ...]:
    """The children of an experiment on a backlog: its policies in order."""
    return tuple(_policy(policy, found) for policy in found.policies)


def children_of_scaling(found: ScalingComparison) -> tuple[ChildRun, ...]:
    """The children of an experiment on replicas: its plans in order."""
    return tuple(_planned(day, found) for day in found.days)


def _measured(trial: Trial, comparison: Comparison) -> ChildRun:
    name = str(trial.setting)
    tags = _tags(Origin.MEASURED, name, comparison.front, comparison.cheapest)
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


def _policy(policy: BatchPolicy, found: PolicyComparison) -> ChildRun:
    name, setting = str(policy), found.measured.trials[0].setting
    repeats = {
        "usd_per_1k": policy.usd_per_1k or (),
        "marginal_usd_per_1k": policy.marginal_usd_per_1k or (),
        "p99_s": policy.p99_s,
        "low_priority_per_s": policy.low_priority_per_s,
        "busy": tuple(each.busy_part for each in policy.repeats),
    }
    return ChildRun(
        name=name,
        params={
            "device": setting.device,
            "precision": str(setting.precision),
            "low_priority_batch": str(policy.batch_size or 0),
            "interactive_batch": str(found.demand.interactive_batch),
            "interactive_per_s": str(found.requests_per_s),
            "p99_limit_s": str(found.limit_s),
        },
        metrics=_computed("serving", repeats),
        tags=_tags(Origin.COMPUTED, name, found.front, found.cheapest),
        repeats={f"repeat/{key}": values for key, values in repeats.items() if values},
    )


def _planned(day: PlannedDay, found: ScalingComparison) -> ChildRun:
    name, setting = day.plan.name, found.measured.trials[0].setting
    repeats = {"usd_per_1k": day.usd_per_1k, "p99_s": day.p99_s}
    return ChildRun(
        name=name,
        params={
            "device": setting.device,
            "precision": str(setting.precision),
            "replicas": " ".join(map(str, day.plan.replicas)),
            "peak_load": str(found.demand.peak_load),
            "target_load": str(found.demand.target_load),
            "startup_s": str(found.demand.startup_s),
        },
        metrics={
            **_computed("scaling", repeats),
            "scaling/replica_hours": day.replica_hours,
        },
        tags=_tags(Origin.COMPUTED, name, found.front, found.cheapest),
        repeats={f"repeat/{key}": values for key, values in repeats.items()},
    )


def _computed(what: str, repeats: Mapping[str, tuple[float, ...]]) -> dict[str, float]:
    """The means with their intervals; what is 0 in a repeat has none."""
    return {
        key: value
        for name, values in repeats.items()
        if values and min(values) > 0
        for key, value in _bounds(f"{what}/{name}", with_interval(values)).items()
    }


def _tags(
    origin: Origin, name: str, front: Sequence[str], cheapest: Sequence[str]
) -> dict[str, str]:
    tags = {ORIGIN_TAG: str(origin)}
    if name in front:
        tags[FRONT_TAG] = "true"
    if name in cheapest:
        tags[CHEAPEST_TAG] = "true" if len(cheapest) == 1 else "undecided"
    return tags


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
