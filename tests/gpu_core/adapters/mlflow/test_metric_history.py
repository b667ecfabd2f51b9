"""The values of a metric in the order of their times, whatever the order in which they came."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from gpu_core.adapters.mlflow import metric_history
from gpu_core.adapters.mlflow.metric_history import read_metric
from gpu_core.decisions.model.errors import InvalidInput

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)


def history(monkeypatch, *points):
    """What is read of a run that has logged these times, steps and values."""
    logged = [SimpleNamespace(timestamp=at, step=step, value=value) for at, step, value in points]
    client = SimpleNamespace(get_metric_history=lambda *_: logged)
    run = SimpleNamespace(
        data=SimpleNamespace(metrics={"loss": 1.0}), info=SimpleNamespace(run_id="1")
    )
    monkeypatch.setattr(metric_history, "own_runs", lambda *_: [run])
    return read_metric(client, "run", "loss").points


def test_of_equal_times_the_later_step_counts(monkeypatch):
    points = history(monkeypatch, (NOON_MS + 5, 1, 0.5), (NOON_MS, 3, 0.3), (NOON_MS, 2, 0.4))
    assert [point.value for point in points] == [0.4, 0.3, 0.5]
    assert points[0].at == NOON


def test_nanoseconds_in_place_of_milliseconds_are_named(monkeypatch):
    with pytest.raises(InvalidInput, match="milliseconds since 1970"):
        history(monkeypatch, (NOON_MS * 1_000_000, 1, 0.5))
