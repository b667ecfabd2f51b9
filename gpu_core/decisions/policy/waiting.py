"""Policy section `waiting`: how many runs may wait, how long, and how much is published of them."""

from typing import Annotated

from pydantic import Field

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.section import PositiveDuration, Section

_Runs = Annotated[int, Field(ge=1)]


class WaitingPolicy(Section):
    """Limits on the number of waiting runs, and settings that control how their states are
    published."""

    publish_per_cycle: Annotated[int, Field(ge=0)] = 20
    """The maximum number of waiting runs to update in each scheduling cycle."""
    max_runs: _Runs | None = None
    """The maximum number of runs that can wait in the pool at the same time. Additional runs are
    refused with `QueueFull`. If not set, there is no limit."""
    max_runs_per_team: _Runs | None = None
    """The maximum number of waiting runs for each team. Runs without a team are not counted. If not
    set, there is no limit."""
    max_runs_per_user: _Runs | None = None
    """The maximum number of waiting runs for each user. Runs without a user are not counted. If not
    set, there is no limit."""
    expires_after_s: PositiveDuration | None = Field(default=None, alias="expires_after")
    """The time after its scheduled start at which a waiting run is cancelled with the state
    `Expired`. If not set, waiting runs do not expire."""


def waiting_contradictions(policy: WaitingPolicy) -> list[InvalidInput]:
    """The bounds that can never be reached."""
    if policy.max_runs is None:
        return []
    narrower = {
        "max_runs_per_team": policy.max_runs_per_team,
        "max_runs_per_user": policy.max_runs_per_user,
    }
    return [
        InvalidInput(
            f"waiting.{name}",
            "has no effect above max_runs",
            got=limit,
            allowed=f"at most {policy.max_runs}",
        )
        for name, limit in narrower.items()
        if limit is not None and limit > policy.max_runs
    ]
