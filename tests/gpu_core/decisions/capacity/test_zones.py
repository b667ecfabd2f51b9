"""Which zone next: usefulness, price, leaving what failed, and when to come back."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.capacity.policy import ZonePolicy
from gpu_core.decisions.capacity.zones import Stay, ZoneChoice, ZoneOffer, choose_zone

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
POLICY = ZonePolicy()
ABC = tuple(ZoneOffer(zone=zone) for zone in "abc")


def stay(zone: str, minutes: float, ended_min_ago: float) -> Stay:
    """So long, so long ago."""
    ended_at = NOW - timedelta(minutes=ended_min_ago)
    return Stay(zone=zone, began_at=ended_at - timedelta(minutes=minutes), ended_at=ended_at)


def choose(
    stays: list[Stay], offers: tuple[ZoneOffer, ...] = ABC, on_demand: int | None = None
) -> ZoneChoice:
    """With a changeover of 12 minutes."""
    return choose_zone(
        offers,
        stays,
        POLICY,
        changeover_s=720,
        on_demand_micro_usd_per_hour=on_demand,
        now=NOW,
    )


@pytest.mark.parametrize(
    ("stays", "want_zone"),
    [
        pytest.param([], "a", id="nothing is known: the first of the offers"),
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
    one_zone = (ZoneOffer(zone="a"),)

    def wait_s(stays: list[Stay]) -> float:
        retry_at = choose(stays, one_zone).retry_at
        return 0.0 if retry_at is None else (retry_at - NOW).total_seconds()

    assert wait_s([stay("a", 0, 0)]) == 60
    assert wait_s([*useless, stay("a", 0, 0)]) == 480
    assert wait_s([*useless, stay("a", 60, 5), stay("a", 0, 0)]) == 60
    assert wait_s([stay("a", 0, n / 10) for n in range(40)]) == 3600
    assert choose([stay("a", 0, 0)], one_zone).reason == (
        "every zone has failed lately; again at 12:01:00"
    )


def test_a_cheaper_zone_wins_where_both_last_as_long() -> None:
    """And one at on-demand's price is none."""
    prices = {"a": 3_000_000, "b": 1_500_000, "c": 1_000_000}
    offers = tuple(
        ZoneOffer(zone=zone, spot_micro_usd_per_hour=price) for zone, price in prices.items()
    )
    choice = choose([], offers, on_demand=3_000_000)
    assert [score.zone for score in choice.scores] == ["c", "b"]
    assert "saves 67%" in choice.reason
    nothing = choose([], offers[:1], on_demand=3_000_000)
    assert nothing.zone is None
    assert nothing.retry_at is None
    assert nothing.reason == "no zone has spot that is cheaper than on-demand"


def test_without_all_prices_only_time_counts() -> None:
    """And it says so."""
    offers = (ZoneOffer(zone="a", spot_micro_usd_per_hour=2_000_000), ZoneOffer(zone="b"))
    choice = choose([], offers, on_demand=3_000_000)
    assert choice.zone == "a"
    assert "prices unknown" in choice.reason


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
