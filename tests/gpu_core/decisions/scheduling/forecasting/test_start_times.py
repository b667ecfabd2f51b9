"""When a pending workload will start: learned from starts, with an honest interval."""

import json
import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.scheduling.forecasting.start_times import (
    QueueFeatures,
    StartForecaster,
    turnover_wait_s,
)

PLACE = QueueFeatures(
    gpus_wanted=8,
    gpus_ahead=56,
    gpu_s_ahead=56 * 3_600.0,
    total_gpus=64,
    started_gpus_per_s=0.02,
    head_waited_s=1_800.0,
)

features = st.builds(
    QueueFeatures,
    gpus_wanted=st.integers(1, 512),
    gpus_ahead=st.integers(0, 10_000),
    gpu_s_ahead=st.floats(0, 1e9),
    total_gpus=st.integers(1, 10_000),
    started_gpus_per_s=st.floats(0, 100),
    head_waited_s=st.floats(0, 1e6),
)


def taught(waits_s: list[float]) -> StartForecaster:
    forecaster = StartForecaster()
    for waited_s in waits_s:
        forecaster.observe(PLACE, waited_s)
    return forecaster


def test_says_nothing_before_it_has_seen_enough_starts() -> None:
    assert taught([60.0] * 19).forecast(PLACE) is None
    assert taught([60.0] * 20).forecast(PLACE) is not None


def test_the_same_place_means_the_same_wait() -> None:
    forecast = taught([600.0] * 50).forecast(PLACE)
    assert forecast is not None
    assert (forecast.low_s, forecast.median_s, forecast.high_s) == pytest.approx((600.0,) * 3)


def test_the_interval_is_the_spread_of_earlier_waits() -> None:
    forecast = taught([float(wait_s) for wait_s in range(100, 200)]).forecast(PLACE)
    assert forecast is not None
    assert forecast.low_s == pytest.approx(108, abs=1)
    assert forecast.median_s == pytest.approx(150, abs=1)
    assert forecast.high_s == pytest.approx(192, abs=1)


@pytest.mark.parametrize(
    "worse",
    [
        pytest.param({"gpus_ahead": 500}, id="more GPUs ahead"),
        pytest.param({"gpus_wanted": 64}, id="wants more"),
        pytest.param({"gpu_s_ahead": 1e7}, id="more work ahead"),
        pytest.param({"started_gpus_per_s": 0.001}, id="fewer starts"),
        pytest.param({"head_waited_s": 90_000.0}, id="the head has waited longer"),
    ],
)
def test_a_worse_place_waits_longer(worse: dict[str, float]) -> None:
    forecaster = taught([300.0, 600.0, 900.0] * 10)
    here, there = forecaster.forecast(PLACE), forecaster.forecast(replace(PLACE, **worse))
    assert here is not None
    assert there is not None
    assert there.median_s > here.median_s


@given(features, st.lists(st.floats(0, 1e7), min_size=20, max_size=40))
def test_every_forecast_is_an_interval_from_now_on(
    place: QueueFeatures, waits_s: list[float]
) -> None:
    forecast = taught(waits_s).forecast(place)
    assert forecast is not None
    assert 0 <= forecast.low_s <= forecast.median_s <= forecast.high_s < math.inf


def test_covers_what_it_says_when_waits_go_on_as_before() -> None:
    """Log-normal waits around a hidden rule; tails of 8% each leave 84%."""
    rng = random.Random(1)
    forecaster, hits, asked = StartForecaster(), 0, 0
    for _ in range(2_000):
        place = replace(PLACE, gpus_ahead=rng.randrange(500))
        waited_s = 3 * turnover_wait_s(place) * rng.lognormvariate(0, 0.7)
        forecast = forecaster.forecast(place)
        if forecast is not None:
            hits += forecast.low_s <= waited_s <= forecast.high_s
            asked += 1
        forecaster.observe(place, waited_s)
    assert hits / asked == pytest.approx(0.84, abs=0.03)


def test_goes_on_after_a_restart_as_if_there_was_none() -> None:
    forecaster = taught([float(wait_s) for wait_s in range(3_100)])
    restored = StartForecaster.from_state(json.loads(json.dumps(forecaster.state())))
    for each in (forecaster, restored):
        each.observe(PLACE, 5.0)
    assert restored.forecast(PLACE) == forecaster.forecast(PLACE)
    assert restored.state() == forecaster.state()


@pytest.mark.parametrize(
    "state",
    [
        pytest.param({}, id="empty"),
        pytest.param({"version": 2, "log_errors": []}, id="of another version"),
        pytest.param({"version": 1, "log_errors": None}, id="without errors"),
        pytest.param({"version": 1, "log_errors": ["x"]}, id="with words"),
    ],
)
def test_refuses_what_is_no_state(state: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match="forecaster is not a state of version 1"):
        StartForecaster.from_state(state)
