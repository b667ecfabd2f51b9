"""Which zone next: usefulness, leaving what failed, and when to come back."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.policy.capacity import ZonePolicy
from gpu_core.decisions.spot.zones import Stay, ZoneChoice, choose_zone

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
POLICY = ZonePolicy()
ABC = ("a", "b", "c")


def stay(zone: str, minutes: float, ended_min_ago: float) -> Stay:
    """So long, so long ago."""
    ended_at = NOW - timedelta(minutes=ended_min_ago)
    return Stay(zone=zone, began_at=ended_at - timedelta(minutes=minutes), ended_at=ended_at)


def choose(stays: list[Stay], zones: tuple[str, ...] = ABC) -> ZoneChoice:
    """With a changeover of 12 minutes."""
    return choose_zone(zones, stays, POLICY, changeover_s=720, now=NOW)


@pytest.mark.parametrize(
    ("stays", "want_zone"),
    [
        pytest.param([], "a", id="nothing is known: the first of them"),
        pytest.param([stay("a", 120, 0)], "b", id="the zone that has just interrupted is left"),
        pytest.param(
            [stay("a", 120, 600), stay("b", 13, 500), stay("c", 30, 400)],
            "a",
            id="the most useful time",
        ),
        pytest.param(
            [stay("a", 120, 600), stay("b", 5, 500), stay("c", 5, 400)] * 3,
            "a",
            id="what ends within its changeover was useless",
        ),
        pytest.param(
            [stay("a", 10_000, 1_500), stay("b", 100, 300), stay("a", 10, 100)],
            "b",
            id="what left the window does not count",
        ),
        pytest.param(
            [stay("a", 60, 0), stay("b", 0, 0.1), stay("c", 0, 0.2)],
            None,
            id="all have failed within a minute",
        ),
    ],
)
def test_the_next_zone(stays: list[Stay], want_zone: str | None) -> None:
    """Zones in the order of preference a, b, c."""
    assert choose(stays).zone == want_zone


def test_back_off_doubles_with_each_useless_stay_and_has_an_end() -> None:
    """60 s, 2 min, 4 min ... an hour; a useful stay starts it anew."""
    useless = [stay("a", 0, minutes) for minutes in (30, 20, 10)]
    one_zone = ("a",)

    def wait_s(stays: list[Stay]) -> float:
        retry_at = choose(stays, one_zone).retry_at
        return 0.0 if retry_at is None else (retry_at - NOW).total_seconds()

    assert wait_s([stay("a", 0, 0)]) == 60
    assert wait_s([*useless, stay("a", 0, 0)]) == 480
    assert wait_s([*useless, stay("a", 60, 5), stay("a", 0, 0)]) == 60
    assert wait_s([stay("a", 0, n / 10) for n in range(40)]) == 3600
    assert choose([stay("a", 0, 0)], one_zone).reason == (
        "all zones have failed recently; retrying at 12:01:00"
    )


def test_without_zones_there_is_nothing_to_choose() -> None:
    """And nothing to wait for."""
    choice = choose([], ())
    assert (choice.zone, choice.retry_at, choice.reason) == (None, None, "there is no zone")


def test_time_that_nothing_ended_counts_and_is_no_failure() -> None:
    """Ten hours in `b`, not ended, and a life of two in `a`; a job of a minute says little."""
    alive = replace(stay("b", 600, 0), was_interrupted=False)
    short = replace(stay("c", 1, 0), was_interrupted=False)
    choice = choose([stay("a", 120, 600), alive, short])
    assert [score.zone for score in choice.scores] == ["b", "c", "a"]
    assert choice.zone == "b"
    assert choice.reason == ("b: expected to provide 22h 45m of useful time, c 12h 57m, a 7h 39m")


@given(
    st.lists(
        st.builds(stay, st.sampled_from("abc"), st.floats(0, 600), st.floats(0, 2_000)), max_size=12
    )
)
def test_a_zone_or_a_moment_to_try_again(stays: list[Stay]) -> None:
    """Never neither, never a zone that is left alone, never later than the longest back-off."""
    choice = choose(stays)
    assert (choice.zone is None) is (choice.retry_at is not None)
    if choice.retry_at is not None:
        assert NOW < choice.retry_at <= NOW + timedelta(hours=1)
    assert all(s.blocked_until is None for s in choice.scores if s.zone == choice.zone)
    assert choose(stays[::-1]).zone == choice.zone
