"""A ladder of changes, each made on top of the ones before: what does it save in all?"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpu_core.decisions.experiments.projection import Bounds, NoProjection, Projection
from gpu_core.decisions.experiments.repeats import is_lower, mean_interval, mean_of
from gpu_core.decisions.experiments.trial import Origin, Setting, Trial

Rung = Trial | Projection | NoProjection


class Verdict(StrEnum):
    """What a change does to the cost. Stable: MLflow and reports have it."""

    BASELINE = "Baseline"
    SAVES = "Saves"
    COSTS_MORE = "CostsMore"
    UNDECIDED = "Undecided"
    """Measured: within noise. Projected: the bounds of the two estimates overlap."""
    UNKNOWN = "Unknown"
    """One of the two did not run and cannot be projected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderStep:
    """One change, compared with the step before and with the first."""

    name: str
    setting: Setting
    origin: Origin
    usd_per_1k: Bounds | None
    """Measured: the mean with its 95 % interval. Projected: with the bounds of the estimate."""
    latency_s: Bounds | None
    """Measured: the 99th percentile. Projected: of a batch."""
    quality: float | None
    verdict: Verdict
    """Against the step before."""
    saving: float | None
    """Of the cost of the step before; negative: it costs more."""
    cumulative_saving: float | None
    """Of the cost of the first step."""
    note: str = ""


def ladder(rungs: Sequence[tuple[str, Rung]]) -> tuple[LadderStep, ...]:
    """What does each change save, against the step before and in all?

    Measured steps are compared with measured ones only, and projected ones with projected ones.

    Args:
        rungs: The name of each change with the configuration after it; the first is the baseline.
    """
    return tuple(_step(rungs, index) for index in range(len(rungs)))


def _step(rungs: Sequence[tuple[str, Rung]], index: int) -> LadderStep:
    name, rung = rungs[index]
    before = None if index == 0 else rungs[index - 1][1]
    cost = _cost(rung)
    return LadderStep(
        name=name,
        setting=rung.setting,
        origin=Origin.MEASURED if isinstance(rung, Trial) else Origin.PROJECTED,
        usd_per_1k=cost,
        latency_s=_latency(rung),
        quality=mean_of(rung.quality) if isinstance(rung, Trial) and rung.quality else None,
        verdict=Verdict.BASELINE if before is None else _verdict(before, rung, len(rungs) - 1),
        saving=None if before is None else _saving(before, rung),
        cumulative_saving=None if before is None else _saving(rungs[0][1], rung),
        note=rung.why if isinstance(rung, NoProjection) else "",
    )


def _verdict(before: Rung, after: Rung, comparisons: int) -> Verdict:
    if isinstance(before, Trial) and isinstance(after, Trial):
        is_cheaper = is_lower(after.usd_per_1k, before.usd_per_1k, comparisons)
        is_dearer = is_lower(before.usd_per_1k, after.usd_per_1k, comparisons)
    elif isinstance(before, Projection) and isinstance(after, Projection):
        is_cheaper = after.usd_per_1k.high < before.usd_per_1k.low
        is_dearer = before.usd_per_1k.high < after.usd_per_1k.low
    else:
        return Verdict.UNKNOWN
    if is_cheaper:
        return Verdict.SAVES
    return Verdict.COSTS_MORE if is_dearer else Verdict.UNDECIDED


def _saving(before: Rung, after: Rung) -> float | None:
    """Of the earlier cost; None: not comparable, or that was nothing."""
    was, becomes = _cost(before), _cost(after)
    if was is None or becomes is None or isinstance(before, Trial) != isinstance(after, Trial):
        return None
    return 1 - becomes.likely / was.likely if was.likely > 0 else None


def _cost(rung: Rung) -> Bounds | None:
    if isinstance(rung, Trial):
        return with_interval(rung.usd_per_1k)
    return rung.usd_per_1k if isinstance(rung, Projection) else None


def _latency(rung: Rung) -> Bounds | None:
    if isinstance(rung, Trial):
        return with_interval(rung.p99_s)
    return rung.latency_s if isinstance(rung, Projection) else None


def with_interval(values: Sequence[float]) -> Bounds:
    """The mean with its 95 % interval; of one repeat alone all three are its value."""
    found, mean = mean_interval(values), mean_of(values)
    if found is None:
        return Bounds(low=mean, likely=mean, high=mean)
    return Bounds(low=found.low, likely=mean, high=found.high)
