"""Limits actions to one per interval, and log lines to one per change."""


class Throttle:
    """Limits how often something happens. The clock is the caller's.

    Args:
        interval_s: The shortest time between two occurrences, 0 or more.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._last_s = float("-inf")

    def is_due(self, now_s: float) -> bool:
        """Has the interval passed since the last occurrence? The first one is always due."""
        return now_s - self._last_s >= self._interval_s

    def start(self, now_s: float) -> None:
        """Begin the interval: it happens now, due or not."""
        self._last_s = now_s

    def allows(self, now_s: float) -> bool:
        """May it happen now? Begins the interval if so.

        Args:
            now_s: A moment of a monotonic clock, always the same one.
        """
        if not self.is_due(now_s):
            return False
        self.start(now_s)
        return True

    def reset(self) -> None:
        """Make the next occurrence due at once."""
        self._last_s = float("-inf")


class LastSaid:
    """Keeps a condition that lasts from being logged each time it is found."""

    def __init__(self) -> None:
        self._said: object = None

    def is_news(self, what: object) -> bool:
        """Does this differ from what was said last? It counts as said from now on."""
        before, self._said = self._said, what
        return what != before

    def forget(self) -> None:
        """The condition is over: it is news when it comes back."""
        self._said = None
