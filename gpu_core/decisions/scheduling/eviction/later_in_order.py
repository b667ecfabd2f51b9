"""Victims by the order of the queue: runs of a pool take turns, as with least attained service."""

from collections.abc import Callable

from gpu_core.decisions.model.cluster import Allocation
from gpu_core.decisions.model.units import epoch_s
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI
from gpu_core.decisions.policy.preemption import PreemptionPolicy
from gpu_core.decisions.scheduling.eviction.cost import Candidates, PreemptionCandidate
from gpu_core.decisions.scheduling.eviction.nodes_without import NodesWithout
from gpu_core.decisions.scheduling.queue.ordering import Key
from gpu_core.decisions.scheduling.queue.queue import QueueEntry, WorkloadGroup
from gpu_core.decisions.scheduling.state.allocations import Holding
from gpu_core.decisions.scheduling.state.cluster_state import SchedulerState

WORKS_FOR_RESTARTS = 10
"""A run gives way to one of its priority once it has worked this many times as long as its restart
takes: restarts then take a tenth of its time on GPUs at most."""


class LaterInOrder:
    """Chooses the victims that come last in the order, in one cycle.

    Args:
        state: The scheduler state.
        candidates: The workloads that may be preempted, by id.
        policy: The rules.
        now_s: The cycle's moment.
    """

    def __init__(
        self,
        state: SchedulerState,
        candidates: Candidates,
        policy: PreemptionPolicy,
        now_s: float,
    ) -> None:
        self._state = state
        self._cluster = state.after_draining.cluster
        self._entitlements = state.after_draining.entitlements
        self._candidates = candidates
        self._policy = policy
        self._now_s = now_s
        self._last_in_order: list[tuple[Key, Holding]] | None = None

    def victims(
        self,
        group: WorkloadGroup,
        entry: QueueEntry,
        allows: Callable[[str], bool] | None,
        *,
        resumable_only: bool = False,
    ) -> list[PreemptionCandidate]:
        """The last workloads in the order that free enough for this one; none: they do not.

        Args:
            resumable_only: Only those of its own priority that have shown that they resume, and
                that have worked for long enough.
        """
        order = self._state.order
        own = order.policy_part(self._key_of_preemptor(entry))
        chosen: list[PreemptionCandidate] = []
        freed = NodesWithout(self._cluster, group.shape, allows)
        for key, holding in self._running_last_first():
            if key <= own:
                return []
            if not self._may_follow(group, holding):
                continue
            if resumable_only and not self._gives_way(group, holding):
                continue
            if freed.add(holding):
                chosen.append(self._candidates[holding.workload_id])
                if self._is_enough(group, freed, chosen):
                    break
        else:
            return []
        # The victim furthest ahead in the order is spared first.
        kept = list(chosen)
        for candidate in reversed(chosen[:-1]):
            freed.remove(candidate.holding)
            others = [other for other in kept if other is not candidate]
            if self._is_enough(group, freed, others):
                kept = others
            else:
                freed.add(candidate.holding)
        return sorted(kept, key=lambda c: c.workload_id)

    def _is_enough(
        self, group: WorkloadGroup, freed: NodesWithout, victims: list[PreemptionCandidate]
    ) -> bool:
        """Does it fit without these, within its quota?"""
        if not self._entitlements.has_quotas:
            return freed.fits()
        with self._entitlements.without([victim.holding for victim in victims]):
            return freed.fits(self._entitlements.allowance(group.team, group.shape).open)

    def _may_follow(self, group: WorkloadGroup, holding: Holding) -> bool:
        if holding.workload_id not in self._candidates:
            return False
        if holding.protected_until_s > self._now_s:
            return False
        if not self._entitlements.has_quotas:
            return True
        return holding.workload.team == group.team

    def _gives_way(self, group: WorkloadGroup, holding: Holding) -> bool:
        """May a run of its own priority take its GPUs, by what it has shown and has worked?"""
        return holding.workload.priority == group.priority and gives_way(
            holding.allocation, self._now_s, self._policy.grace_period_s
        )

    def _running_last_first(self) -> list[tuple[Key, Holding]]:
        if self._last_in_order is None:
            order, now_s = self._state.order, self._now_s
            keyed = []
            for holding in self._candidates.holdings:
                held_s = now_s - holding.admitted_s
                key = order.running_key(
                    holding.workload,
                    holding.submitted_s,
                    held_s * holding.gpu_milli / WHOLE_GPU_MILLI,
                    held_s,
                )
                keyed.append((order.aged_until(key, holding.admitted_s), holding))
            keyed.sort(key=lambda k: k[0], reverse=True)
            self._last_in_order = [(order.policy_part(key), h) for key, h in keyed]
        return self._last_in_order

    def _key_of_preemptor(self, entry: QueueEntry) -> Key:
        """Its key without what it gained by waiting, also where it has waited too long."""
        order, submitted_s = self._state.order, epoch_s(entry.workload.submitted_at)
        return order.aged_until(order.key(entry.workload, submitted_s), submitted_s)


def gives_way(allocation: Allocation, now_s: float, grace_s: float) -> bool:
    """Does a run lose little by giving way, as it has shown?

    Its deployment's runs have resumed from their checkpoints, this attempt has saved one, and it
    saves within the grace period. It has worked `WORKS_FOR_RESTARTS` times as long as its restart
    takes, and longer than all its preemptions have cost it. It is on one node: a gang restarts as a
    whole, and has to wait until several nodes are free again.

    Args:
        allocation: What it holds.
        now_s: The cycle's moment.
        grace_s: How long it may go on after it is asked to end.
    """
    save_s, restart_s = allocation.save_s, allocation.restart_s
    if not allocation.workload.has_resumed or allocation.workload.shape.nodes > 1:
        return False
    if allocation.checkpointed_at is None or save_s is None or save_s > grace_s:
        return False
    if restart_s is None or allocation.is_starting:
        return False
    works_since = allocation.works_since or allocation.began_at or allocation.admitted_at
    worked_s = now_s - epoch_s(works_since)
    return worked_s >= WORKS_FOR_RESTARTS * restart_s and not allocation.unpaid_s(now_s)
