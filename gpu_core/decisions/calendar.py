"""Which GPUs are not there for everybody, and which should be there, by the clock.

Maintenance and advance reservations take capacity away for a time; weekday mornings may want more
of it. Weekly times are wall-clock times in a zone. Where clocks change, a time that comes twice
opens the window the first time and closes it the second; a time that is skipped counts from the
clock before the change, so that 02:30 is the moment that is then called 03:30 (PEP 495).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import Field

from gpu_core.decisions.cluster import Flavor
from gpu_core.decisions.errors import InvalidInput, nearest_name
from gpu_core.decisions.policy_base import CapacityType, Name, Section
from gpu_core.decisions.units import require_aware
from gpu_core.decisions.validation import parsed_by

Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]

_WEEKDAYS: tuple[Weekday, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")
_DAY = timedelta(days=1)


def _clock(value: object, field: str) -> time:
    match = _CLOCK.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise InvalidInput(
            field,
            "is not a time of day",
            got=value,
            allowed="text from '00:00' to '23:59'",
            remedy="quote it: YAML reads 10:00 as the number 600",
        )
    return time(int(match[1]), int(match[2]))


def _zone(value: object, field: str) -> str:
    try:
        ZoneInfo(str(value))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidInput(
            field,
            "is not a time zone",
            got=value,
            allowed="a name of the IANA database, such as 'Europe/Berlin'",
            nearest=nearest_name(str(value), available_timezones()),
        ) from None
    return str(value)


def _moment(value: object, field: str) -> datetime:
    if isinstance(value, datetime):
        return require_aware(value, field)
    try:
        return require_aware(datetime.fromisoformat(str(value)), field)
    except ValueError:
        raise InvalidInput(
            field, "is not a moment", got=value, allowed="ISO 8601, such as 2026-12-01T08:00Z"
        ) from None


ClockTime = Annotated[time, parsed_by(_clock)]
Zone = Annotated[str, parsed_by(_zone)]
Moment = Annotated[datetime, parsed_by(_moment)]


class Weekly(Section):
    """The same hours on some days of every week."""

    weekdays: Annotated[Sequence[Weekday], Field(min_length=1)]
    """The days on which it starts."""
    starts: ClockTime
    ends: ClockTime
    """At or before the start: on the day after."""
    zone: Zone = "UTC"


class ClosureRule(Section):
    """Capacity that is not there, or only for one team: a maintenance window or a reservation.

    Once (`starts_at` and `ends_at`) or `weekly`; certain `nodes`, or some `gpus` of a type.
    """

    name: Name
    starts_at: Moment | None = None
    ends_at: Moment | None = None
    weekly: Weekly | None = None
    nodes: Sequence[Name] = ()
    gpu_type: Name | None = None
    capacity_type: CapacityType = "on-demand"
    gpus: Annotated[int, Field(ge=1)] | None = None
    for_team: Name | None = None
    """Whose runs may use it all the same; None: nobody's."""


class CapacityRule(Section):
    """Nodes that should be there at certain hours, needed or not."""

    name: Name
    weekly: Weekly
    gpu_type: Name
    capacity_type: CapacityType = "on-demand"
    nodes: Annotated[int, Field(ge=1)]


class CalendarPolicy(Section):
    """What changes by the clock."""

    closures: Sequence[ClosureRule] = ()
    capacity: Sequence[CapacityRule] = ()


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
    """Whose runs may use it all the same; None: nobody's."""

    def is_closed_to(self, team: str | None) -> bool:
        """May runs of this team not use it?"""
        return self.for_team is None or team != self.for_team


def windows_between(policy: CalendarPolicy, start: datetime, end: datetime) -> tuple[Closure, ...]:
    """What is closed at some time from `start` up to, but without, `end`?

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
    """How many nodes of each flavor does the calendar want now?

    Rules that overlap do not add up: the largest counts.
    """
    wanted: dict[Flavor, int] = {}
    for rule in policy.capacity:
        if any(start <= now < end for start, end in _weekly_times(rule.weekly, now, now)):
            flavor = Flavor(rule.gpu_type, rule.capacity_type)
            wanted[flavor] = max(rule.nodes, wanted.get(flavor, 0))
    return wanted


def calendar_contradictions(policy: CalendarPolicy, field: str = "calendar") -> list[InvalidInput]:
    """Which rules say too little or too much?

    Args:
        policy: The rules.
        field: The dotted path of the section, for the errors.
    """
    return [
        InvalidInput(f"{field}.closures.{index}", problem, remedy=remedy)
        for index, rule in enumerate(policy.closures)
        for problem, remedy in _mistakes(rule)
    ]


def _mistakes(rule: ClosureRule) -> Iterator[tuple[str, str]]:
    moments = [m for m in (rule.starts_at, rule.ends_at) if m is not None]
    if len(moments) != (2 if rule.weekly is None else 0):
        yield "has no clear time", "give starts_at and ends_at, or weekly"
    elif len(moments) == 2 and moments[0] >= moments[1]:
        yield "ends before it starts", "exchange starts_at and ends_at"
    by_type = (rule.gpu_type is not None, rule.gpus is not None)
    if by_type != ((False, False) if rule.nodes else (True, True)):
        yield "does not say clearly what is closed", "give nodes, or gpu_type and gpus"


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
