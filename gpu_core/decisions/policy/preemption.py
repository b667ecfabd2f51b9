"""Policy section `preemption`: whether and how a run takes GPUs from running ones."""

from enum import StrEnum

from pydantic import Field

from gpu_core.decisions.model.section import Duration, Section


class TakesFrom(StrEnum):
    """Whose GPUs may be taken."""

    LOWER_PRIORITY = "lower-priority"
    """Of runs of lower priority, those first that lose the least work."""
    LATER_IN_ORDER = "later-in-order"
    """Of runs that come later in the order, the last ones first."""


class PreemptionPolicy(Section):
    """Whether and how a run preempts others."""

    enabled: bool = True
    """Whether runs are preempted at all."""
    takes_from: TakesFrom = Field(default=TakesFrom.LOWER_PRIORITY, strict=False)
    """`lower-priority`: from runs of lower priority, those first that lose the least work.
    `later-in-order`: from runs that come later in the order, the last ones first."""
    grace_period_s: Duration = Field(default=30, alias="grace_period")
    """The time from the notice until the processes of the run are killed."""
    min_runtime_s: Duration = Field(default=60, alias="min_runtime")
    """How long an attempt is protected from preemption after it begins, unless its run says
    otherwise."""
