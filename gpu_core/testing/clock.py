"""A clock that a test moves."""

from datetime import datetime, timedelta

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.units import require_aware
from gpu_core.testing.builders.workloads import NOW


class Clock:
    """The time of a test: `now` for decisions, and a call for `checkpointing(clock=clock)`.

    Args:
        now: The moment at which it begins, aware.

    Raises:
        InvalidInput: The moment has no time zone.
    """

    def __init__(self, now: datetime = NOW) -> None:
        self._began_at = require_aware(now, "now")
        self._passed_s = 0.0

    @property
    def now(self) -> datetime:
        """The moment that it shows."""
        return self._began_at + timedelta(seconds=self._passed_s)

    def advance(self, seconds: float) -> datetime:
        """Let this many seconds pass; the moment afterwards.

        Raises:
            InvalidInput: The seconds are negative.
        """
        if not seconds >= 0:
            raise InvalidInput("seconds", "is out of range", got=seconds, allowed="0 or more")
        self._passed_s += seconds
        return self.now

    def __call__(self) -> float:
        """Seconds that only ever grow."""
        return self._passed_s
