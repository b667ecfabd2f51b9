"""Policy section `hangs`: what happens to runs that make no progress."""

from typing import Annotated, Literal

from pydantic import Field

from gpu_core.decisions.model.section import Duration, Section

HangAction = Literal["off", "name", "restart"]


class HangPolicy(Section):
    """The conditions in which a run that reports its steps counts as hung, and the action."""

    action: HangAction = "name"
    """`off`: nothing. `name`: its page says which rank hangs, where and how. `restart`: the attempt
    also ends as `Hung`, which counts towards `max_failures`, and the next one resumes elsewhere."""
    stuck_after_s: Annotated[Duration, Field(ge=15)] | None = Field(
        default=None, alias="stuck_after"
    )
    """The time without a step after which a run is hung, 15 s at least. Runs are judged every 15 s,
    and a garbage collection or a slow read takes some seconds. None: derived from its steps: five
    median steps, twice its longest pause, 2 minutes, whichever is the longest."""
