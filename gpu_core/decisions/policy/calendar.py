"""Policy section `calendar`: closures and the nodes that should be there at certain hours."""

import re
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import Field

from gpu_core.decisions.model.errors import InvalidInput, nearest_name
from gpu_core.decisions.model.pydantic_errors import parsed_by
from gpu_core.decisions.model.section import CapacityType, Name, Section
from gpu_core.decisions.model.units import require_aware

Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


_WEEKDAYS: tuple[Weekday, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


_CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")


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


def _day(value: object, field: str) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        return date.fromisoformat(str(value))
    except ValueError:
        raise InvalidInput(
            field, "is not a day", got=value, allowed="a date such as 2026-12-24"
        ) from None


ClockTime = Annotated[time, parsed_by(_clock)]


Zone = Annotated[str, parsed_by(_zone)]


Moment = Annotated[datetime, parsed_by(_moment)]


class Weekly(Section):
    """A time range that repeats on one or more days of each week."""

    weekdays: Annotated[Sequence[Weekday], Field(min_length=1)]
    """The weekdays on which the time range starts."""
    starts: ClockTime
    """The start time. Must be quoted, for example `"02:00"`."""
    ends: ClockTime
    """The end time. If the end time is not later than the start time, the range ends on the next
    day."""
    zone: Zone = "UTC"
    """The IANA time zone of the start and end times."""


class ClosureRule(Section):
    """A maintenance window, or an advance reservation if `for_team` is set. You must specify the
    time with either `starts_at` and `ends_at` or `weekly`. Use either `nodes` or `gpu_type` and
    `gpus` to select the GPUs.
    """

    name: Name
    """The name of the entry, as shown in messages."""
    starts_at: Moment | None = None
    """The start time, if the closure does not repeat."""
    ends_at: Moment | None = None
    """The end time, if the closure does not repeat."""
    weekly: Weekly | None = None
    """The hours at which the closure repeats every week."""
    nodes: Sequence[Name] = ()
    """A list of the names of nodes to close."""
    gpu_type: Name | None = None
    """The type of the GPUs to close. Only used if `nodes` is empty."""
    capacity_type: CapacityType = "on-demand"
    """The capacity type of the GPUs to close."""
    gpus: Annotated[int, Field(ge=1)] | None = None
    """The number of GPUs to close."""
    for_team: Name | None = None
    """The team for which the GPUs are reserved. If not set, no run can use them."""


class CapacityRule(Section):
    """Nodes that are requested by scale hints at specific hours, even if no run is waiting."""

    name: Name
    """The name of the entry, as shown in messages."""
    weekly: Weekly
    gpu_type: Name = Field(examples=["a100-80gb"])
    """The GPU type of the requested nodes."""
    capacity_type: CapacityType = "on-demand"
    """The capacity type of the requested nodes."""
    nodes: Annotated[int, Field(ge=1)]
    """The number of nodes to request."""


class PlannedRule(Section):
    """A range of days on which you expect to spend more or less than usual."""

    name: Name
    """The name of the range, for example `holidays`."""
    first_day: Annotated[date, parsed_by(_day)]
    """The first day of the range, in UTC."""
    last_day: Annotated[date, parsed_by(_day)]
    """The last day of the range, in UTC. This day is included."""
    team: Name | None = None
    """The team to which the range applies. If not set, the range applies to all teams."""


class CalendarPolicy(Section):
    """Settings for maintenance windows, advance reservations, capacity by time of day, and planned
    spending."""

    closures: Sequence[ClosureRule] = ()
    capacity: Sequence[CapacityRule] = ()
    planned: Sequence[PlannedRule] = ()
    """Days that are excluded from anomaly detection. Their costs are not used as history for other
    days."""


def calendar_contradictions(policy: CalendarPolicy, field: str = "calendar") -> list[InvalidInput]:
    """The rules of the calendar that are incomplete or contradictory."""
    return [
        InvalidInput(f"{field}.closures.{index}", problem, remedy=remedy)
        for index, rule in enumerate(policy.closures)
        for problem, remedy in _mistakes(rule)
    ] + [
        InvalidInput(
            f"{field}.planned.{index}.last_day",
            "is before the first day",
            got=rule.last_day.isoformat(),
            allowed=f"{rule.first_day.isoformat()} or later",
        )
        for index, rule in enumerate(policy.planned)
        if rule.last_day < rule.first_day
    ]


def _mistakes(rule: ClosureRule) -> Iterator[tuple[str, str]]:
    moments = [m for m in (rule.starts_at, rule.ends_at) if m is not None]
    if len(moments) != (2 if rule.weekly is None else 0):
        yield "has no clear time", "specify either starts_at and ends_at or weekly"
    elif len(moments) == 2 and moments[0] >= moments[1]:
        yield "ends before it starts", "swap starts_at and ends_at"
    by_type = (rule.gpu_type is not None, rule.gpus is not None)
    if by_type != ((False, False) if rule.nodes else (True, True)):
        yield "does not clearly specify what is closed", "specify either nodes or gpu_type and gpus"
