"""The bench's scorer agrees with the published one, and its years have what they say."""

import os
from pathlib import Path

import numpy as np
import pytest

from benchmarks.anomalies import deviations, measure_years
from benchmarks.cost_years import KINDS, LEARNING_DAYS, make_year
from benchmarks.numenta import LabeledSeries, normalized_score, read_series

FLAT = LabeledSeries("flat", (1.0,) * 1000, ((300, 349), (600, 649)))
DATA = os.environ.get("PREFECT_GPU_DATA")


@pytest.mark.parametrize(
    ("alerts", "profile", "want"),
    [
        pytest.param([], "standard", 0.0, id="silence"),
        pytest.param([300, 600], "standard", 100.0, id="an alert at the first point of each"),
        pytest.param([300, 310, 349, 600], "standard", 100.0, id="later alerts add nothing"),
        pytest.param([300], "standard", 50.0, id="one of two"),
        pytest.param([300, 600, 200], "standard", 97.25, id="a false alert before all windows"),
        pytest.param([300, 600, 200], "few false", 94.5, id="a false alert that costs twice"),
        pytest.param([300, 600, 10, 149], "standard", 100.0, id="the first 15% are for learning"),
        pytest.param([300], "few missed", 50.0, id="half, where a miss costs twice"),
    ],
)
def test_the_score(alerts: list[int], profile: str, want: float) -> None:
    assert normalized_score([FLAT], lambda _: alerts, profile) == pytest.approx(want)


def test_an_alert_is_worth_less_the_later_it_comes_and_costs_less_just_after_a_window() -> None:
    scores = [normalized_score([FLAT], lambda _, at=at: [at]) for at in (300, 325, 349, 351, 380)]
    assert scores == sorted(scores, reverse=True)
    assert scores[2] > 25 > 0 > scores[3]


@pytest.mark.skipif(DATA is None, reason="needs the series: set PREFECT_GPU_DATA")
def test_a_mean_plus_sigmas_scores_as_published() -> None:
    """64.9, with the k that is best for these labels."""
    series = read_series(Path(str(DATA)) / "nab")
    score = normalized_score(series, lambda s: np.flatnonzero(np.array(deviations(s)) >= 4.1952))
    assert round(score, 1) == 64.9


@pytest.mark.parametrize("kind", KINDS)
def test_a_year_without_noise_shows_its_anomalies_and_nothing_else(kind: str) -> None:
    found = measure_years("seasonal", kind, 0.0, 1)
    assert found.recall in (None, 1.0)
    assert found.false_alerts == 0
    assert make_year(kind, 0.0, 7) == make_year(kind, 0.0, 7)
    assert all(i.first >= LEARNING_DAYS for i in make_year(kind, 0.0, 7).injected)
