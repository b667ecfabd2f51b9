"""The judgment of a day's cost, under any rule."""

from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from fractions import Fraction

from gpu_core.decisions.costs.anomalies.decomposition.actions import Action
from gpu_core.decisions.costs.anomalies.decomposition.decomposition import Decomposition
from gpu_core.decisions.costs.anomalies.detection.detector import AnomalyKind
from gpu_core.decisions.costs.reports.cost_history import Scope
from gpu_core.decisions.model.attempts import RunRecord


class ComparisonRule(StrEnum):
    """The values that a day is compared with."""

    SEASONAL = "seasonal"
    """The same weekdays before it, at the present level, and how far days usually are from that."""
    ROLLING_MEAN = "rolling-mean"
    """The mean of the 7 days before it: 20% over that is unusual."""


class AnomalyVerdict(StrEnum):
    """The verdict on a day's cost. Stable: alerts match on it."""

    ANOMALY = "Anomaly"
    USUAL = "Usual"
    NOT_ENOUGH_HISTORY = "NotEnoughHistory"
    PLANNED = "Planned"


@dataclass(frozen=True, slots=True, kw_only=True)
class RootCause:
    """A run that made the day dearer than usual."""

    run: RunRecord
    cost_micro_usd: int
    excess_micro_usd: int
    """The part of its cost that its deployment does not usually spend in a day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgment:
    """The verdict on a day's cost, for all runs or for one part of them."""

    day: date
    part: Scope
    """The judged part of the cost."""
    verdict: AnomalyVerdict
    cost_micro_usd: int
    expected_micro_usd: int | None
    """None without enough history."""
    kind: AnomalyKind | None = None
    """Only for an anomaly."""
    sigmas: float | None = None
    """Its distance from what was expected, in standard deviations; None: the rule has none."""
    since: date | None = None
    """The anomaly's first day."""
    is_new: bool = True
    """False: an earlier day reported the same anomaly."""
    causes: tuple[RootCause, ...] = ()
    """The dearest excess first; only for an anomaly."""
    why: Decomposition | None = None
    """The parts of the difference from the expected cost; None: no anomaly, or not known."""
    action: Action | None = None
    """The remedy for the cost; None: nothing is proposed."""
    summary: str
    """One sentence with the numbers."""

    @property
    def scope(self) -> str:
        """`total`, or the part in words: `team vision`, `no team`, `deployment train/gpu`."""
        return str(self.part)

    @property
    def is_anomaly(self) -> bool:
        """Was the day unusual?"""
        return self.verdict is AnomalyVerdict.ANOMALY


def describe_change(cost_micro_usd: int, expected_micro_usd: int) -> str:
    """The comparison of a cost with what was expected, in words: `35% over`."""
    if cost_micro_usd == expected_micro_usd:
        return "as expected"
    if expected_micro_usd == 0:
        return "no cost was expected"
    percent = abs(Fraction(100 * (cost_micro_usd - expected_micro_usd), expected_micro_usd))
    if percent < 1:
        return "as expected"
    return f"{percent.__floor__():,}% {'over' if cost_micro_usd > expected_micro_usd else 'under'}"
