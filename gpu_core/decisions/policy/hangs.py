"""Policy section `hangs`: what happens to runs that make no progress."""

from typing import Literal

from pydantic import Field

from gpu_core.decisions.model.section import PositiveDuration, Section

HangAction = Literal["off", "name", "restart"]


class HangPolicy(Section):
    """When a run that reports its steps counts as hung, and what follows."""

    action: HangAction = "name"
    """`off`: nothing. `name`: its page says which rank hangs, where and how. `restart`: the attempt
    also ends as `Hung`, which counts towards `max_failures`, and the next one resumes elsewhere."""
    stuck_after_s: PositiveDuration | None = Field(default=None, alias="stuck_after")
    """The time without a step after which a run is hung. None: derived from its own steps: five
    median steps, twice its longest pause, 2 minutes, whichever is the longest."""
