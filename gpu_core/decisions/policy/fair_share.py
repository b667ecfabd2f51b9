"""Policy section `fair_share`: how past usage decides who comes first."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.section import Duration, Name, PositiveDuration, Section, Weight
from gpu_core.decisions.model.units import SECONDS_PER_HOUR

# The usage of an hour that a start is charged with is gone after ten shorter ones: nothing is
# shared then. And `7` is 7 s, where Slurm's 7 days (PriorityDecayHalfLife=7-0) were meant.
_LEAST_HALF_LIFE_S = 600


class FairSharePolicy(Section):
    """Settings for the ordering key `fair-share`, which sorts runs by the past usage of their
    owners."""

    half_life_s: Annotated[Duration, Field(ge=_LEAST_HALF_LIFE_S)] = Field(
        default=24 * SECONDS_PER_HOUR, alias="half_life"
    )
    """The time after which past usage counts half. Must be at least 10 minutes."""
    by: Literal["team", "user", "team-and-user"] = "team-and-user"
    """The owners between which usage is compared. With `team-and-user`, teams are compared first,
    and then the users of each team."""
    measure: Literal["gpu-hours", "dollars"] = "gpu-hours"
    """The unit in which usage is measured."""
    weights: Mapping[Name, Weight] = Field(default={})
    """The relative share of each team. A team that is not listed has a weight of 1."""
    entry_penalty_s: PositiveDuration = Field(default=SECONDS_PER_HOUR, alias="entry_penalty")
    """The usage that is charged to the owner when a run is admitted, unless a longer usage is
    already known. This prevents a burst of runs from one user from starting in a single cycle."""


def fair_share_contradictions(policy: FairSharePolicy) -> list[InvalidInput]:
    """The parts of this section that have no effect, given the others."""
    if policy.by != "user" or not policy.weights:
        return []
    return [
        InvalidInput(
            "fair_share.weights",
            "has no effect with by: user, because weights apply to teams",
            got=", ".join(sorted(policy.weights)),
            remedy="remove it or use by: team-and-user",
        )
    ]
