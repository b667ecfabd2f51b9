"""Policy section `preemption`: whether and how a run takes GPUs from running ones."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.section import Duration, Section
from gpu_core.decisions.policy.ordering import OrderingPolicy, OrderKey


class TakesFrom(StrEnum):
    """The GPUs that may be taken."""

    LOWER_PRIORITY = "lower-priority"
    """Of runs of lower priority, those first that lose the least work."""
    LATER_IN_ORDER = "later-in-order"
    """Of runs that come later in the order, the last ones first."""


class PreemptionPolicy(Section):
    """Whether and how a run preempts others."""

    enabled: bool = True
    """Whether runs are preempted at all. `placement.consolidation` moves runs also where this is
    false."""
    takes_from: TakesFrom = Field(default=TakesFrom.LOWER_PRIORITY, strict=False)
    """`lower-priority`: from runs of lower priority, those first that lose the least work.
    `later-in-order`: from runs that come later in the order, the last ones first."""
    grace_period_s: Duration = Field(default=30, alias="grace_period")
    """The time from the notice until the processes of the run are killed."""
    min_runtime_s: Duration = Field(default=60, alias="min_runtime")
    """How long an attempt is protected from preemption after it begins, unless its run says
    otherwise."""
    # Off: it lets urgent runs wait. Without it a run that has not repaid is preempted only where
    # all others lose more.
    max_protection_s: Duration = Field(default=0, alias="max_protection")
    """A run that was preempted is not preempted again before it has worked as long as its
    preemptions have cost it, but no longer than this after the attempt begins. They cost the work
    that was lost, and the time until it resumed. `0`: only `min_runtime` protects."""
    spare_gpus: Annotated[int, Field(ge=0, le=100_000)] = 0
    """GPUs of each type and capacity type that runs below the highest priority leave free, so that
    one of the highest starts without a preemption. A run leaves none that fills its nodes with
    several GPUs, or that could not leave them in an empty pool."""


def preemption_contradictions(
    preemption: PreemptionPolicy, ordering: OrderingPolicy
) -> list[InvalidInput]:
    """Does the order start runs that preemption then takes GPUs from?

    Returns:
        An error if it does, with field paths from `ordering` on; none: both can be used together.
    """
    if not preemption.enabled:
        return []
    if preemption.takes_from is TakesFrom.LATER_IN_ORDER:
        return _compared_by_share(ordering)
    if ordering.keys and ordering.keys[0] is OrderKey.PRIORITY:
        return []
    remedy = "set preemption.enabled to false or preemption.takes_from to later-in-order"
    first = "add priority as the first key"
    if OrderKey.PRIORITY in ordering.keys:
        first = "put priority first"
    return [
        InvalidInput(
            "ordering.keys",
            "starts runs that are preempted in the next cycle, as preemption is by priority",
            got=", ".join(ordering.keys) or "no key",
            remedy=f"{first}, or {remedy}",
        )
    ]


def _compared_by_share(ordering: OrderingPolicy) -> list[InvalidInput]:
    """Shares change while a run holds GPUs, so that preemption by order does not read them."""
    keys = [key for key in ordering.keys if key is not OrderKey.SUBMITTED]
    if OrderKey.FAIR_SHARE not in keys or keys[-1] is OrderKey.FAIR_SHARE:
        return []
    return [
        InvalidInput(
            "ordering.keys",
            "starts runs that are preempted in the next cycle, as preemption by order does not "
            "compare shares",
            got=", ".join(ordering.keys),
            remedy="put fair-share after the other keys, or set preemption.enabled to false",
        )
    ]
