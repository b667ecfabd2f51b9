"""Do start forecasts hold on a real month? `python -m benchmarks.forecast --data DIR [--json]`.

A forecast is made once, when a job is submitted and does not start at once; only waits of over
60 s are scored, and only what was learned from starts before the submission is used. Jobs submitted
on 1-10 October are the development part, the rest is the evaluation.

The baseline: the median is GPUs ahead and wanted by the rate of GPUs started in the last hour (with
our own lower bound on that rate), the interval from the 10% and 90% quantiles of the ratio of the
wait to that, over the last 200 or the last 3,000 starts.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Protocol

from benchmarks.line_simulator import ORDERS, Order, Queued, replay
from benchmarks.philly import Job, read_jobs
from gpu_core.decisions.model.recent_sample import RecentSample
from gpu_core.decisions.scheduling.forecasting.start_times import (
    COVERAGE,
    QueueFeatures,
    StartForecast,
    StartForecaster,
    turnover_wait_s,
)

DEVELOPMENT_S = 10 * 86_400
SCORED_WAIT_S = 60


class Forecaster(Protocol):
    """What is compared."""

    def observe(self, features: QueueFeatures, waited_s: float) -> None:
        """Learn from a start."""

    def forecast(self, features: QueueFeatures) -> StartForecast | None:
        """Say when it starts."""


class TurnoverForecaster:
    """The baseline: GPUs ahead by the recent rate, with the quantiles of its recent errors."""

    def __init__(self, remembered_starts: int) -> None:
        self._ratios = RecentSample(remembered_starts)

    def observe(self, features: QueueFeatures, waited_s: float) -> None:
        """Learn from a start."""
        self._ratios.add(waited_s / turnover_wait_s(features))

    def forecast(self, features: QueueFeatures) -> StartForecast | None:
        """Say when it starts."""
        low, high = self._ratios.upper(0.1), self._ratios.upper(0.9)
        if low is None or high is None or len(self._ratios) < 20:
            return None
        wait_s = turnover_wait_s(features)
        return StartForecast(low_s=wait_s * low, median_s=wait_s, high_s=wait_s * high)


FORECASTERS: dict[str, Callable[[], Forecaster]] = {
    "ours": StartForecaster,
    "baseline, 200": lambda: TurnoverForecaster(200),
    "baseline, 3,000": lambda: TurnoverForecaster(3_000),
}


def main() -> None:
    """Print the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder with queueing/")
    parser.add_argument("--json", action="store_true", help="one JSON object for each line")
    arguments = parser.parse_args()
    jobs = read_jobs(arguments.data)
    for order in ORDERS:
        for row in measure(jobs, order):
            print(json.dumps(row) if arguments.json else _line(row))


def measure(jobs: list[Job], order: Order) -> list[dict[str, str | int | float]]:
    """Coverage, interval score and median error of each forecaster on each part of the month."""
    forecasters = {name: make() for name, make in FORECASTERS.items()}
    made: dict[int, tuple[QueueFeatures, dict[str, StartForecast | None]]] = {}
    results: dict[tuple[str, str], list[tuple[bool, float, float]]] = {}
    for event in replay(jobs, order):
        job = event.job
        if isinstance(event, Queued):
            forecasts = {name: f.forecast(event.features) for name, f in forecasters.items()}
            made[job.job_id] = (event.features, forecasts)
            continue
        features, forecasts = made.pop(job.job_id)
        part = "development" if job.submit_s < DEVELOPMENT_S else "evaluation"
        for name, forecaster in forecasters.items():
            forecaster.observe(features, event.waited_s)
            forecast = forecasts[name]
            if forecast is not None and event.waited_s > SCORED_WAIT_S:
                results.setdefault((part, name), []).append(_result(forecast, event.waited_s))
    return [
        {
            "order": order.name,
            "part": part,
            "forecaster": name,
            "forecasts": len(rows),
            "coverage": round(fmean(row[0] for row in rows), 4),
            "interval_score_s": round(fmean(row[1] for row in rows)),
            "median_error_s": round(fmean(row[2] for row in rows)),
        }
        for (part, name), rows in sorted(results.items())
    ]


def interval_score_s(forecast: StartForecast, waited_s: float) -> float:
    """How good was this interval? Its width, and ten seconds for each second it missed by.

    The interval score for a central 80% interval, less is better; Gneiting & Raftery, JASA
    102(477), 2007, section 6.2.
    """
    missed_s = max(forecast.low_s - waited_s, waited_s - forecast.high_s, 0.0)
    return forecast.high_s - forecast.low_s + 2 / (1 - COVERAGE) * missed_s


def _result(forecast: StartForecast, waited_s: float) -> tuple[bool, float, float]:
    return (
        forecast.low_s <= waited_s <= forecast.high_s,
        interval_score_s(forecast, waited_s),
        abs(forecast.median_s - waited_s),
    )


def _line(row: dict[str, str | int | float]) -> str:
    return (
        f"{row['order']:6} {row['part']:11} {row['forecaster']:15} {row['forecasts']:6,} "
        f"coverage {row['coverage']:6.1%} interval score {row['interval_score_s']:9,} s "
        f"mean error {row['median_error_s']:7,} s"
    )


if __name__ == "__main__":
    main()
