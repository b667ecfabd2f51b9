"""Victims by the order of the queue: runs of a pool take turns, as with least attained service."""

from collections.abc import Callable

from gpu_core.decisions.model.units import epoch_s
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI
from gpu_core.decisions.scheduling.eviction.cost import Candidates, PreemptionCandidate
from gpu_core.decisions.scheduling.eviction.nodes_without import NodesWithout
from gpu_core.decisions.scheduling.queue.ordering import Key
from gpu_core.decisions.scheduling.queue.queue import QueueEntry, WorkloadGroup
from gpu_core.decisions.scheduling.state.allocations import Holding
from gpu_core.decisions.scheduling.state.cluster_state import SchedulerState


class LaterInOrder:
    """Chooses the victims that come last in the order, in one cycle.

    Args:
        state: The scheduler state.
        candidates: The workloads that may be preempted, by id.
        now_s: The cycle's moment.
    """

    def __init__(
        self,
        state: SchedulerState,
        candidates: Candidates,
        now_s: float,
    ) -> None:
        self._state = state
        self._cluster = state.after_draining.cluster
        self._entitlements = state.after_draining.entitlements
        self._candidates = candidates
        self._now_s = now_s
        self._last_in_order: list[tuple[Key, Holding]] | None = None

    def victims(
        self,
        group: WorkloadGroup,
        entry: QueueEntry,
        allows: Callable[[str], bool] | None,
    ) -> list[PreemptionCandidate]:
        """The last workloads in the order that free enough for this one; none: they do not."""
        order = self._state.order
        own = order.policy_part(self._key_of_preemptor(entry))
        chosen: list[PreemptionCandidate] = []
        freed = NodesWithout(self._cluster, group.shape, allows)
        for key, holding in self._running_last_first():
            if key <= own:
                return []
            if not self._may_follow(group, holding):
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
