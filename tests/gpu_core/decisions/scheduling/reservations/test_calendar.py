"""Which capacity is there by the clock; clocks change."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gpu_core.decisions.model.cluster import Flavor
from gpu_core.decisions.model.pydantic_errors import input_errors
from gpu_core.decisions.policy.calendar import CalendarPolicy, calendar_contradictions
from gpu_core.decisions.scheduling.reservations.calendar import (
    Closure,
    scheduled_nodes,
    windows_between,
)

EVERY_DAY = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
WORKDAYS = EVERY_DAY[:5]
DAY = timedelta(days=1)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def weekly(starts: Any, ends: str, zone: str = "UTC", weekdays: Any = EVERY_DAY) -> dict[str, Any]:
    return {"weekdays": weekdays, "starts": starts, "ends": ends, "zone": zone}


def policy(*closures: dict[str, Any], **more: Any) -> CalendarPolicy:
    return CalendarPolicy.model_validate(
        {"closures": [{"name": "upkeep", **closure} for closure in closures], **more}
    )


def times(closed: dict[str, Any], day: str, days: int = 1) -> list[tuple[str, str]]:
    """Start and end, in UTC, of what begins on these days."""
    start = utc(day)
    return [
        (f"{c.starts_at:%d %H:%M}", f"{c.ends_at:%d %H:%M}")
        for c in windows_between(policy({"nodes": ["n1"], **closed}), start, start + days * DAY)
    ]


ONCE = {"starts_at": "2026-09-01T08:00+02:00", "ends_at": datetime(2026, 9, 1, 12, tzinfo=UTC)}


def test_a_maintenance_window() -> None:
    rules = policy({"nodes": ["n1", "n2"], **ONCE})
    assert windows_between(rules, utc("2026-09-01"), utc("2026-09-02")) == (
        Closure(
            name="upkeep",
            starts_at=utc("2026-09-01T06:00"),
            ends_at=utc("2026-09-01T12:00"),
            nodes=("n1", "n2"),
        ),
    )


def test_a_reservation_is_open_to_its_team_alone() -> None:
    rules = policy({"gpu_type": "t4", "gpus": 4, "for_team": "vision", **ONCE})
    (closure,) = windows_between(rules, utc("2026-09-01"), utc("2026-09-02"))
    assert (closure.flavor, closure.gpus) == (Flavor("t4", "on-demand"), 4)
    assert closure.for_team == "vision"


def test_maintenance_is_closed_to_all() -> None:
    (closure,) = windows_between(
        policy({"nodes": ["n1"], **ONCE}), utc("2026-09-01"), utc("2026-09-02")
    )
    assert closure.for_team is None


@pytest.mark.parametrize(
    ("start", "end", "is_seen"),
    [
        pytest.param("2026-09-01T05:00", "2026-09-01T06:00", False, id="ends as it starts"),
        pytest.param("2026-09-01T05:00", "2026-09-01T06:01", True, id="begins in it"),
        pytest.param("2026-09-01T07:00", "2026-09-01T08:00", True, id="lies in the midst of it"),
        pytest.param("2026-09-01T11:59", "2026-09-01T13:00", True, id="sees its end"),
        pytest.param("2026-09-01T12:00", "2026-09-01T13:00", False, id="starts as it ends"),
    ],
)
def test_which_windows_are_between(start: str, end: str, is_seen: bool) -> None:
    rules = policy({"nodes": ["n1"], **ONCE})
    assert bool(windows_between(rules, utc(start), utc(end))) is is_seen


@pytest.mark.parametrize(
    ("hours", "day", "expected"),
    [
        pytest.param(
            weekly("08:00", "12:00", "Europe/Berlin"),
            "2026-03-28",
            ("28 07:00", "28 11:00"),
            id="the day before clocks go forward",
        ),
        pytest.param(
            weekly("08:00", "12:00", "Europe/Berlin"),
            "2026-03-29",
            ("29 06:00", "29 10:00"),
            id="the day when clocks go forward",
        ),
        pytest.param(
            weekly("01:30", "03:30", "Europe/Berlin"),
            "2026-03-29",
            ("29 00:30", "29 01:30"),
            id="over the gap: an hour less",
        ),
        pytest.param(
            weekly("02:30", "04:00", "Europe/Berlin"),
            "2026-03-29",
            ("29 01:30", "29 02:00"),
            id="starts in the gap: as if clocks went on",
        ),
        pytest.param(
            weekly("01:00", "02:30", "Europe/Berlin"),
            "2026-03-29",
            ("29 00:00", "29 01:30"),
            id="ends in the gap: as long as always",
        ),
        pytest.param(
            weekly("01:30", "03:30", "Europe/Berlin"),
            "2026-10-25",
            ("24 23:30", "25 02:30"),
            id="over the repeated hour: an hour more",
        ),
        pytest.param(
            weekly("02:30", "04:00", "Europe/Berlin"),
            "2026-10-25",
            ("25 00:30", "25 03:00"),
            id="starts the first time",
        ),
        pytest.param(
            weekly("01:00", "02:30", "Europe/Berlin"),
            "2026-10-25",
            ("24 23:00", "25 01:30"),
            id="ends the second time",
        ),
        pytest.param(
            weekly("22:00", "06:00", "America/New_York", ["sat"]),
            "2026-11-01",
            ("01 02:00", "01 11:00"),
            id="over midnight, on the night when clocks go back",
        ),
    ],
)
def test_wall_clock_times_where_clocks_change(
    hours: dict[str, Any], day: str, expected: tuple[str, str]
) -> None:
    assert expected in times({"weekly": hours}, day)


def test_a_window_that_the_gap_swallows_is_not_there() -> None:
    hours = weekly("02:30", "03:10", "Europe/Berlin")
    assert times({"weekly": hours}, "2026-03-29") == []
    assert times({"weekly": hours}, "2026-03-30") == [("30 00:30", "30 01:10")]


def test_only_on_its_weekdays() -> None:
    hours = weekly("08:00", "12:00", weekdays=["mon", "wed"])
    assert times({"weekly": hours}, "2026-08-31", days=7) == [
        ("31 08:00", "31 12:00"),
        ("02 08:00", "02 12:00"),
    ]


def test_a_window_from_the_day_before_is_still_open() -> None:
    rules = policy({"nodes": ["n1"], "weekly": weekly("22:00", "06:00", weekdays=["mon"])})
    start = utc("2026-09-01T03:00")
    (closure,) = windows_between(rules, start, start + timedelta(minutes=1))
    assert closure.starts_at == utc("2026-08-31T22:00")


def test_equal_times_are_a_whole_day() -> None:
    hours = weekly("00:00", "00:00", weekdays=["tue"])
    assert times({"weekly": hours}, "2026-09-01") == [("01 00:00", "02 00:00")]


MORNINGS = {
    "name": "mornings",
    "gpu_type": "t4",
    "nodes": 3,
    "weekly": weekly("08:00", "12:00", "Europe/Berlin", WORKDAYS),
}


@pytest.mark.parametrize(
    ("now", "nodes"),
    [
        pytest.param("2026-09-01T05:59", None, id="too early"),
        pytest.param("2026-09-01T06:00", 3, id="from eight"),
        pytest.param("2026-09-01T09:00", 4, id="the larger of two"),
        pytest.param("2026-09-01T10:00", None, id="until twelve"),
        pytest.param("2026-09-05T08:00", None, id="a Saturday"),
        pytest.param("2026-12-01T06:30", None, id="winter: half past seven"),
    ],
)
def test_nodes_wanted_on_weekday_mornings(now: str, nodes: int | None) -> None:
    later = MORNINGS | {"nodes": 4, "weekly": weekly("09:00", "10:00")}
    wanted = scheduled_nodes(policy(capacity=[MORNINGS, later]), utc(now))
    assert wanted == ({} if nodes is None else {Flavor("t4", "on-demand"): nodes})


HOURS = {"weekly": weekly("08:00", "12:00")}


@pytest.mark.parametrize(
    ("closed", "problems"),
    [
        pytest.param({**ONCE, "nodes": ["n1"]}, [], id="nodes, once"),
        pytest.param({**HOURS, "gpu_type": "t4", "gpus": 1}, [], id="GPUs, weekly"),
        pytest.param({"nodes": ["n1"]}, ["has no clear time"], id="never"),
        pytest.param({**ONCE, **HOURS, "nodes": ["n1"]}, ["has no clear time"], id="both"),
        pytest.param(
            {"starts_at": ONCE["starts_at"], "nodes": ["n1"]}, ["has no clear time"], id="no end"
        ),
        pytest.param(
            {"starts_at": ONCE["ends_at"], "ends_at": ONCE["starts_at"], "nodes": ["n1"]},
            ["ends before it starts"],
            id="backwards",
        ),
        pytest.param(HOURS, ["does not clearly specify what is closed"], id="nothing"),
        pytest.param(
            {**HOURS, "nodes": ["n1"], "gpus": 1},
            ["does not clearly specify what is closed"],
            id="nodes and GPUs",
        ),
        pytest.param(
            {**HOURS, "gpus": 1}, ["does not clearly specify what is closed"], id="GPUs of no type"
        ),
    ],
)
def test_rules_that_say_too_little_or_too_much(closed: dict[str, Any], problems: list[str]) -> None:
    errors = calendar_contradictions(policy(closed))
    assert [error.problem for error in errors] == problems
    assert all(error.field == "calendar.closures.0" for error in errors)


@pytest.mark.parametrize(
    ("closed", "message"),
    [
        pytest.param({"weekly": weekly(600, "12:00")}, "Quote it", id="YAML's 10:00"),
        pytest.param({"weekly": weekly("24:00", "12:00")}, "is not a time of day", id="24:00"),
        pytest.param(
            {"weekly": weekly("08:00", "12:00", "Europe/Berlim")}, "'Europe/Berlin'", id="zone"
        ),
        pytest.param({"weekly": weekly("08:00", "12:00", "../x")}, "not a time zone", id="path"),
        pytest.param({"starts_at": "2026-09-01T08:00"}, "has no time zone", id="naive"),
        pytest.param({"starts_at": "tomorrow"}, "is not a moment", id="words"),
    ],
)
def test_mistakes_are_named(closed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as raised:
        policy(closed)
    (error,) = input_errors(raised.value, CalendarPolicy)
    assert message in str(error)


@given(
    st.integers(0, 23),
    st.integers(0, 23),
    st.integers(0, 365 * 24),
    st.integers(1, 72),
)
def test_a_part_of_the_time_sees_what_the_whole_sees(
    starts: int, ends: int, since_new_year_h: int, hours: int
) -> None:
    """Each window of a span is seen from the half of the span that it is in."""
    rules = policy(
        {"nodes": ["n1"], "weekly": weekly(f"{starts:02}:30", f"{ends:02}:00", "Europe/Berlin")}
    )
    start = utc("2026-01-01") + timedelta(hours=since_new_year_h)
    half, end = start + timedelta(hours=hours), start + 2 * timedelta(hours=hours)
    whole = set(windows_between(rules, start, end))
    halves = {*windows_between(rules, start, half), *windows_between(rules, half, end)}
    assert whole == halves
    assert all(timedelta(0) < c.ends_at - c.starts_at <= timedelta(hours=25) for c in whole)
