"""When is which part of a node released, as this plan has it so far?"""

from collections.abc import Iterable, Mapping, Sequence

from gpu_core.decisions.scheduling.reservations.reservations import Amount
from gpu_core.decisions.scheduling.state.allocations import Release, SharedUse
from gpu_core.decisions.scheduling.state.cluster_state import SchedulerState


class ExpectedReleases:
    """What reservations are made of. Does not know the plan, which knows it.

    Args:
        state: The scheduler state.
        draining: Draining workloads, with their deadline; the plan adds those that it preempts.
        now_s: The time of the plan.
    """

    def __init__(
        self, state: SchedulerState, draining: Mapping[str, float | None], now_s: float
    ) -> None:
        self._state = state
        self._draining = draining
        self._now_s = now_s
        # Of a cycle in which thousands wait, each node is asked about hundreds of times.
        self._known: dict[str, Sequence[Release]] = {}
        self._started: dict[str, list[SharedUse]] = {}

    def free_after_draining(self, node: str) -> Amount:
        """The part of a node that is free after draining, and not assigned."""
        cluster = self._state.after_draining.cluster[node]
        return Amount(cluster.free_gpus, cluster.cpu_milli_left, cluster.memory_mib_left)

    def of(self, node: str) -> Sequence[Release]:
        """The expected releases of the node, in order of time."""
        known = self._known.get(node)
        if known is None:
            known = self._state.holdings.releases(
                node, self._now_s, self._draining, self._started.get(node, ())
            )
            self._known[node] = known
        return known

    def start_shared(self, node: str, uses: Iterable[SharedUse]) -> None:
        """A workload that the plan starts shares GPUs of this node."""
        self._started.setdefault(node, []).extend(uses)
        self.forget(node)

    def forget(self, node: str) -> None:
        """What the node releases has changed."""
        self._known.pop(node, None)
