"""Policy section `ordering`: by which keys pending workloads are sorted."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from gpu_core.decisions.model.errors import InvalidInput, listed, nearest_name
from gpu_core.decisions.model.pydantic_errors import parsed_by
from gpu_core.decisions.model.section import PositiveDuration, Section
from gpu_core.decisions.model.units import SECONDS_PER_HOUR


class OrderKey(StrEnum):
    """By what workloads are compared. The first key in which two differ decides."""

    PRIORITY = "priority"
    """More points first; with `aging_points_per_hour` the points grow while a workload waits."""
    FAIR_SHARE = "fair-share"
    """The team, and inside it the user, with the least of its share."""
    DEADLINE_SLACK = "deadline-slack"
    """The least time left to wait before the deadline is missed; without a deadline, last."""
    SHORTEST_JOB = "shortest-job"
    """The shortest run time; unknown ones last."""
    SHORTEST_REMAINING_TIME = "shortest-remaining-time"
    """The least run time left; unknown ones last."""
    SHORTEST_REMAINING_SERVICE = "shortest-remaining-service"
    """The least GPU-seconds left (run time × GPUs); unknown ones last."""
    LEAST_ATTAINED_SERVICE = "least-attained-service"
    """The least GPU-seconds had so far, by doubling levels: needs no run times (Tiresias, Gu et
    al., NSDI 2019, whose two-dimensional attained service and discrete queues it takes)."""
    MOST_GPUS = "most-gpus"
    """The most GPUs first, over all nodes: large gangs are the hardest to make room for. After
    `least-attained-service`, which counts against them that they attain it faster than others."""
    SUBMITTED = "submitted"
    """First come, first served."""


def _order_key(value: object, field: str) -> OrderKey:
    names = [key.value for key in OrderKey]
    if not isinstance(value, str) or value not in names:
        raise InvalidInput(
            field,
            "is not one of the choices",
            got=value,
            allowed=listed(names),
            nearest=nearest_name(value, names) if isinstance(value, str) else None,
        )
    return OrderKey(value)


def _keys(value: object, field: str) -> tuple[object, ...]:
    if not isinstance(value, list | tuple):
        allowed = f"a list of {listed(key.value for key in OrderKey)}"
        remedy = f"write [{value}]" if isinstance(value, OrderKey | str) else None
        raise InvalidInput(field, "is not a list", got=value, allowed=allowed, remedy=remedy)
    names = [name for name in value if isinstance(name, str)]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        remedy = f"leave {twice[0]} only where it comes first"
        raise InvalidInput(field, "names a key twice", got=", ".join(names), remedy=remedy)
    return tuple(value)


class OrderingPolicy(Section):
    """Settings that control the order in which waiting runs are considered."""

    keys: Annotated[tuple[Annotated[OrderKey, parsed_by(_order_key)], ...], parsed_by(_keys)] = (
        OrderKey.PRIORITY,
        OrderKey.SUBMITTED,
    )
    """The keys by which waiting runs are sorted. Later keys are only used to break ties. The
    submission time and the id are always the last two keys."""
    aging_points_per_hour: Annotated[float, Field(ge=0, le=1_000_000)] = 0.0
    """The number of points that a run gains for each hour of waiting. These points can move the run
    forward in the queue, but they never allow it to preempt another run."""
    starvation_after_s: PositiveDuration | None = Field(default=None, alias="starvation_after")
    """The waiting time after which a run moves to the front of the queue. If several runs have
    waited this long, the oldest is first. If not set, runs never move to the front because of their
    waiting time."""
    service_quantum_gpu_s: Annotated[int, Field(ge=1)] = SECONDS_PER_HOUR
    """The length of the first level of `least-attained-service`, in GPU-seconds. Each level is
    twice as long as the previous one."""
    service_levels: Annotated[int, Field(ge=1)] | None = None
    """The number of levels of `least-attained-service`, as in a multilevel feedback queue. The last
    level has no upper bound, and the runs in this level are sorted by the next key. If not set, the
    number of levels is not limited."""


_SHORTEST_STARVATION_S = 60
"""A few cycles of a worker, which reads its queue every 10 s by Prefect's default: a run that waits
for one cycle only would count as starving, and the keys would not matter."""


def ordering_contradictions(ordering: OrderingPolicy, grace_period_s: int) -> list[InvalidInput]:
    """Does every workload starve before it could start?

    Args:
        ordering: The order.
        grace_period_s: How long a preemptor waits for its victims at least.
    """
    starves_s = ordering.starvation_after_s
    shortest_s = max(_SHORTEST_STARVATION_S, grace_period_s)
    if starves_s is None or starves_s >= shortest_s:
        return []
    return [
        InvalidInput(
            "ordering.starvation_after",
            (
                "is too short, so every run would be considered starved and the ordering keys "
                "ignored"
            ),
            got=f"{starves_s} s",
            allowed=f"at least {shortest_s} s, and no less than preemption.grace_period",
        )
    ]
