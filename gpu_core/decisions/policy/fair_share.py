"""Policy section `fair_share`: how past usage decides who comes first."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from gpu_core.decisions.model.section import Name, PositiveDuration, Section, Weight
from gpu_core.decisions.model.units import SECONDS_PER_HOUR


class FairSharePolicy(Section):
    """How past usage decides who comes first."""

    half_life_s: PositiveDuration = Field(default=24 * SECONDS_PER_HOUR, alias="half_life")
    """After this time, usage counts half."""
    by: Literal["team", "user", "team-and-user"] = "team-and-user"
    """Between whom: teams, users, or teams and then the users inside each."""
    measure: Literal["gpu-hours", "dollars"] = "gpu-hours"
    """What usage is counted in."""
    weights: Mapping[Name, Weight] = Field(default={})
    """What a team may use in proportion to others; a team that is not listed: 1."""
    entry_penalty_s: PositiveDuration = Field(default=SECONDS_PER_HOUR, alias="entry_penalty")
    """For how long a run is charged at once when it is admitted, if it is not known to be longer;
    without it, a burst in one cycle would win against everybody."""
