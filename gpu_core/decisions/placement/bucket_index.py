"""Nodes by how much they have of something, so that nobody looks at all of them to find one."""

from bisect import bisect_left, insort
from collections.abc import Iterator

from gpu_core.decisions.model.bit_set import numbers_in


class Levels:
    """The nodes at each level, as sets of bits; a node may be at several levels."""

    def __init__(self) -> None:
        self._at: dict[float, int] = {}
        """Never an empty set."""
        self._ascending: list[float] = []
        """The keys of `_at`."""

    def add(self, level: float, node: int) -> None:
        """The node is at this level."""
        if level not in self._at:
            insort(self._ascending, level)
            self._at[level] = 0
        self._at[level] |= 1 << node

    def remove(self, level: float, node: int) -> None:
        """The node, which was at this level, is there no more."""
        left = self._at[level] & ~(1 << node)
        if left:
            self._at[level] = left
            return
        del self._at[level]
        del self._ascending[bisect_left(self._ascending, level)]

    def at(self, level: float) -> int:
        """Which nodes are at this level? As bits."""
        return self._at.get(level, 0)

    def at_least(self, level: float) -> int:
        """Which nodes are at this level or a higher one? As bits."""
        found = 0
        for higher in self._ascending[bisect_left(self._ascending, level) :]:
            found |= self._at[higher]
        return found

    def from_level(self, level: float, among: int) -> Iterator[tuple[float, int]]:
        """These nodes that are at this level or a higher one, each with its level, lowest first.

        Args:
            level: Where to begin.
            among: The nodes, as bits.
        """
        for here in self._ascending[bisect_left(self._ascending, level) :]:
            for node in numbers_in(self._at[here] & among):
                yield here, node
