"""Where should a request go so that what is left is worth most to the requests to come?"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gpu_core.decisions.cluster import Node
from gpu_core.decisions.errors import InvalidInput
from gpu_core.decisions.placement.mix_worth import CpuLevels, MixWorth
from gpu_core.decisions.placement.node_states import NodeStates
from gpu_core.decisions.placement.suitability import suits
from gpu_core.decisions.workload import WHOLE_GPU_MILLI, Shape

_FIRST_LOOK = 64
"""Requests after which the mix is looked at for the first time, then after four times as
many: each look costs as much as some hundred requests, and a mix is soon known well enough."""
_UNCOUNTED = 2**50
"""More CPU or memory than all workloads together take."""


class FragmentationIndex:
    """What all nodes have left, and which loses least by a request.

    A request goes where the worth of the room (see `MixWorth`) falls least; of equals, to the
    node that is first by name, and there to the fullest GPU, of equals the first. The mix is
    given, or learned from what was offered: whenever four times as much was offered as at the
    last look. The answer depends on what was offered, taken and given back, and on nothing else.

    All nodes are looked at each time, as arrays: what a node would be worth is in a table, by
    its state and its level of CPU, and few states are ever seen.

    Args:
        nodes: With different names, in any order.
        mix: How often each shape is asked for, in any unit; None: to be learned.
    """

    def __init__(self, nodes: Sequence[Node], mix: Mapping[Shape, float] | None = None) -> None:
        self._nodes = sorted(nodes, key=lambda node: node.name)
        self._at = {node.name: number for number, node in enumerate(self._nodes)}
        most_gpus = max((len(node.gpu_ids) for node in self._nodes), default=0)
        self._free = [_free(node, most_gpus) for node in self._nodes]
        self._cpu = _amounts([node.cpu_milli for node in self._nodes])
        self._memory = _amounts([node.memory_mib for node in self._nodes])
        self._levels = CpuLevels(max((node.cpu_milli or 0 for node in self._nodes), default=0))
        self._classes, self._class_of = _classes(self._nodes)
        self._penalties: dict[Shape, NDArray[np.float64]] = {}
        self._given = mix
        self._offered: Counter[Shape] = Counter()
        self._seen = 0
        self._next_look = _FIRST_LOOK
        self._look_at(mix or {})

    def offered(self, shape: Shape) -> None:
        """Learn that a request came, whether or not there is room for it."""
        if self._given is not None:
            return
        self._offered[shape] += 1
        self._seen += 1
        if self._seen == self._next_look:
            self._next_look *= 4
            self._look_at(self._offered)

    def find(self, shape: Shape) -> tuple[str, tuple[int, ...]] | None:
        """Where should one node's part of the shape go?

        All of its GPU types are equally wanted here.

        Returns:
            The node, and the positions of the GPUs in its `gpu_ids`; None: nowhere now.
        """
        number = self._best_node(shape)
        if number is None:
            return None
        column = self._levels.column_of(int(self._cpu[number]) - shape.cpu_milli)
        return self._nodes[number].name, self._positions(number, shape, column)

    def take(self, node: str, shape: Shape, gpus: tuple[int, ...]) -> None:
        """Use these GPUs of a node, and the CPU and memory that the shape asks for.

        Raises:
            InvalidInput: Not all of it is free; nothing was changed.
        """
        number = self._at[node]
        if any(self._free[number][gpu] < shape.gpu_share_milli for gpu in gpus):
            raise InvalidInput("gpus", f"are not free on node {node}", got=gpus)
        if self._cpu[number] < shape.cpu_milli or self._memory[number] < shape.memory_mib:
            raise InvalidInput("node", "has not enough CPU or memory left", got=node)
        self._change(number, shape, gpus, -1)

    def give(self, node: str, shape: Shape, gpus: tuple[int, ...]) -> None:
        """Give back what was taken with the same arguments.

        Raises:
            InvalidInput: It was not taken; nothing was changed.
        """
        number = self._at[node]
        most = WHOLE_GPU_MILLI - shape.gpu_share_milli
        if any(self._free[number][gpu] > most for gpu in gpus):
            raise InvalidInput("gpus", f"were not taken on node {node}", got=gpus)
        self._change(number, shape, gpus, 1)

    def _best_node(self, shape: Shape) -> int | None:
        cells = self._rows + self._levels.columns_of(self._cpu - shape.cpu_milli)
        worth = self._states.after(shape.gpu_count, shape.gpu_share_milli).take(cells)
        worth -= self._worth
        worth += self._penalty(shape)
        worth[self._memory < shape.memory_mib] = -np.inf
        number = int(worth.argmax()) if len(worth) else -1
        return None if number < 0 or worth[number] == -np.inf else number

    def _positions(self, number: int, shape: Shape, column: int) -> tuple[int, ...]:
        free = self._free[number]
        ask = (shape.gpu_count, shape.gpu_share_milli)
        used = self._states.best(self._class_of[number], tuple(sorted(free)), ask, column)
        positions: list[int] = []
        for left in used:
            positions.append(
                next(i for i, milli in enumerate(free) if milli == left and i not in positions)
            )
        return tuple(sorted(positions))

    def _penalty(self, shape: Shape) -> NDArray[np.float64]:
        """Minus infinity for the nodes that are of the wrong kind, 0 for the others."""
        penalty = self._penalties.get(shape)
        if penalty is None:
            fits = np.array([suits(shape, node) for node in self._classes], dtype=bool)
            by_class = np.where(fits, 0.0, -np.inf)
            penalty = self._penalties[shape] = by_class[np.array(self._class_of, dtype=np.int64)]
        return penalty

    def _change(self, number: int, shape: Shape, gpus: tuple[int, ...], sign: int) -> None:
        for gpu in gpus:
            self._free[number][gpu] += sign * shape.gpu_share_milli
        self._cpu[number] += sign * shape.cpu_milli
        self._memory[number] += sign * shape.memory_mib
        self._enter(number)

    def _enter(self, number: int) -> None:
        """Note the state that a node is in now."""
        state = self._states.enter(self._class_of[number], tuple(sorted(self._free[number])))
        column = self._levels.column_of(int(self._cpu[number]))
        self._rows[number] = state * self._levels.columns
        self._worth[number] = self._states.now(state, column)

    def _look_at(self, mix: Mapping[Shape, float]) -> None:
        """Value everything by this mix from now on."""
        mixes = [
            {shape: weight for shape, weight in mix.items() if suits(shape, node)}
            for node in self._classes
        ]
        worth = MixWorth(mixes, sum(mix.values()), self._levels)
        self._states = NodeStates(worth, self._levels.columns)
        self._rows = np.zeros(len(self._nodes), dtype=np.int64)
        self._worth = np.zeros(len(self._nodes))
        for number in range(len(self._nodes)):
            self._enter(number)


def _free(node: Node, places: int) -> list[int]:
    """What is free of each GPU of an unused node? Nothing of those that it does not have."""
    free = [0 if gpu in node.unhealthy_gpu_ids else WHOLE_GPU_MILLI for gpu in node.gpu_ids]
    return free + [0] * (places - len(free))


def _amounts(counted: Sequence[int | None]) -> NDArray[np.int64]:
    return np.array([_UNCOUNTED if n is None else n for n in counted], dtype=np.int64)


def _classes(nodes: Sequence[Node]) -> tuple[list[Node], list[int]]:
    """Which nodes can no shape tell apart, but by their size and what is left?

    Returns:
        One node of each class, and the class of each node.
    """
    examples: dict[object, tuple[int, Node]] = {}
    class_of = []
    for node in nodes:
        kind = (
            node.flavor,
            node.gpu_memory_gib,
            node.is_shareable,
            node.is_mig,
            node.taints,
            tuple(sorted(node.labels.items())),
        )
        class_of.append(examples.setdefault(kind, (len(examples), node))[0])
    return [node for _, node in examples.values()], class_of
