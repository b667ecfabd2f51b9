"""The GPUs that are closed, and the number of nodes that are wanted, by the clock.

Maintenance and advance reservations close capacity for a time; weekday mornings may need more.
Weekly times are wall-clock times in a zone. Where clocks change, a time that comes twice
opens the window the first time and closes it the second; a time that is skipped counts from the
clock before the change, so that 02:30 is the moment that is then called 03:30 (PEP 495).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from gpu_core.decisions.model.cluster import Flavor
from gpu_core.decisions.policy.calendar import _WEEKDAYS, CalendarPolicy, ClosureRule, Weekly

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Closure:
    """Capacity that is closed from a moment up to, but without, another."""

    name: str
    starts_at: datetime
    ends_at: datetime
    nodes: tuple[str, ...] = ()
    """The nodes; empty: `gpus` of `flavor`."""
    flavor: Flavor | None = None
    gpus: int | None = None
    for_team: str | None = None
    """The team whose runs may use it; None: no team's."""


def windows_between(policy: CalendarPolicy, start: datetime, end: datetime) -> tuple[Closure, ...]:
    """The closures at some time from `start` up to, but without, `end`.

    Args:
        policy: The rules, without contradictions.
        start: Aware.
        end: Aware.

    Returns:
        Whole closures, also where they begin earlier or end later; in the order of time.
    """
    closures = [
        _closure(rule, starts_at, ends_at)
        for rule in policy.closures
        for starts_at, ends_at in _times(rule, start, end)
        if starts_at < end and ends_at > start
    ]
    return tuple(sorted(closures, key=lambda c: (c.starts_at, c.ends_at, c.name)))


def scheduled_nodes(policy: CalendarPolicy, now: datetime) -> Mapping[Flavor, int]:
    """How many nodes of each flavor does the calendar ask for now?

    Rules that overlap do not add up: the largest counts.
    """
    wanted: dict[Flavor, int] = {}
    for rule in policy.capacity:
        if any(start <= now < end for start, end in _weekly_times(rule.weekly, now, now)):
            flavor = Flavor(rule.gpu_type, rule.capacity_type)
            wanted[flavor] = max(rule.nodes, wanted.get(flavor, 0))
    return wanted


def _closure(rule: ClosureRule, starts_at: datetime, ends_at: datetime) -> Closure:
    return Closure(
        name=rule.name,
        starts_at=starts_at,
        ends_at=ends_at,
        nodes=tuple(rule.nodes),
        flavor=None if rule.gpu_type is None else Flavor(rule.gpu_type, rule.capacity_type),
        gpus=rule.gpus,
        for_team=rule.for_team,
    )


def _times(
    rule: ClosureRule, start: datetime, end: datetime
) -> Iterator[tuple[datetime, datetime]]:
    if rule.weekly is not None:
        yield from _weekly_times(rule.weekly, start, end)
    elif rule.starts_at is not None and rule.ends_at is not None:
        yield rule.starts_at, rule.ends_at


def _weekly_times(
    weekly: Weekly, start: datetime, end: datetime
) -> Iterator[tuple[datetime, datetime]]:
    """From the day before `start`, whose window may still be open, to the day of `end`."""
    zone = ZoneInfo(weekly.zone)
    day = start.astimezone(zone).date() - _DAY
    last = end.astimezone(zone).date()
    while day <= last:
        starts_at, ends_at = _times_on(weekly, day, zone)
        if _WEEKDAYS[day.weekday()] in weekly.weekdays and starts_at < ends_at:
            yield starts_at, ends_at
        day += _DAY


def _times_on(weekly: Weekly, day: date, zone: ZoneInfo) -> tuple[datetime, datetime]:
    last_day = day if weekly.starts < weekly.ends else day + _DAY
    starts_at = datetime.combine(day, weekly.starts, zone).astimezone(UTC)
    ends = datetime.combine(last_day, weekly.ends, zone)
    # The later of both readings: the second 02:30 where there are two, and never one that
    # lies before the gap where there is none.
    return starts_at, max(ends.astimezone(UTC), ends.replace(fold=1).astimezone(UTC))
