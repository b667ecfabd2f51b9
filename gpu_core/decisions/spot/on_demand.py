"""Can a workload that waits for on-demand still expect some in time?"""

from datetime import datetime, timedelta

from gpu_core.decisions.model.cluster import ON_DEMAND, Allocation
from gpu_core.decisions.model.workload import Workload
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.policy.preemption import TakesFrom
from gpu_core.decisions.spot.capacity_view import LOOK_S, CapacityView

_LOOK = timedelta(seconds=LOOK_S)


def can_expect_on_demand(
    workload: Workload, view: CapacityView, waited_s: float, needed_by: datetime
) -> bool:
    """Does it still make sense to wait for on-demand?

    For a whole look: a plan in that time admits it or preempts others for it, if either can be.
    Longer while GPUs are being freed for it, and while those it can preempt are protected only
    until on-demand would still meet its deadline.

    Args:
        waited_s: For how long it has asked, 0 or more.
        needed_by: On-demand that starts later misses its deadline.
    """
    if waited_s < LOOK_S:
        return True
    if any(held.draining_for == workload.workload_id for held in view.allocations):
        return True
    return _can_preempt_by(workload, view, needed_by)


def _can_preempt_by(workload: Workload, view: CapacityView, needed_by: datetime) -> bool:
    """Will the end of starts and minimum run times let it preempt others in time?

    With quotas, or where the order decides, only the plan knows whom it may preempt.
    """
    policy = view.policy.preemption
    is_by_order = policy.takes_from is TakesFrom.LATER_IN_ORDER or view.policy.quotas is not None
    if not policy.enabled or is_by_order:
        return False

    def may_be_preempted(held: Allocation) -> bool:
        is_lower = held.workload.is_preemptible and held.workload.priority < workload.priority
        return is_lower and not held.is_draining and held.protected_until + _LOOK <= needed_by

    victims = [held for held in view.allocations if may_be_preempted(held)]
    if all(held.protected_until + _LOOK <= view.now for held in victims):
        return False  # a plan has had the time to preempt them
    room, gone = ClusterInfo(view.nodes), {held.workload.workload_id for held in victims}
    for held in view.allocations:
        if held.workload.workload_id not in gone:
            room.observe(held.workload.shape, held.placement)
    shape = workload.shape._replace(capacity_type=ON_DEMAND)
    avoided = workload.shape.avoided_nodes
    return room.find(shape, allows=lambda name: name not in avoided) is not None
