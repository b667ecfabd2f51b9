"""The life of capacity: the hazard of its interruption, as a step function of its age."""

import math
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
