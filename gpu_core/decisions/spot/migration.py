"""Should a workload that runs leave its capacity for the other kind?"""

from collections.abc import Sequence
from dataclasses import replace

from gpu_core.decisions.model.attempts import Attempt
from gpu_core.decisions.model.cluster import ON_DEMAND, SPOT, Allocation
from gpu_core.decisions.spot.capacity_view import CapacityView
from gpu_core.decisions.spot.decide import decide
from gpu_core.decisions.spot.node_avoidance import avoided_nodes, spot_left_alone_until
from gpu_core.decisions.spot.state import Capacity, CapacityDecision, Rule

_CURRENT = {SPOT: Capacity.SPOT, ON_DEMAND: Capacity.ON_DEMAND}
_OTHER = {Capacity.SPOT: SPOT, Capacity.ON_DEMAND: ON_DEMAND}


def capacity_change(
    allocation: Allocation,
    earlier: Sequence[Attempt],
    view: CapacityView,
    budget_left_micro_usd: int | None = None,
) -> CapacityDecision | None:
    """The capacity on which it should continue, if not where it is.

    Only where it keeps checkpoints, may be preempted, has started and had its minimum run time, and
    could begin there at once; with a deadline only if its run time is known. Without one it is
    where the mix put it, if the policy has a target for that. A budget that holds on spot only
    comes before the mix, and before what became of it on spot earlier. No attempt moves only to
    wait.

    Args:
        allocation: What it holds; its owner left the capacity open.
        earlier: Its attempts before this one, by number.
        budget_left_micro_usd: What is left of its budget; None: it has none.

    Returns:
        None: it stays.
    """
    workload, saved_at = allocation.workload, allocation.checkpointed_at
    current = _CURRENT.get(allocation.placement.capacity_type)
    held_s = (view.now - allocation.admitted_at).total_seconds()
    if current is None or allocation.is_draining or not workload.is_preemptible:
        return None
    policy = view.policy.capacity
    is_mixed = workload.deadline_at is None and policy.target_spot_share is not None
    if is_mixed and budget_left_micro_usd is None:
        return None
    changeover_s = view.changeover(workload).loss_s
    avoided = avoided_nodes(earlier, view.nodes, policy, view.now, changeover_s)
    shape = workload.shape._replace(capacity_type=None, avoided_nodes=avoided)
    workload = replace(workload, shape=shape)
    if saved_at is None or view.now < allocation.protected_until:
        # The age of spot counts from when it could have been had, not from when a change may be.
        view.watch_spot(workload, current)
        return None
    works_since = allocation.works_since or allocation.admitted_at
    done_s = max(0.0, (saved_at - works_since).total_seconds())
    state = view.state(workload, current, done_s, held_s, budget_left_micro_usd)
    if state is None:
        return None
    decision = decide(state, policy)
    other = _OTHER.get(decision.capacity)
    if other is None or decision.capacity is current or not view.fits(workload, other):
        return None
    if decision.rule is not Rule.BUDGET_NEEDS_SPOT:
        until = spot_left_alone_until(earlier, policy, view.now, changeover_s)
        if is_mixed or (other == SPOT and until is not None):
            return None
    view.take(workload, other)
    return decision
