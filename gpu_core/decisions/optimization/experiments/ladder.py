"""The savings of a ladder of changes, each made on top of the ones before."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpu_core.decisions.optimization.experiments.projection import Bounds, NoProjection, Projection
from gpu_core.decisions.optimization.experiments.repeats import (
    is_lower,
    logarithms,
    mean_interval,
    mean_of,
)
from gpu_core.decisions.optimization.experiments.trial import Origin, Setting, Trial

_MOST_LOG = 700.0
"""The bounds of two repeats that differ much are beyond any float."""

Rung = Trial | Projection | NoProjection


class ChangeVerdict(StrEnum):
    """The effect of a change on the cost. Stable: MLflow and reports have it."""

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
    """Measured: the geometric mean with its 95% interval. Projected: the estimate with its
    bounds."""
    latency_s: Bounds | None
    """Measured: the 99th percentile. Projected: of a batch."""
    quality: float | None
    verdict: ChangeVerdict
    """Against the step before."""
    saving: float | None
    """Of the cost of the step before; negative: it costs more."""
    cumulative_saving: float | None
    """Of the cost of the first step."""
    cumulative_verdict: ChangeVerdict
    """Against the first step."""
    note: str = ""


def ladder(rungs: Sequence[tuple[str, Rung]]) -> tuple[LadderStep, ...]:
    """The saving of each change, against the step before and in all.

    Measured steps are compared with measured ones only, and projected ones with projected ones.

    Args:
        rungs: The name of each change with the configuration after it; the first is the baseline.
    """
    return tuple(_step(rungs, index) for index in range(len(rungs)))


def _step(rungs: Sequence[tuple[str, Rung]], index: int) -> LadderStep:
    name, rung = rungs[index]
    first, before = rungs[0][1], rungs[max(0, index - 1)][1]
    is_first, comparisons = index == 0, 2 * max(1, len(rungs) - 1)
    cost = _cost(rung)
    return LadderStep(
        name=name,
        setting=rung.setting,
        origin=Origin.MEASURED if isinstance(rung, Trial) else Origin.PROJECTED,
        usd_per_1k=cost,
        latency_s=_latency(rung),
        quality=mean_of(rung.quality) if isinstance(rung, Trial) and rung.quality else None,
        verdict=ChangeVerdict.BASELINE if is_first else _verdict(before, rung, comparisons),
        saving=None if is_first else _saving(before, rung),
        cumulative_saving=None if is_first else _saving(first, rung),
        cumulative_verdict=ChangeVerdict.BASELINE
        if is_first
        else _verdict(first, rung, comparisons),
        note=rung.why if isinstance(rung, NoProjection) else "",
    )


def _verdict(before: Rung, after: Rung, comparisons: int) -> ChangeVerdict:
    if isinstance(before, Trial) and isinstance(after, Trial):
        was, becomes = logarithms(before.usd_per_1k), logarithms(after.usd_per_1k)
        is_cheaper = is_lower(becomes, was, comparisons)
        is_dearer = is_lower(was, becomes, comparisons)
    elif isinstance(before, Projection) and isinstance(after, Projection):
        is_cheaper = after.usd_per_1k.high < before.usd_per_1k.low
        is_dearer = before.usd_per_1k.high < after.usd_per_1k.low
    else:
        return ChangeVerdict.UNKNOWN
    if is_cheaper:
        return ChangeVerdict.SAVES
    return ChangeVerdict.COSTS_MORE if is_dearer else ChangeVerdict.UNDECIDED


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
    """The geometric mean with its 95% interval; of one repeat alone all three are its value.

    Args:
        values: Costs or latencies, over 0.
    """
    found = mean_interval(logarithms(values))
    if found is None:
        return Bounds(low=values[0], likely=values[0], high=values[0])
    low, likely, high = (math.exp(min(x, _MOST_LOG)) for x in (found.low, found.mean, found.high))
    return Bounds(low=low, likely=likely, high=high)
