"""Nodes indexed by a number, so that a search does not read all of them."""

from bisect import bisect_left, insort
from collections.abc import Iterator

from gpu_core.decisions.model.bit_set import numbers_in


class BucketIndex:
    """The node set of each bucket; a node may be in several."""

    def __init__(self) -> None:
        self._at: dict[float, int] = {}
        """Never an empty set."""
        self._ascending: list[float] = []
        """The keys of `_at`."""

    def add(self, bucket: float, node: int) -> None:
        """Adds the node to a bucket."""
        if bucket not in self._at:
            insort(self._ascending, bucket)
            self._at[bucket] = 0
        self._at[bucket] |= 1 << node

    def remove(self, bucket: float, node: int) -> None:
        """Removes the node from a bucket that it is in."""
        left = self._at[bucket] & ~(1 << node)
        if left:
            self._at[bucket] = left
            return
        del self._at[bucket]
        del self._ascending[bisect_left(self._ascending, bucket)]

    def at(self, bucket: float) -> int:
        """The nodes in this bucket, as bits."""
        return self._at.get(bucket, 0)

    def at_least(self, bucket: float) -> int:
        """The nodes in this bucket or a higher one, as bits."""
        found = 0
        for higher in self._ascending[bisect_left(self._ascending, bucket) :]:
            found |= self._at[higher]
        return found

    def from_bucket(self, bucket: float, among: int) -> Iterator[tuple[float, int]]:
        """The nodes in this bucket or higher ones, with their buckets, lowest first.

        Args:
            bucket: The first bucket.
            among: The node set to search.
        """
        for here in self._ascending[bisect_left(self._ascending, bucket) :]:
            for node in numbers_in(self._at[here] & among):
                yield here, node
