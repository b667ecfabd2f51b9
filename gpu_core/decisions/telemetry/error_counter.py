"""The rise of a counter of errors. A false reading, or a counter that begins anew, counts as 0."""

from dataclasses import dataclass

SURE_READINGS = 3
"""Readings in a row that agree: none falls, and all are on one side of the first count."""


@dataclass(frozen=True, slots=True)
class ErrorCounter:
    """A counter of the driver, reading by reading. Begin with `ErrorCounter()`.

    What it counted before says nothing about now, so that its first count is where it begins.
    """

    first: int | None = None
    """Its count when it was sure for the first time, or after the driver was loaded anew."""
    last: int | None = None
    in_a_row: int = 0
    """How many readings agree with the last one."""

    @property
    def new_errors(self) -> int:
        """Errors since the first count, as far as is sure."""
        if self.first is None or self.last is None or self.in_a_row < SURE_READINGS:
            return 0
        return max(0, self.last - self.first)

    def with_reading(self, count: int | None) -> "ErrorCounter":
        """The counter after one more reading; a count of None means that it was not read."""
        if count is None:
            return self
        agrees = self.last is not None and count >= self.last
        agrees = agrees and self._side(count) == self._side(self.last)
        in_a_row = self.in_a_row + 1 if agrees else 1
        is_new = self.first is None or count < self.first
        first = count if is_new and in_a_row >= SURE_READINGS else self.first
        return ErrorCounter(first=first, last=count, in_a_row=in_a_row)

    def _side(self, count: int | None) -> int:
        if self.first is None or count is None:
            return 0
        return (count > self.first) - (count < self.first)
