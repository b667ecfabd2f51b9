"""The workloads that move so that a larger one fits into fragmented free GPUs."""

import math
from typing import NamedTuple

from gpu_core.decisions.model.cluster import Placement
from gpu_core.decisions.model.units import epoch_s
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI, Shape
from gpu_core.decisions.placement.workloads_to_move import Movable, propose_moves
from gpu_core.decisions.scheduling.cycle.plan_builder import PlanBuilder
from gpu_core.decisions.scheduling.eviction.cost import Candidates, PreemptionCandidate
from gpu_core.decisions.scheduling.queue.queue import QueueEntry, WorkloadGroup
from gpu_core.decisions.scheduling.reservations.reservations import amount_of


class Mover(NamedTuple):
    """A workload to move, and its new placement."""

    candidate: PreemptionCandidate
    to: Placement


def movers_for(builder: PlanBuilder, group: WorkloadGroup, entry: QueueEntry) -> list[Mover]:
    """The workloads that should move for it. Empty where the policy forbids it.

    While a workload drains none moves: its GPUs may be enough. A new placement is on nodes that
    are neither reserved nor kept for others, and that the calendar leaves open.
    """
    policy, shape = builder.policy.placement.consolidation, group.shape
    waited_s = builder.now_s - epoch_s(entry.workload.submitted_at)
    if (
        not policy.enabled
        or builder.draining
        or not shape.gpu_count
        or waited_s <= policy.waiting_s
    ):
        return []
    candidates = Candidates(builder.state.holdings, builder.policy, builder.now_s)
    movable = [
        _movable(candidate)
        for candidate in candidates.values()
        if _may_move(candidate, group, builder.now_s)
        and policy.min_gain * candidate.holding.gpu_milli <= shape.total_gpu_milli
    ]
    cluster, allows = builder.state.after_draining.cluster, builder.allows(group, entry)
    open_flavors = builder.state.after_draining.entitlements.allowance(group.team, shape).open

    def may_use(node: str) -> bool:
        return cluster[node].node.flavor in open_flavors and (allows is None or allows(node))

    def may_host(mover: Shape, node: str) -> bool:
        reservations = builder.reservations
        return (
            node not in builder.kept
            and reservations.is_open(node, None, builder.now_s, math.inf)
            and reservations.allows(node, amount_of(mover), math.inf)
        )

    moves = propose_moves(
        cluster, shape, movable, policy.max_moves, may_use=may_use, may_host=may_host
    )
    movers = [Mover(candidates[move.workload_id], move.to) for move in moves or ()]
    moved_milli = sum(mover.candidate.holding.gpu_milli for mover in movers)
    return movers if policy.min_gain * moved_milli <= shape.total_gpu_milli else []


def _may_move(candidate: PreemptionCandidate, group: WorkloadGroup, now_s: float) -> bool:
    holding = candidate.holding
    return (
        holding.allocation.checkpointed_at is not None
        and candidate.holding.protected_until_s <= now_s
        and holding.workload.priority <= group.priority
    )


def _movable(candidate: PreemptionCandidate) -> Movable:
    return Movable(
        workload_id=candidate.workload_id,
        shape=candidate.holding.shape,
        placement=candidate.holding.allocation.placement,
        lost_gpu_s=candidate.lost_milli_gpu_s / WHOLE_GPU_MILLI,
    )
