"""The read position in the log of a container, so that reading can resume after an interruption."""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

OVERLAP = timedelta(seconds=2)
"""Standard output and standard error are stamped apart, so that a line may follow a younger one.
What is this much older than the newest line is asked for again, and passed on once."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a container's output, and when it was printed."""

    at: datetime
    text: str


class LogPosition:
    """The lines of one container's log that were passed on.

    A log is read again from a whole second on, as the API's `sinceTime` has no finer unit
    (Kubernetes 1.34, `PodLogOptions`); what was passed on before is known by its bytes, with the
    timestamp of nanoseconds that the kubelet puts before each line. What an earlier follower wrote
    is known by its text, as the run's log has it.

    Args:
        written: The newest lines that an earlier follower wrote, with all of the last two seconds.
        shown: A line's text as `written` has it.
    """

    def __init__(self, written: Sequence[LogLine] = (), shown: Callable[[str], str] = str) -> None:
        self._written = tuple(written)
        self._written_until = max((line.at for line in written), default=None)
        self._shown = shown
        self._newest = self._written_until
        self._recent: deque[tuple[datetime, bytes]] = deque()
        self._expected: Counter[bytes] = Counter()
        self._expected_texts: Counter[str] = Counter()
        self._unterminated = b""
        self.is_cut = False
        """The last answer with a line without a line feed was not followed by one that has it."""

    def begin_again(self) -> str | None:
        """Read on: `sinceTime` of the next request; None: from the beginning."""
        self._expected = Counter(line for _, line in self._recent)
        floor = self._floor()
        if floor is None:
            return None
        self._expected_texts = Counter(line.text for line in self._written if line.at >= floor)
        return f"{floor:%Y-%m-%dT%H:%M:%SZ}"

    def is_whole(self, raw: bytes, *, has_ended: bool) -> bool:
        """Is this line complete? One without a line feed may have been cut with its answer.

        The last line of a container may have none (Kubernetes 1.34, CRI tag `P`): it is complete
        where the next answer after the end of the container has it again.

        Args:
            raw: The line as it came.
            has_ended: Whether the container had ended when the answer was asked for.
        """
        if raw.endswith(b"\n") or (has_ended and raw == self._unterminated):
            self.is_cut = self.is_cut and not raw.startswith(self._unterminated)
            return True
        self._unterminated, self.is_cut = raw, True
        return False

    def take(self, raw: bytes) -> LogLine | None:
        """A line without its timestamp; None: it was passed on before, or is not the container's.

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
        found = LogLine(at, text.decode(errors="replace"))
        if self._was_written_before(found):
            return None
        self._remember(at, line)
        return found

    def _was_written_before(self, line: LogLine) -> bool:
        if self._written_until is None or line.at > self._written_until:
            return False
        text = self._shown(line.text)
        is_expected = self._expected_texts[text] > 0
        self._expected_texts[text] -= is_expected
        return is_expected

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
        return (self._newest - OVERLAP).replace(microsecond=0)


def _moment(stamp: bytes) -> datetime | None:
    try:
        found = datetime.fromisoformat(stamp.decode("ascii"))
        return None if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
