"""The latest values of one quantity, in order of time and of size: empirical quantiles, online."""

import math
from bisect import bisect_right, insort
from collections import deque
from collections.abc import Iterable


class RecentSample:
    """The last `size` values of a quantity. The oldest is forgotten first.

    Invariant: `_by_age` and `_by_size` hold the same values. Finding a place takes O(log size).

    Args:
        size: How many values are kept, at least 1.
        values: The first values, oldest first.
    """

    __slots__ = ("_by_age", "_by_size")

    def __init__(self, size: int, values: Iterable[float] = ()) -> None:
        self._by_age: deque[float] = deque(values, maxlen=size)
        self._by_size = sorted(self._by_age)

    def __len__(self) -> int:
        return len(self._by_age)

    def add(self, value: float) -> None:
        """Remember this value as the latest."""
        if len(self._by_age) == self._by_age.maxlen:
            del self._by_size[bisect_right(self._by_size, self._by_age[0]) - 1]
        self._by_age.append(value)
        insort(self._by_size, value)

    def values(self) -> tuple[float, ...]:
        """All values, oldest first."""
        return tuple(self._by_age)

    def upper(self, probability: float, above: float = -math.inf) -> float | None:
        """The bound that the next value over `above` does not exceed, with this probability.

        The k-th smallest of the n values over `above`, with k = ceil(probability × (n + 1)): the
        next value of an exchangeable sequence is at or under it with at least that probability
        (the rank argument of split conformal prediction; Vovk, Gammerman & Shafer 2005).

        Args:
            probability: Over 0, under 1.
            above: Only values over this one are read.

        Returns:
            None where the values are too few to say: n < probability / (1 - probability).
        """
        first = bisect_right(self._by_size, above)
        rank = math.ceil(probability * (len(self._by_size) - first + 1))
        if first + rank > len(self._by_size):
            return None
        return self._by_size[first + rank - 1]
