"""Who moves so that somebody starts for whom there is room, but not in one piece."""

import math
from typing import NamedTuple

from gpu_core.decisions.model.cluster import Placement
from gpu_core.decisions.model.units import epoch_s
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI, Shape
from gpu_core.decisions.placement.consolidation import Movable, propose_moves
from gpu_core.decisions.scheduling.plan_builder import PlanBuilder
from gpu_core.decisions.scheduling.preemption_cost import Candidates, PreemptionCandidate
from gpu_core.decisions.scheduling.queue import QueueEntry, WorkloadGroup
from gpu_core.decisions.scheduling.reservations import amount_of


class Mover(NamedTuple):
    """Who leaves its place, and where it has another."""

    candidate: PreemptionCandidate
    to: Placement


def movers_for(draft: PlanBuilder, kind: WorkloadGroup, entry: QueueEntry) -> list[Mover]:
    """Who should move for it? Nobody, if the policy or the moment is against it.

    While somebody is leaving nobody moves: what that frees may be enough. A new place is on a node
    that nothing is reserved on and the calendar leaves open.
    """
    policy, shape = draft.policy.placement.consolidation, kind.shape
    waited_s = draft.now_s - epoch_s(entry.workload.submitted_at)
    if not policy.enabled or draft.leaving or not shape.gpu_count or waited_s <= policy.waiting_s:
        return []
    candidates = Candidates(draft.facts.holdings, draft.policy, draft.now_s)
    movable = [
        _movable(candidate)
        for candidate in candidates.values()
        if _may_move(candidate, kind, draft.now_s)
        and policy.min_gain * candidate.holding.gpu_milli <= shape.total_gpu_milli
    ]
    room, allows = draft.facts.soon.room, draft.allows_waiting(kind, entry)
    open_flavors = draft.facts.soon.entitlements.allowance(kind.team, shape).open

    def may_use(node: str) -> bool:
        return room[node].node.flavor in open_flavors and (allows is None or allows(node))

    def may_host(mover: Shape, node: str) -> bool:
        return draft.reservations.is_open(
            node, None, draft.now_s, math.inf
        ) and draft.reservations.allows(node, amount_of(mover), math.inf)

    moves = propose_moves(
        room, shape, movable, policy.max_moves, may_use=may_use, may_host=may_host
    )
    movers = [Mover(candidates[move.workload_id], move.to) for move in moves or ()]
    moved_milli = sum(mover.candidate.holding.gpu_milli for mover in movers)
    return movers if policy.min_gain * moved_milli <= shape.total_gpu_milli else []


def _may_move(candidate: PreemptionCandidate, kind: WorkloadGroup, now_s: float) -> bool:
    holding = candidate.holding
    return (
        holding.allocation.checkpointed_at is not None
        and candidate.holding.protected_until_s <= now_s
        and holding.workload.priority <= kind.priority
    )


def _movable(candidate: PreemptionCandidate) -> Movable:
    return Movable(
        workload_id=candidate.workload_id,
        shape=candidate.holding.shape,
        placement=candidate.holding.allocation.placement,
        lost_gpu_s=candidate.lost_milli_gpu_s / WHOLE_GPU_MILLI,
    )
