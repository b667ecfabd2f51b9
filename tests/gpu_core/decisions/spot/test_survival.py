"""Lifetimes: the law, its inverse, and learning its shape."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.spot.survival import (
    CYCLE_S,
    LIFE_SCALE_S,
    UP_SHAPE,
    Lifetimes,
    SpotRecord,
    age_at_hazard_s,
    hazard_per_s,
    longest_wait_s,
)

SHAPES = st.floats(0.2, 3.0)


@pytest.mark.parametrize(
    ("age_min", "want_ended"),
    [
        pytest.param(0, 0.33, id="new"),
        pytest.param(10, 0.23, id="10 minutes old"),
        pytest.param(20, 0.14, id="20 minutes old"),
        pytest.param(30, 0.13, id="30 minutes old"),
        pytest.param(60, 0.10, id="an hour old"),
    ],
)
def test_the_prior_says_what_the_traces_say(age_min: int, want_ended: float) -> None:
    """Of the times up of us-west-2a that had lasted so long, how many ended in 10 minutes?"""
    age_s = age_min * 60
    survive = ((age_s + LIFE_SCALE_S) / (age_s + 600 + LIFE_SCALE_S)) ** UP_SHAPE
    assert 1 - survive == pytest.approx(want_ended, abs=0.035)


@given(shape=SHAPES, age_s=st.floats(0, 1e6))
def test_the_age_of_a_hazard_is_the_inverse_of_the_hazard_of_an_age(
    shape: float, age_s: float
) -> None:
    """The hazard falls, so each has one age."""
    assert age_at_hazard_s(shape, hazard_per_s(shape, age_s)) == pytest.approx(age_s, abs=1e-3)


def test_a_hazard_that_never_is_so_high_has_age_0() -> None:
    """It is lower from the start."""
    assert age_at_hazard_s(0.7, 1.0) == 0


@given(shape=st.floats(0.2, 1.8), wait_s=st.floats(1, 2e4))
def test_the_longest_wait_has_that_mean(shape: float, wait_s: float) -> None:
    """E[min(life, w)], summed up numerically, and back to w."""
    steps = 1_000
    # Trapezoids over equal steps of ln(1 + t / scale), where the integrand is smooth.
    end = math.log1p(wait_s / LIFE_SCALE_S)
    points = [end * n / steps for n in range(steps + 1)]
    values = [math.exp(x * (1 - shape)) for x in points]
    mean_s = LIFE_SCALE_S * end / steps * (sum(values) - (values[0] + values[-1]) / 2)
    assert longest_wait_s(shape, mean_s) == pytest.approx(wait_s, rel=2e-3)


@pytest.mark.parametrize(
    ("shape", "mean_wait_s", "want_s"),
    [
        pytest.param(1.0, 0.0, 0.0, id="nothing may be waited"),
        pytest.param(1.0, -5.0, 0.0, id="less than nothing may be waited"),
        pytest.param(3.0, 1e4, math.inf, id="the mean life is shorter than that"),
        pytest.param(1.0, LIFE_SCALE_S, LIFE_SCALE_S * (math.e - 1), id="shape 1 is a logarithm"),
        pytest.param(0.5, 1e9, LIFE_SCALE_S * ((1 + 0.5e9 / 720) ** 2 - 1), id="heavy tail"),
        pytest.param(1.0, 1e9, math.inf, id="longer than numbers go"),
    ],
)
def test_the_edges_of_the_longest_wait(shape: float, mean_wait_s: float, want_s: float) -> None:
    """Named cases."""
    assert longest_wait_s(shape, mean_wait_s) == pytest.approx(want_s)


@pytest.mark.parametrize("shape", [0.4, 1.5])
def test_the_shape_is_learned(shape: float) -> None:
    """After 2,000 lives of another shape than the prior's, the estimate is that shape."""
    chance = random.Random(1)
    lives = Lifetimes()
    for _ in range(2_000):
        lives = lives.ended(LIFE_SCALE_S * ((1 - chance.random()) ** (-1 / shape) - 1))
    assert lives.shape(UP_SHAPE) == pytest.approx(shape, rel=0.08)


def test_a_long_life_that_goes_on_makes_the_shape_smaller() -> None:
    """It is evidence too, though it has no end."""
    assert (
        Lifetimes().shape(0.7, 36_000) < Lifetimes().shape(0.7, 60) < Lifetimes().shape(0.7) == 0.7
    )


def test_a_record_of_looks() -> None:
    """Up, up, away, away, up: a time up of two looks, a time away of two, and a new time up."""
    record = SpotRecord(is_up=True)
    for is_up in (True, False, False, True):
        record = record.looked(60, is_up=is_up)
    assert record == SpotRecord(
        is_up=True, age_s=0, observed_s=240, up=Lifetimes().ended(120), away=Lifetimes().ended(120)
    )


def test_the_length_of_a_cycle_moves_from_the_prior_to_what_was_seen() -> None:
    """Flapping every minute for a day."""
    record = SpotRecord(is_up=True)
    assert record.cycle_s == CYCLE_S
    for look in range(1_440):
        record = record.looked(60, is_up=look % 2 == 0)
    assert 120 < record.cycle_s < 190
