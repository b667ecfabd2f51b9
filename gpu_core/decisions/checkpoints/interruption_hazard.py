"""How long does capacity live? The hazard of its interruption, by its age.

Spot capacity that has just come up is interrupted much more often than capacity that has been up
for hours. A life is therefore a step function: from an age on, the mean life that would be left
if the hazard stayed as it is then (one over the hazard). This is the piecewise exponential model
of survival analysis.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from gpu_core.decisions.model.errors import InvalidInput

_HELP = "'AGE_S:MEAN_LIFE_S,...' with growing ages from 0, such as '0:1940,1800:5200'"


@dataclass(frozen=True, slots=True)
class LifeStage:
    """One stage of capacity's life."""

    from_age_s: float
    mean_life_s: float
    """Mean life left if the hazard of this stage stayed: seconds per interruption."""


@dataclass(frozen=True, slots=True)
class ObservedLife:
    """One piece of capacity, as it was seen."""

    life_s: float
    was_interrupted: bool
    """False: it was released, or still lives. It counts as exposure, not as an interruption."""


@dataclass(frozen=True, slots=True)
class CapacityLife:
    """The hazard of being interrupted, by age. The first stage begins at age 0."""

    stages: tuple[LifeStage, ...]

    def __post_init__(self) -> None:
        ages = [stage.from_age_s for stage in self.stages]
        grows = all(younger < older for younger, older in pairwise(ages))
        lives = all(0 < stage.mean_life_s < math.inf for stage in self.stages)
        if not ages or ages[0] != 0 or not grows or not lives:
            raise InvalidInput("capacity_life", "is no life", got=self.stages, allowed=_HELP)

    @classmethod
    def constant(cls, mean_life_s: float) -> "CapacityLife":
        """A life whose hazard does not depend on its age."""
        return cls((LifeStage(0, mean_life_s),))

    @classmethod
    def from_text(cls, text: str) -> "CapacityLife":
        """The life that `to_text` wrote.

        Raises:
            InvalidInput: The text is none (field `capacity_life`).
        """
        try:
            pairs = [entry.split(":") for entry in text.split(",")]
            stages = tuple(LifeStage(float(age_s), float(mean_s)) for age_s, mean_s in pairs)
        except ValueError:
            raise InvalidInput("capacity_life", "is no life", got=text, allowed=_HELP) from None
        return cls(stages)

    def to_text(self) -> str:
        """The life as one word, for an environment variable: `0:1940,1800:5200`."""
        return ",".join(f"{s.from_age_s:g}:{s.mean_life_s:.10g}" for s in self.stages)

    def interruptions(self, from_age_s: float, to_age_s: float) -> float:
        """How many interruptions are expected between two ages? The cumulative hazard."""
        ends_s = [stage.from_age_s for stage in self.stages[1:]] + [math.inf]
        return sum(
            max(0.0, min(end_s, to_age_s) - max(stage.from_age_s, from_age_s)) / stage.mean_life_s
            for stage, end_s in zip(self.stages, ends_s, strict=True)
        )

    def survival(self, from_age_s: float, to_age_s: float) -> float:
        """How probable is it that capacity of one age reaches another?"""
        return math.exp(-self.interruptions(from_age_s, to_age_s))

    def mean_life_s(self, age_s: float, horizon_s: float = 1.0) -> float:
        """Seconds per interruption at this age, as the mean over the next `horizon_s` seconds."""
        horizon_s = max(horizon_s, 1.0)
        return horizon_s / self.interruptions(age_s, age_s + horizon_s)


SPOT_PRIOR = CapacityLife(
    (
        LifeStage(0, 1_940),
        LifeStage(600, 2_750),
        LifeStage(1_200, 6_180),
        LifeStage(1_800, 5_170),
        LifeStage(3_600, 5_630),
        LifeStage(7_200, 16_600),
    )
)
"""Spot capacity of which nothing was observed yet.

From 204 lives of one p3.2xlarge each (skypilot-org/spot-traces, AWS, 2022-23): of those that
reached 0, 10, 20, 30, 60 and 120 minutes, 0.69, 0.77, 0.89, 0.87, 0.88 and 0.94 lived 12 minutes
more, which is a mean life of -720 s / ln(share); from 2 h on the mean life left was 4.6 h.
"""

# How many interruptions the prior counts as: a few real ones soon outweigh it.
_PRIOR_INTERRUPTIONS = 4.0


def learned_life(observed: Iterable[ObservedLife], prior: CapacityLife) -> CapacityLife:
    """Which life fits what was observed, beginning from a prior?

    In each stage: time lived there by interruptions there (the occurrence-exposure rate), with
    the prior counted as four interruptions. A life that has not ended counts with its time so far.

    Args:
        observed: Lifetimes of the same kind of capacity, in any order.
        prior: The stages to learn, and what holds for them without any observation.
    """
    lives = tuple(observed)
    ends_s = [stage.from_age_s for stage in prior.stages[1:]] + [math.inf]
    return CapacityLife(
        tuple(
            _learned(stage, end_s, lives) for stage, end_s in zip(prior.stages, ends_s, strict=True)
        )
    )


def _learned(stage: LifeStage, end_s: float, lives: tuple[ObservedLife, ...]) -> LifeStage:
    begin_s = stage.from_age_s
    lived_s = sum(max(0.0, min(life.life_s, end_s) - begin_s) for life in lives)
    ended = sum(life.was_interrupted and begin_s <= life.life_s < end_s for life in lives)
    exposure_s = lived_s + _PRIOR_INTERRUPTIONS * stage.mean_life_s
    return LifeStage(begin_s, exposure_s / (_PRIOR_INTERRUPTIONS + ended))
