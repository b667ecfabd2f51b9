"""The choice of the few workloads that have to move so that another one fits."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpu_core.decisions.model.cluster import Placement
from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.placement.cluster_info import Allows, ClusterInfo

MayHost = Callable[[Shape, str], bool]
"""Returns whether a workload of this shape may move to the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Movable:
    """A workload that may be stopped and started on other nodes."""

    workload_id: str
    shape: Shape
    placement: Placement
    lost_gpu_s: float
    """GPU-seconds of work that it would repeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A workload and its new placement."""

    workload_id: str
    to: Placement
    lost_gpu_s: float


def propose_moves(
    cluster: ClusterInfo,
    shape: Shape,
    movable: Iterable[Movable],
    max_moves: int,
    *,
    may_use: Allows = lambda _: True,
    may_host: MayHost = lambda _, __: True,
) -> tuple[Move, ...] | None:
    """The workloads that have to move so that the shape fits.

    None: more than allowed, or none found.

    It clears the nodes that need the fewest moves, then lose the least work; each moved workload
    gets a placement of the same flavor on other nodes. The search is greedy: it may miss moves that
    a full search finds, and proposes none that fail. Only workloads on one node move.

    Args:
        cluster: The free resources; unchanged afterwards.
        shape: The shape to place.
        movable: The workloads that may move, all allocated in `cluster`.
        max_moves: The largest number of moves.
        may_use: Returns whether the shape may use a node.
        may_host: Returns whether a workload of a shape may move to a node.
    """
    if cluster.find(shape, allows=may_use) is not None:
        return ()
    on_node: dict[str, list[Movable]] = {}
    for mover in sorted(movable, key=lambda m: (m.lost_gpu_s, m.workload_id)):
        if len(mover.placement.shares) == 1:
            on_node.setdefault(mover.placement.shares[0].node, []).append(mover)
    for group in sorted(cluster.groups(shape), key=lambda group: group.preference):
        nodes = [node for node in group.nodes if may_use(node)]
        clearings = _clearings(cluster, shape, nodes, on_node)
        leaving = [mover for clearing in clearings for mover in clearing.movers]
        if len(clearings) == shape.nodes and len(leaving) <= max_moves:
            cleared = {clearing.node for clearing in clearings}
            moves = _moves(cluster, leaving, cleared, may_host)
            if moves is not None:
                return moves
    return None


@dataclass(frozen=True, slots=True)
class _Clearing:
    """The workloads that leave a node so that the shape fits."""

    node: str
    movers: Sequence[Movable]

    @property
    def cost(self) -> tuple[int, float, str]:
        return len(self.movers), sum(mover.lost_gpu_s for mover in self.movers), self.node


def _clearings(
    cluster: ClusterInfo,
    shape: Shape,
    nodes: Iterable[str],
    on_node: Mapping[str, Sequence[Movable]],
) -> list[_Clearing]:
    """The nodes that are cleared at the least cost, at most as many as the shape needs."""
    found = []
    for node in nodes:
        movers = _movers(cluster, shape, node, on_node.get(node, ()))
        if movers is not None:
            found.append(_Clearing(node, movers))
    return sorted(found, key=lambda clearing: clearing.cost)[: shape.nodes]


def _movers(
    cluster: ClusterInfo, shape: Shape, node: str, offered: Sequence[Movable]
) -> Sequence[Movable] | None:
    """The workloads that leave the node: those that lose the least, and no more than needed."""
    if not _fits_without(cluster, shape, node, offered):
        return None
    kept = list(offered)
    for mover in reversed(offered):
        others = [other for other in kept if other is not mover]
        if _fits_without(cluster, shape, node, others):
            kept = others
    return kept


def _fits_without(
    cluster: ClusterInfo, shape: Shape, node: str, movers: Collection[Movable]
) -> bool:
    node_info = cluster[node].copy()
    for mover in movers:
        node_info.release(mover.shape, mover.placement.shares[0])
    return node_info.fits(shape)


def _moves(
    cluster: ClusterInfo, leaving: Sequence[Movable], cleared: Collection[str], may_host: MayHost
) -> tuple[Move, ...] | None:
    """A new placement for each, off the cleared nodes. None: one has none."""
    taken: list[tuple[Shape, Placement]] = []
    moves = []
    try:
        # The largest first: small ones fit into what is left.
        for mover in sorted(leaving, key=lambda m: (-m.shape.total_gpu_milli, m.workload_id)):
            to = _new_place(cluster, mover, cleared, may_host)
            if to is None:
                return None
            cluster.allocate(mover.shape, to)
            taken.append((mover.shape, to))
            moves.append(Move(workload_id=mover.workload_id, to=to, lost_gpu_s=mover.lost_gpu_s))
    finally:
        for shape, placement in taken:
            cluster.release(shape, placement)
    return tuple(moves)


def _new_place(
    cluster: ClusterInfo, mover: Movable, cleared: Collection[str], may_host: MayHost
) -> Placement | None:
    # The same flavor: another has another price and quota.
    flavor = mover.placement.flavor
    return cluster.find(
        mover.shape,
        flavors=None if flavor is None else (flavor,),
        allows=lambda node: node not in cleared and may_host(mover.shape, node),
    )
