"""The line of those who wait, and the nodes that are kept for them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from gpu_core.decisions.cluster import Node
from gpu_core.decisions.workload import Workload

_NAMES_KEPT = 3


@dataclass(frozen=True, slots=True)
class Ahead:
    """Who waits, further ahead, for GPUs of the same nodes."""

    names: tuple[str, ...]
    """The first few, in the order of the line."""
    count: int


@dataclass(slots=True)
class _Waiting:
    """Those who wait for one and the same set of nodes."""

    count: int = 0
    first: list[tuple[int, str]] = field(default_factory=list)
    """Position and name of the first few."""


class Line:
    """Who waits for which nodes, in the order in which they joined. Lives for one cycle."""

    def __init__(self) -> None:
        self._length = 0
        # By set of nodes rather than by workload: a thousand waiting runs want few different sets.
        self._waiting: dict[frozenset[str], _Waiting] = {}
        self._kept: set[str] = set()

    def join(self, workload: Workload, nodes: Sequence[Node]) -> int:
        """Who waits stands at the end of the line: at which position? 1 is the head."""
        self._length += 1
        waiting = self._waiting.setdefault(frozenset(n.name for n in nodes), _Waiting())
        waiting.count += 1
        if len(waiting.first) < _NAMES_KEPT:
            waiting.first.append((self._length, workload.name))
        return self._length

    def ahead_on(self, nodes: Sequence[Node]) -> Ahead:
        """Who in the line so far waits for GPUs of any of these nodes?"""
        names = {node.name for node in nodes}
        same = [w for wanted, w in self._waiting.items() if not wanted.isdisjoint(names)]
        first = sorted(entry for waiting in same for entry in waiting.first)
        return Ahead(
            names=tuple(name for _, name in first[:_NAMES_KEPT]),
            count=sum(waiting.count for waiting in same),
        )

    def keep(self, nodes: Sequence[Node]) -> None:
        """Keep these nodes for someone in the line: nobody who comes later may use them."""
        self._kept.update(node.name for node in nodes)

    def open_among(self, nodes: Sequence[Node]) -> tuple[Node, ...]:
        """Which of these nodes are kept for nobody?"""
        return tuple(node for node in nodes if node.name not in self._kept)
