"""The strategy `fragmentation-aware`: keep what future requests need."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gpu_core.decisions.model.bit_set import numbers_in
from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.placement.filters import suits
from gpu_core.decisions.placement.fragmentation_score import CpuBuckets, FragmentationScore
from gpu_core.decisions.placement.node_classes import NodeClasses
from gpu_core.decisions.placement.node_info import NodeInfo
from gpu_core.decisions.placement.node_states import NodeStates
from gpu_core.decisions.placement.order import NodeOrder
from gpu_core.decisions.policy.placement import Strategy

_UNCOUNTED = 2**50
"""More CPU or memory than all workloads together use."""


class LeastLossOrder:
    """Nodes in the order of the score that they lose to a request.

    A request goes where the score of the node (see `FragmentationScore`) falls least, and there
    to the GPU that keeps most of it; ties go to the first node by name and the fullest GPU. The
    result depends only on free resources and on the expected mix.

    Each search reads all nodes as arrays: a table has the score for each state and bucket of CPU,
    and few states occur. MIG instances use best fit.

    Args:
        node_infos: The nodes; a node is known by its position among them.
        node_classes: The classes of the same nodes.
    """

    def __init__(self, node_infos: Sequence[NodeInfo], node_classes: NodeClasses) -> None:
        self._nodes = [node_info.node for node_info in node_infos]
        self._most_gpus = max((len(node.gpu_ids) for node in self._nodes), default=0)
        self._buckets = CpuBuckets(max((node.cpu_milli or 0 for node in self._nodes), default=0))
        self._node_classes = node_classes
        self._best_fit = NodeOrder(Strategy.BEST_FIT, node_infos)
        self._free = [node_info.left_milli(self._most_gpus) for node_info in node_infos]
        self._cpu = np.array(
            [_counted(node_info.cpu_milli_left) for node_info in node_infos], dtype=np.int64
        )
        self._memory = np.array(
            [_counted(node_info.memory_mib_left) for node_info in node_infos], dtype=np.int64
        )
        self._masks: dict[int, NDArray[np.float64]] = {}
        self._mix: Mapping[Shape, float] | None = None
        self.set_workload_mix({})

    def set_workload_mix(self, mix: Mapping[Shape, float]) -> None:
        """Sets the mix of requests, and computes all scores again."""
        if mix == self._mix:
            return
        self._mix = dict(mix)
        mixes = self._classify(mix)
        worth = FragmentationScore(mixes, sum(mix.values()), self._buckets)
        self._states = NodeStates(worth, self._buckets.columns)
        self._rows = np.zeros(len(self._nodes), dtype=np.int64)
        self._worth = np.zeros(len(self._nodes))
        for position in range(len(self._nodes)):
            self._enter(position)

    def changed(self, node: int, node_info: NodeInfo) -> None:
        """Reads the free resources of a node again."""
        if node_info.node.is_mig:
            self._best_fit.changed(node, node_info)
        self._free[node] = node_info.left_milli(self._most_gpus)
        self._cpu[node] = _counted(node_info.cpu_milli_left)
        self._memory[node] = _counted(node_info.memory_mib_left)
        self._enter(node)

    def candidates(self, shape: Shape, among: int) -> Iterator[tuple[float, int]]:
        """The nodes that may fit, the least loss first, ties by position.

        Args:
            shape: The shape to place.
            among: The set of nodes that suit it.

        Yields:
            The loss, and the node.
        """
        if shape.mig_profile is not None:
            return self._best_fit.candidates(shape, among)
        return _ascending(self._losses(shape, among))

    def share(self, shape: Shape, node: int, node_info: NodeInfo) -> NodeShare:
        """The GPUs of the node that the shape gets, if it fits."""
        if shape.is_whole or shape.gpu_count != 1 or shape.mig_profile is not None:
            return node_info.share(shape)
        column = self._buckets.column_of(int(self._cpu[node]) - shape.cpu_milli)
        ask = (shape.gpu_count, shape.gpu_share_milli)
        [left_milli] = self._states.best(self._class_of[node], self._free[node], ask, column)
        return node_info.share(shape, left_milli)

    def _classify(self, mix: Mapping[Shape, float]) -> list[Mapping[Shape, float]]:
        """The shapes of the mix that each class of nodes suits. Stores the class of each node."""
        self._class_of = [0] * len(self._nodes)
        classes: dict[tuple[Shape, ...], int] = {}
        for node_class in self._node_classes.of(*mix):
            suited = tuple(shape for shape in mix if suits(shape, node_class.example))
            number = classes.setdefault(suited, len(classes))
            for position in numbers_in(node_class.node_set):
                self._class_of[position] = number
        return [{shape: mix[shape] for shape in suited} for suited in classes]

    def _losses(self, shape: Shape, among: int) -> NDArray[np.float64]:
        """The loss of each node; infinity where the shape does not fit."""
        cells = self._buckets.columns_of(self._cpu - shape.cpu_milli)
        cells += self._rows
        losses: NDArray[np.float64] = self._worth - self._states.after(
            shape.gpu_count, shape.gpu_share_milli
        ).take(cells)
        losses += self._mask(among)
        losses[self._memory < shape.memory_mib] = np.inf
        return losses

    def _mask(self, among: int) -> NDArray[np.float64]:
        """0 for the nodes of the set, infinity for the others."""
        mask = self._masks.get(among)
        if mask is None:
            is_among = [among >> node & 1 for node in range(len(self._nodes))]
            mask = self._masks[among] = np.where(np.array(is_among, dtype=bool), 0.0, np.inf)
        return mask

    def _enter(self, node: int) -> None:
        """Stores the current state of a node."""
        state = self._states.enter(self._class_of[node], self._free[node])
        column = self._buckets.column_of(int(self._cpu[node]))
        self._rows[node] = state * self._buckets.columns
        self._worth[node] = self._states.now(state, column)


def _ascending(losses: NDArray[np.float64]) -> Iterator[tuple[float, int]]:
    """Finite losses, the least first, ties by position."""
    if not len(losses):
        return
    # Mostly the first candidate is enough.
    least = int(losses.argmin())
    if losses[least] == np.inf:
        return
    yield float(losses[least]), least
    for position in losses.argsort(kind="stable")[1:].tolist():
        if losses[position] == np.inf:
            return
        yield float(losses[position]), position


def _counted(left: float) -> int:
    return int(min(left, _UNCOUNTED))
