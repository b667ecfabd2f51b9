"""The score by which the forecasts of start times are compared."""

import pytest

from benchmarks.forecast import interval_score_s
from gpu_core.decisions.scheduling.forecasting.start_times import StartForecast


@pytest.mark.parametrize(
    ("waited_s", "score_s"),
    [
        pytest.param(150, 100, id="inside: the width"),
        pytest.param(200, 100, id="on the edge"),
        pytest.param(90, 200, id="10 s too early"),
        pytest.param(205, 150, id="5 s too late"),
    ],
)
def test_interval_score(waited_s: float, score_s: float) -> None:
    forecast = StartForecast(low_s=100, median_s=120, high_s=200)
    assert interval_score_s(forecast, waited_s) == pytest.approx(score_s)
