"""Which few workloads would have to move so that one fits that does not fit now."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpu_core.decisions.model.cluster import Placement
from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.placement.cluster_info import Allows, ClusterInfo

MayHost = Callable[[Shape, str], bool]
"""May somebody of this shape move to this node?"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Movable:
    """A workload that may be stopped and started again somewhere else."""

    workload_id: str
    shape: Shape
    placement: Placement
    lost_gpu_s: float
    """What it would have to compute again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One workload to another place."""

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
    """Who would have to move so that the shape fits? None: that takes more moves, or is not seen.

    Nodes are cleared that need the fewest moves, then lose the least work; everybody who moves has
    a new place on the other nodes, on GPUs of the same kind. This is greedy: it may miss moves that
    a search of all would find, and proposes none that fail. Only workloads on one node move.

    Args:
        cluster: What is left now; it is the same again afterwards.
        shape: What is to fit.
        movable: Who may move, all of them in the room.
        max_moves: How many may move at most.
        may_use: May the shape go to this node?
        may_host: May somebody of this shape move there?
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
    """Who leaves a node so that the shape fits there."""

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
    """The nodes that are cleared at the least cost, as many as the shape needs if there are."""
    found = []
    for node in nodes:
        movers = _movers(cluster, shape, node, on_node.get(node, ()))
        if movers is not None:
            found.append(_Clearing(node, movers))
    return sorted(found, key=lambda clearing: clearing.cost)[: shape.nodes]


def _movers(
    cluster: ClusterInfo, shape: Shape, node: str, offered: Sequence[Movable]
) -> Sequence[Movable] | None:
    """Who leaves the node? Those with the least to lose, without any who need not."""
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
    """A new place for each of them, off the cleared nodes. None: somebody has none."""
    taken: list[tuple[Shape, Placement]] = []
    moves = []
    try:
        # The largest first: the small ones fit into what is left.
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
    # On the same kind of GPU: another may have another price, and another quota.
    flavor = mover.placement.flavor
    return cluster.find(
        mover.shape,
        flavors=None if flavor is None else (flavor,),
        allows=lambda node: node not in cleared and may_host(mover.shape, node),
    )
