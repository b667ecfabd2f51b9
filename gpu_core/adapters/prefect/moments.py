"""Moments of Prefect's objects."""

from datetime import UTC, date, datetime


def plain_moment(moment: datetime) -> datetime:
    """The same moment as a plain `datetime` in UTC.

    Prefect's client has moments of pendulum: a sum of one takes ten times as long, and each cycle
    makes thousands.

    Args:
        moment: Aware, and not within a day of the ends of what `datetime` knows.
    """
    at = moment.astimezone(UTC)
    return datetime.combine(date(at.year, at.month, at.day), at.time(), UTC)
