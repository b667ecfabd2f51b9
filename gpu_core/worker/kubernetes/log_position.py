"""How far the log of a container has been read, so that it can be read on after a cut."""

from collections import Counter, deque
from datetime import UTC, datetime, timedelta

_OVERLAP = timedelta(seconds=2)
"""Standard output and standard error are stamped apart, so that a line may follow a younger one.
What is this much older than the newest line is asked for again, and told once."""


class LogPosition:
    """The lines that were told of one container's log.

    A log is read again from a whole second on, as the API's `sinceTime` has no finer unit
    (Kubernetes 1.34, `PodLogOptions`); what was told before is known by its bytes, with the
    timestamp of nanoseconds that the kubelet puts before each line.
    """

    def __init__(self) -> None:
        self._newest: datetime | None = None
        self._recent: deque[tuple[datetime, bytes]] = deque()
        self._expected: Counter[bytes] = Counter()

    def begin_again(self) -> str | None:
        """Read on: `sinceTime` of the next request; None: from the beginning."""
        self._expected = Counter(line for _, line in self._recent)
        floor = self._floor()
        return None if floor is None else f"{floor:%Y-%m-%dT%H:%M:%SZ}"

    def take(self, raw: bytes) -> str | None:
        """A line without its timestamp; None: it was told before, or is not the container's.

        What a runtime says of a container that is gone comes in place of a log, and has no
        timestamp.

        Args:
            raw: The line as it came.
        """
        line = raw.rstrip(b"\r\n")
        stamp, _, text = line.partition(b" ")
        at = _moment(stamp)
        if at is None:
            return None
        if self._expected[line] > 0:
            self._expected[line] -= 1
            return None
        self._remember(at, line)
        return text.decode(errors="replace")

    def _remember(self, at: datetime, line: bytes) -> None:
        self._recent.append((at, line))
        if self._newest is None or at > self._newest:
            self._newest = at
        floor = self._floor()
        while floor is not None and self._recent[0][0] < floor:
            self._recent.popleft()

    def _floor(self) -> datetime | None:
        if self._newest is None:
            return None
        return (self._newest - _OVERLAP).replace(microsecond=0)


def _moment(stamp: bytes) -> datetime | None:
    try:
        found = datetime.fromisoformat(stamp.decode("ascii"))
        return None if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
