"""Policy section `hangs`: what happens to runs that make no progress."""

from typing import Annotated, Literal

from pydantic import Field

from gpu_core.decisions.model.section import Duration, Section

HangAction = Literal["off", "name", "restart"]


class HangPolicy(Section):
    """Settings for the detection of hung runs. Only runs that report their steps are checked."""

    action: HangAction = "name"
    """The action to take when a run hangs. `off` does nothing. `name` shows on the page of the run
    which rank hangs, where, and how. `restart` also ends the attempt with `Hung`, and the next
    attempt resumes elsewhere. This counts toward `max_failures`."""
    stuck_after_s: Annotated[Duration, Field(ge=15)] | None = Field(
        default=None, alias="stuck_after"
    )
    """The time without a step after which a run is considered hung. Must be at least 15 seconds,
    because runs are checked every 15 seconds and a garbage collection or a slow read can take
    several seconds. If not set, the longest of these is used: five times the median step, twice the
    longest pause, or 2 minutes."""
