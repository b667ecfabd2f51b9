"""Nodes by how much they have of something, so that nobody looks at all of them to find one."""

from bisect import bisect_left, insort
from collections.abc import Iterator

from gpu_core.decisions.model.bit_set import numbers_in


class BucketIndex:
    """The nodes at each level, as sets of bits; a node may be at several levels."""

    def __init__(self) -> None:
        self._at: dict[float, int] = {}
        """Never an empty set."""
        self._ascending: list[float] = []
        """The keys of `_at`."""

    def add(self, bucket: float, node: int) -> None:
        """The node is at this level."""
        if bucket not in self._at:
            insort(self._ascending, bucket)
            self._at[bucket] = 0
        self._at[bucket] |= 1 << node

    def remove(self, bucket: float, node: int) -> None:
        """The node, which was at this level, is there no more."""
        left = self._at[bucket] & ~(1 << node)
        if left:
            self._at[bucket] = left
            return
        del self._at[bucket]
        del self._ascending[bisect_left(self._ascending, bucket)]

    def at(self, bucket: float) -> int:
        """Which nodes are at this level? As bits."""
        return self._at.get(bucket, 0)

    def at_least(self, bucket: float) -> int:
        """Which nodes are at this level or a higher one? As bits."""
        found = 0
        for higher in self._ascending[bisect_left(self._ascending, bucket) :]:
            found |= self._at[higher]
        return found

    def from_bucket(self, bucket: float, among: int) -> Iterator[tuple[float, int]]:
        """These nodes that are at this level or a higher one, each with its level, lowest first.

        Args:
            bucket: Where to begin.
            among: The nodes, as bits.
        """
        for here in self._ascending[bisect_left(self._ascending, bucket) :]:
            for node in numbers_in(self._at[here] & among):
                yield here, node
