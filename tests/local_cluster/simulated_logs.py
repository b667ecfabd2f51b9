"""What a container on a simulated node has printed, computed from its pod whenever it is asked for.

Nothing is stored: line N is printed at a time that follows from the container's start. Annotations
of the pod, both optional:

- `simulated.prefect-gpu/log-lines`: how many lines it prints (0);
- `simulated.prefect-gpu/log-every-s`: the time from one line to the next (1); the first comes with
  the start.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from kube_api import Json
from simulated_pods import seconds

_WHOLE_SECOND = timedelta(seconds=1)


@dataclass(frozen=True)
class SimulatedLog:
    """The output of one container.

    Args:
        node: Where its pod is.
        started_at: When the container started.
        ended_at: What it prints comes before this moment; None: it still runs.
        lines: How many lines it prints if nothing ends it.
        every_s: The time between two of them.
    """

    node: str
    started_at: datetime
    ended_at: datetime | None
    lines: int
    every_s: float

    def printed(self, now: datetime) -> int:
        """How many lines are there now?"""
        if self.ended_at is None:
            return min(self.lines, (now - self.started_at) // self._pause + 1)
        return min(self.lines, -((self.started_at - self.ended_at) // self._pause))

    def printed_at(self, line: int) -> datetime:
        """When is this line printed, counted from 0?"""
        return self.started_at + line * self._pause

    def first_since(self, moment: datetime) -> int:
        """Which is the first line that is not older than this?"""
        return max(0, -((self.started_at - moment) // self._pause))

    @property
    def _pause(self) -> timedelta:
        return timedelta(seconds=self.every_s)


def log_of(pod: Json) -> SimulatedLog | None:
    """What do the containers of this pod print, all the same? None: they have not started."""
    statuses = pod["status"].get("containerStatuses")
    if not statuses:
        return None
    state = statuses[0]["state"]
    ended = state.get("terminated")
    began = ended or state["running"]
    return SimulatedLog(
        node=pod["spec"]["nodeName"],
        started_at=datetime.fromisoformat(began["startedAt"]),
        # Statuses have whole seconds: what was printed within the last one is part of the log.
        ended_at=datetime.fromisoformat(ended["finishedAt"]) + _WHOLE_SECOND if ended else None,
        lines=int(seconds(pod, "log-lines") or 0),
        every_s=seconds(pod, "log-every-s") or 1.0,
    )


def line_text(log: SimulatedLog, line: int, *, has_timestamp: bool) -> bytes:
    """The line as the kubelet writes it into its answer."""
    text = f"line {line}\n"
    if has_timestamp:
        at = log.printed_at(line).astimezone(UTC)
        text = f"{at:%Y-%m-%dT%H:%M:%S.%f}000Z {text}"
    return text.encode()
