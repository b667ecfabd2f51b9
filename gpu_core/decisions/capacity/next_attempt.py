"""What the next attempt of a run asks for, after what became of its earlier ones."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from gpu_core.decisions.accounting import Attempt, EndReason
from gpu_core.decisions.capacity.decide import decide
from gpu_core.decisions.capacity.elsewhere import avoided_nodes
from gpu_core.decisions.capacity.lives import SpotRecord
from gpu_core.decisions.capacity.state import Capacity, CapacityState
from gpu_core.decisions.cluster import Node
from gpu_core.decisions.placement.feasibility import never_fits
from gpu_core.decisions.policy import Policy
from gpu_core.decisions.workload import RunTimeSource, Workload

# Every second at least; a minute covers a worker that is slow or starts anew.
_LOOK_S = 60.0

_CRITICAL = "critical"


def next_attempt(
    workload: Workload,
    attempts: Sequence[Attempt],
    nodes: Sequence[Node],
    policy: Policy,
    now: datetime,
) -> Workload:
    """Which nodes does the workload leave alone, and must it be on-demand?

    On-demand only where the run itself left its capacity open and there are such nodes for it: a
    run is never kept waiting for capacity that does not exist.

    Args:
        workload: With its run time and what is left of it, as far as they are known.
        attempts: All attempts of the run so far, by number.
        nodes: Where it could go.
        policy: Of the pool.
        now: Aware.
    """
    if attempts:
        avoided = avoided_nodes(attempts, nodes, policy.capacity, now)
        if avoided:
            workload = replace(workload, avoided_nodes=avoided)
    if workload.capacity_type is not None or not workload.gpu_count:
        return workload
    if not (_spot_keeps_failing(attempts, policy) or _deadline_asks(workload, nodes, policy, now)):
        return workload
    steady = replace(workload, capacity_type="on-demand")
    return workload if never_fits(steady.shape, nodes) else steady


def spot_interruptions(attempts: Iterable[Attempt]) -> int:
    """How often was the run interrupted on spot, without another end there since?

    What it did on other capacity in between does not make spot any better.
    """
    count = 0
    for attempt in attempts:
        if attempt.capacity_type == "spot" and attempt.released_at is not None:
            count = count + 1 if attempt.end_reason is EndReason.INTERRUPTED else 0
    return count


def _spot_keeps_failing(attempts: Sequence[Attempt], policy: Policy) -> bool:
    most = policy.capacity.max_spot_interruptions
    return most is not None and spot_interruptions(attempts) >= most


def _deadline_asks(
    workload: Workload, nodes: Iterable[Node], policy: Policy, now: datetime
) -> bool:
    """Does the rule for deadlines say that it should not be on spot now?"""
    state = _state(workload, nodes, policy, now)
    return state is not None and decide(state, policy.capacity).capacity is Capacity.ON_DEMAND


def _state(
    workload: Workload, nodes: Iterable[Node], policy: Policy, now: datetime
) -> CapacityState | None:
    """None: it has no deadline, or nobody knows how long it takes."""
    estimate = workload.run_time
    if workload.deadline_at is None or estimate is None or estimate.source is RunTimeSource.LIMIT:
        return None
    # With a deadline that is to hold, the time that it stays under counts, not the usual one.
    left_s = estimate.upper_s if workload.remaining_s is None else workload.remaining_s
    wanted = [node for node in nodes if _may_use(workload, node)]
    return CapacityState(
        work_s=max(estimate.upper_s, left_s),
        remaining_work_s=left_s,
        elapsed_s=(now - workload.submitted_at).total_seconds(),
        time_left_s=(workload.deadline_at - now).total_seconds(),
        changeover_s=policy.capacity.changeover_s,
        look_s=_LOOK_S,
        current=Capacity.IDLE,
        spot=SpotRecord(is_up=any(node.capacity_type == "spot" for node in wanted)),
        spot_micro_usd_per_hour=_price(workload, wanted, "spot", policy),
        on_demand_micro_usd_per_hour=_price(workload, wanted, "on-demand", policy),
        is_critical=workload.queue == _CRITICAL,
    )


def _may_use(workload: Workload, node: Node) -> bool:
    is_wanted = not workload.gpu_types or node.gpu_type in workload.gpu_types
    return is_wanted and node.name not in workload.avoided_nodes


def _price(
    workload: Workload, nodes: Sequence[Node], capacity_type: str, policy: Policy
) -> int | None:
    """The least that all of it costs an hour on capacity of this type; None: unknown."""
    types = {node.gpu_type for node in nodes if node.capacity_type == capacity_type}
    prices = [policy.price_micro_usd_per_gpu_hour(name, capacity_type) for name in types]
    known = [price for price in prices if price is not None]
    return min(known) * workload.total_gpus if known else None
