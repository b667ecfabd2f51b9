"""Unusual points are found, ordinary ones are not, and the past is never judged anew."""

from collections.abc import Sequence
from datetime import date

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_core.decisions.costs.anomalies.detection.detector import AnomalyKind, JudgedPoint, detect
from gpu_core.decisions.costs.anomalies.detection.rhythm import DAILY, HOURLY
from gpu_core.decisions.model.errors import InvalidInput

USD = 1_000_000
FIRST_DAY = date(2026, 1, 5)  # a Monday
WEEK = (100, 100, 100, 100, 100, 40, 40)


def weeks(count: int, noise: float = 0.0, seed: int = 1) -> list[int]:
    """Days of quiet weekends."""
    chance = np.random.default_rng(seed)
    factors = np.exp(noise * chance.standard_normal(7 * count))
    return [round(WEEK[n % 7] * USD * factor) for n, factor in enumerate(factors)]


def judged(values: Sequence[int | None], **more: object) -> tuple[JudgedPoint, ...]:
    """Days, with a dollar as the floor."""
    return detect(values, DAILY, floor=USD, **more)  # type: ignore[arg-type] - tests name them


def flagged(points: Sequence[JudgedPoint]) -> dict[int, AnomalyKind]:
    """The unusual points by their index."""
    return {n: point.kind for n, point in enumerate(points) if point.kind is not None}


@pytest.mark.parametrize(
    ("at", "factor", "want"),
    [
        pytest.param(72, 2.0, AnomalyKind.SPIKE, id="a weekday that costs twice as much"),
        pytest.param(75, 2.5, AnomalyKind.SPIKE, id="a Saturday that costs as much as a weekday"),
        pytest.param(72, 0.4, AnomalyKind.DROP, id="a weekday that costs as little as a Saturday"),
        pytest.param(72, 1.2, None, id="20% are not worth an alert in the steadiest series"),
        pytest.param(72, 1.0, None, id="an ordinary weekday"),
    ],
)
def test_a_day_is_compared_with_its_weekday(
    at: int, factor: float, want: AnomalyKind | None
) -> None:
    values = weeks(12)
    values[at] = round(values[at] * factor)
    assert flagged(judged(values)) == ({} if want is None else {at: want})


def test_what_was_expected_is_the_weekday_at_the_present_level() -> None:
    values = weeks(12)
    values[75] *= 3
    assert judged(values)[75].expected == pytest.approx(40 * USD, rel=1e-6)


def test_a_difference_up_to_the_floor_is_never_unusual() -> None:
    values = [round(value / 100) for value in weeks(12)]  # a dollar a day
    values[72] = 2 * USD
    assert flagged(judged(values)) == {}
    values[72] += 1
    assert flagged(judged(values)) == {72: AnomalyKind.SPIKE}


def test_a_level_that_stays_is_reported_once_and_is_usual_after_two_weeks() -> None:
    values = weeks(20)
    for n in range(70, 140):
        values[n] = round(values[n] * 1.4)
    points = judged(values)
    assert [n for n, point in enumerate(points) if point.is_new] == [70]
    assert set(flagged(points)) == set(range(70, 85))
    assert {point.since for point in points if point.kind} == {70}


def test_a_level_shift_that_no_single_day_shows_is_found_with_its_first_day() -> None:
    values = weeks(20, noise=0.1)
    for n in range(70, 100):
        values[n] = round(values[n] * 1.35)
    new = [n for n, point in enumerate(judged(values)) if point.is_new]
    (found,) = [n for n in new if n >= 70][:1]
    assert found < 77
    assert judged(values)[found].since == 70


def test_a_slow_rise_is_found_within_two_weeks_and_named_so_within_days() -> None:
    values = weeks(20, noise=0.1)
    for n in range(70, 91):
        values[n] = round(values[n] * 1.04 ** (n - 69))
    points = judged(values)
    new = [n for n, point in enumerate(points) if point.is_new]
    assert 70 < new[0] < 84
    assert points[new[0] + 5].kind is AnomalyKind.SLOW_RISE


def test_a_flagged_day_is_left_out_of_later_baselines() -> None:
    values = weeks(14)
    dear = list(values)
    dear[72] *= 5
    assert [p.expected for p in judged(dear)[73:]] == [p.expected for p in judged(values)[73:]]


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_planned_days_are_neither_judged_nor_learned_from(noise: float) -> None:
    values = weeks(14, noise)
    planned = range(70, 77)
    dear = [value * 9 if n in planned else value for n, value in enumerate(values)]
    points = judged(dear, planned=planned)
    assert {n: points[n].expected for n in planned} == dict.fromkeys(planned)
    assert flagged(points) == flagged(judged(values, planned=planned))


def test_the_ends_of_months_are_compared_with_each_other() -> None:
    values = weeks(24)
    ends = [26, 54, 85, 115, 146]  # from January to May
    for n in ends:
        values[n] = round(values[n] * 1.6)
    found = flagged(judged(values, first_day=FIRST_DAY))
    assert set(found) <= {26, 54}
    assert set(ends) - {26} <= set(flagged(judged(values)))
    values[85] *= 3
    assert 85 in flagged(judged(values, first_day=FIRST_DAY))


@pytest.mark.parametrize(
    "unknown",
    [
        pytest.param(None, id="a day of which nothing is known"),
        pytest.param(-50 * USD, id="a correction that makes a day negative"),
    ],
)
def test_such_a_day_is_not_judged_and_changes_no_other(unknown: int | None) -> None:
    values: list[int | None] = [*weeks(14)]
    values[72] = unknown
    points = judged(values)
    assert (points[72].expected, points[72].kind) == (None, None)
    assert flagged(points) == {}


@pytest.mark.parametrize("count", [0, 1, 20])
def test_a_short_history_is_not_judged(count: int) -> None:
    values = [*weeks(4, noise=1.0)[:20], 10_000 * USD][-count:] if count else []
    assert [point.expected for point in judged(values)] == [None] * count


def test_a_floor_is_needed() -> None:
    with pytest.raises(InvalidInput, match="floor is out of range"):
        detect([1, 2], DAILY, floor=0)


days = st.lists(st.none() | st.integers(-(10**7), 10**10), max_size=60)


@settings(max_examples=60)
@given(start=st.integers(2, 6), more=days, later=days, data=st.data())
def test_a_day_is_judged_by_the_days_before_it_alone(
    start: int, more: list[int | None], later: list[int | None], data: st.DataObject
) -> None:
    known: list[int | None] = [*weeks(start, noise=0.2, seed=start), *more]
    planned = data.draw(st.sets(st.integers(0, 120), max_size=9))
    then = judged(known, first_day=FIRST_DAY, planned=planned)
    assert judged([*known, *later], first_day=FIRST_DAY, planned=planned)[: len(known)] == then
    for n, point in enumerate(then):
        assert (point.kind is None) == (point.since is None)
        assert point.since is None or point.since <= n
        assert not point.is_new or point.kind is not None
        if point.kind is AnomalyKind.SPIKE:
            assert point.value is not None
            assert point.expected is not None
            assert point.value - point.expected > USD
            assert n not in planned


def test_an_anomaly_has_one_new_day() -> None:
    values = weeks(30, noise=0.1, seed=4)
    for n in (*range(70, 73), 90, *range(120, 150)):
        values[n] *= 3
    points = judged(values)
    by_anomaly: dict[int, int] = {}
    for point in points:
        if point.since is not None:
            by_anomaly[point.since] = by_anomaly.get(point.since, 0) + point.is_new
    assert {70, 90, 120} <= set(by_anomaly)
    assert set(by_anomaly.values()) == {1}


def test_hours_have_a_season_of_a_week_and_one_alert_for_a_day() -> None:
    chance = np.random.default_rng(3)
    hours = np.arange(6 * 168)
    working = ((hours // 24 % 7) < 5) & ((hours % 24) >= 8)
    values = np.where(working, 50, 5) * np.exp(0.1 * chance.standard_normal(len(hours)))
    night = 5 * 168 + 27
    values[night : night + 3] = 50
    points = detect([round(v * USD) for v in values], HOURLY, floor=USD)
    assert [n for n, point in enumerate(points) if point.is_new] == [night]
