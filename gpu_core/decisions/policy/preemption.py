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
    RESUMABLE = "resumable"
    """As `lower-priority`. If that is not enough, of runs of the same priority on one node that
    come later in the order and have shown that they resume from their checkpoints."""


class PreemptionPolicy(Section):
    """Settings that control whether and how a run can preempt other runs."""

    enabled: bool = True
    """Whether to enable preemption. Note that `placement.consolidation` can move runs even if
    preemption is disabled."""
    takes_from: TakesFrom = Field(default=TakesFrom.LOWER_PRIORITY, strict=False)
    """Which runs can be preempted. `lower-priority` selects runs with a lower priority, starting
    with the runs that lose the least work. `later-in-order` selects runs that are later in the
    order, starting with the last one. `resumable` works like `lower-priority`. If that is not
    enough, it selects runs with the same priority that are later in the order, starting with the
    last one. These runs use one node, and earlier runs of their deployment have resumed from
    complete checkpoints."""
    grace_period_s: Duration = Field(default=30, alias="grace_period")
    """The time between the notice and the moment at which the processes of the run are killed."""
    min_runtime_s: Duration = Field(default=60, alias="min_runtime")
    """How long an attempt is protected from preemption after it starts. Can be overridden by the
    run."""
    # Off: it lets urgent runs wait. Without it a run that has not repaid is preempted only where
    # all others lose more.
    max_protection_s: Duration = Field(default=0, alias="max_protection")
    """The maximum time after the start of an attempt for which a previously preempted run is
    protected. Protection ends earlier if the run has worked for as long as its preemptions have
    cost. The cost includes the lost work and the time until the run resumed. If set to `0`, runs
    are only protected by `min_runtime`."""
    spare_gpus: Annotated[int, Field(ge=0, le=100_000)] = 0
    """The number of GPUs of each type and capacity type that runs below the highest priority leave
    free. This allows a run with the highest priority to start without preemption. The setting does
    not apply to runs that fill their nodes with several GPUs, or that could not leave these GPUs
    free in an empty pool."""


def preemption_contradictions(
    preemption: PreemptionPolicy, ordering: OrderingPolicy
) -> list[InvalidInput]:
    """Does the order start runs that preemption then takes GPUs from?

    Returns:
        An error if it does, with field paths from `ordering` on; none: both can be used together.
    """
    if not preemption.enabled:
        return []
    compared = (
        [] if preemption.takes_from is TakesFrom.LOWER_PRIORITY else _compared_by_share(ordering)
    )
    if preemption.takes_from is TakesFrom.LATER_IN_ORDER:
        return compared
    if ordering.keys and ordering.keys[0] is OrderKey.PRIORITY:
        return compared
    remedy = "set preemption.enabled to false or preemption.takes_from to later-in-order"
    first = "add priority as the first key"
    if OrderKey.PRIORITY in ordering.keys:
        first = "put priority first"
    return [
        InvalidInput(
            "ordering.keys",
            (
                "starts runs that are preempted in the next cycle, because preemption is based "
                "on priority"
            ),
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
            "starts runs that are preempted in the next cycle, because preemption by order "
            "does not compare shares",
            got=", ".join(ordering.keys),
            remedy="put fair-share after the other keys, or set preemption.enabled to false",
        )
    ]
