"""The days that are judged, and the days for which a saving is predicted."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from gpu_core.decisions.costs.usage.usage_cost import Window

PERIOD_DAYS = 28
"""Four whole weeks: each weekday counts the same."""
VERIFY_DAYS = 14
"""Two whole weeks are enough to see most changes, and soon enough to undo one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """The days that proposals are made from, in UTC."""

    first: date
    last: date
    verify_days: int = VERIFY_DAYS

    @classmethod
    def before(cls, day: date, days: int = PERIOD_DAYS) -> "Period":
        """The period of `days` days that ends with the day before `day`."""
        return cls(first=day - timedelta(days=days), last=day - timedelta(days=1))

    @property
    def days(self) -> int:
        """The number of days."""
        return (self.last - self.first).days + 1

    @property
    def window(self) -> Window:
        """From midnight to midnight."""
        end = self.last + timedelta(days=1)
        return Window(_midnight(self.first), _midnight(end))

    @property
    def to_read(self) -> Window:
        """The window of the runs that must be read: the replay learns from as many days before."""
        return Window(_midnight(self.first - timedelta(days=self.days)), self.window.end)


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
