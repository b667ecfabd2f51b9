"""The nodes without some holdings, and whether a shape fits there."""

from collections.abc import Callable

from gpu_core.decisions.model.cluster import Flavor
from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.placement.node_info import NodeInfo
from gpu_core.decisions.scheduling.eviction.victims import release_holding
from gpu_core.decisions.scheduling.state.allocations import Holding


class NodesWithout:
    """Counts where a shape fits as holdings go and come back.

    Only nodes that have room now, and those of the holdings, are looked at: most preemptors meet
    a pool that is full.

    Args:
        cluster: The nodes with all holdings; not changed, and not to be changed meanwhile.
        shape: The shape to place.
        allows: Which nodes it may use; None: all.
    """

    def __init__(
        self, cluster: ClusterInfo, shape: Shape, allows: Callable[[str], bool] | None
    ) -> None:
        self._shape = shape
        self._cluster = cluster
        self._allows = allows
        self._groups = cluster.groups(shape)
        self._group_of = cluster.group_numbers(shape)
        self._without: dict[str, NodeInfo] = {}
        self._fitting: list[set[str]] = [set() for _ in self._groups]
        for node in cluster.with_room(shape):
            if self._may_use(node):
                self._fitting[self._group_of[node]].add(node)

    def fits(self, flavors: frozenset[Flavor] | None = None) -> bool:
        """Does the shape fit on GPUs of one of these flavors? None: of any."""
        return any(
            len(nodes) >= self._shape.nodes
            for group, nodes in zip(self._groups, self._fitting, strict=True)
            if flavors is None or group.flavor in flavors
        )

    def add(self, holding: Holding) -> bool:
        """Removes one more holding. False: it is on none of the nodes."""
        shares = holding.allocation.placement.shares
        nodes = [share.node for share in shares if self._may_use(share.node)]
        for node in nodes:
            if node not in self._without:
                self._without[node] = self._cluster[node].copy()
            release_holding(self._without[node], holding)
            self._update(node)
        return bool(nodes)

    def remove(self, holding: Holding) -> None:
        """Puts a holding back."""
        for share in holding.allocation.placement.shares:
            if share.node in self._without:
                self._without[share.node].observe(holding.shape, share)
                self._update(share.node)

    def _may_use(self, node: str) -> bool:
        return node in self._group_of and (self._allows is None or self._allows(node))

    def _update(self, node: str) -> None:
        fitting = self._fitting[self._group_of[node]]
        (fitting.add if self._without[node].has_left(self._shape) else fitting.discard)(node)
