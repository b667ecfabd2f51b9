"""Policy section `waiting`: how many runs may wait, how long, and how much is published of them."""

from typing import Annotated

from pydantic import Field

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.section import PositiveDuration, Section

_Runs = Annotated[int, Field(ge=1)]


class WaitingPolicy(Section):
    """Bounds on runs that wait and have not started, and how much is published of waiting runs."""

    publish_per_cycle: Annotated[int, Field(ge=0)] = 20
    """The number of waiting runs whose state is updated in one scheduling cycle."""
    max_runs: _Runs | None = None
    """Runs that wait in the pool at once; later ones are refused as `QueueFull`. None: no limit."""
    max_runs_per_team: _Runs | None = None
    """Runs of one team that wait at once; None: no limit. Runs of no team are not counted."""
    max_runs_per_user: _Runs | None = None
    """Runs of one user that wait at once; None: no limit. Runs of no user are not counted."""
    expires_after_s: PositiveDuration | None = Field(default=None, alias="expires_after")
    """The time after its scheduled start at which a waiting run is cancelled as `Expired`; None:
    never."""


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
