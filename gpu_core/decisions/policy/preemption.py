"""Whether and how GPUs are taken from those who run."""

from enum import StrEnum

from pydantic import Field

from gpu_core.decisions.model.section import Duration, Section


class TakesFrom(StrEnum):
    """Whose GPUs may be taken."""

    LOWER_PRIORITY = "lower-priority"
    """Of those with less priority, from whoever loses the least work."""
    LATER_IN_ORDER = "later-in-order"
    """Of those who would come later in the order if they stood in line, from the last ones."""


class PreemptionPolicy(Section):
    """Whether and how urgent runs take GPUs from less urgent ones."""

    enabled: bool = True
    takes_from: TakesFrom = Field(default=TakesFrom.LOWER_PRIORITY, strict=False)
    grace_period_s: Duration = Field(default=30, alias="grace_period")
    """From the notice until the run's processes are killed."""
    min_runtime_s: Duration = Field(default=60, alias="min_runtime")
    """How long an attempt is left alone once it has begun, unless its run says otherwise."""
