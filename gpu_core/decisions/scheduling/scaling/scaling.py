"""The nodes that should be added or removed after a plan."""

from datetime import datetime

from gpu_core.decisions.model.cluster import Snapshot
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.scheduling.plan.plan import Admit, Plan, ScaleHint
from gpu_core.decisions.scheduling.reservations.calendar import scheduled_nodes
from gpu_core.decisions.scheduling.scaling.scale_hints import ScaleState, scale_hints

_NOT_FOR_GPUS = frozenset(
    {
        Reason.INTERNAL_ERROR,
        Reason.UNKNOWN_QUEUE,
        Reason.AMBIGUOUS_COMMAND,
        Reason.NOT_PERMITTED,
        Reason.QUEUE_FULL,
        Reason.EXPIRED,
        Reason.DEPLOYMENT_LIMIT,
        Reason.POOL_PAUSED,
        Reason.QUEUE_PAUSED,
        Reason.POOL_LIMIT,
        Reason.QUEUE_LIMIT,
        Reason.EXCEEDS_QUOTA,
        Reason.HELD,
        Reason.BUDGET_EXCEEDED,
        Reason.WAITING_FOR_SPOT,
        Reason.WAITING_FOR_CLUSTER_QUOTA,
        Reason.WAITING_FOR_PLATFORM,
        Reason.PREVIOUS_ATTEMPT_ENDING,
        Reason.WAITING_FOR_VICTIMS,
        Reason.USER_LIMIT,
        Reason.WAITING_FOR_QUOTA,
    }
)


def plan_scale(
    snapshot: Snapshot, plan: Plan, policy: Policy, now: datetime
) -> tuple[ScaleHint, ...]:
    """The nodes that should be added for pending workloads, and those that should be removed.

    Args:
        snapshot: The input of the plan.
        plan: The plan: nodes that it uses stay, workloads that it starts are not pending.
        policy: What can be provisioned, thresholds, the cap, and the calendar.
        now: The time of the plan, aware.
    """
    by_id = {workload.workload_id: workload for workload in snapshot.pending}
    waiting = [e for e in plan.explanations if e.reason is not Reason.STARTING]
    used = {
        share.node
        for command in plan.commands
        if isinstance(command, Admit)
        for share in command.placement.shares
    }
    state = ScaleState(
        nodes=snapshot.nodes,
        allocations=snapshot.allocations,
        pending=tuple(by_id[e.workload_id] for e in waiting),
        not_for_gpus=frozenset(e.workload_id for e in waiting if e.reason in _NOT_FOR_GPUS),
        kept_nodes=frozenset(used),
        idle_since=snapshot.idle_since,
        scheduled_nodes=scheduled_nodes(policy.calendar, now),
    )
    return scale_hints(state, policy.scale, now)
