"""Since when a run is quiet, as a worker reads it."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from gpu_core.adapters.files.activity_report import read_activity_report, write_activity_report
from gpu_core.decisions.telemetry.activity import RunActivity
from gpu_core.decisions.telemetry.samples import GpuSample

START = datetime(2026, 11, 25, tzinfo=UTC)


def sampled():
    at = START + timedelta(seconds=1)
    sample = GpuSample(gpu_id="GPU-a", at=at, utilization_ratio=0.01, memory_used_bytes=2**30)
    return RunActivity.of(["GPU-a", "GPU-b"], START).with_samples({"GPU-a": sample}, at, cores=0.2)


def test_it_is_read_as_it_was_written(tmp_path):
    write_activity_report(tmp_path, sampled())
    assert read_activity_report(tmp_path) == sampled()


def test_without_samples_it_is_unknown(tmp_path):
    assert read_activity_report(tmp_path) is None
    write_activity_report(tmp_path / "gone", sampled())


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"at": "2026-11-25T00:00:00"}, id="a moment without a zone"),
        pytest.param({"at": "yesterday"}, id="no moment"),
        pytest.param({"gpus": [{"gpu_id": "GPU-a"}]}, id="a GPU without signals"),
        pytest.param(
            {"cores": {"value": "much", "quiet_since": None, "is_known": True}}, id="text"
        ),
        pytest.param({"cores": {"value": 1e999, "quiet_since": None, "is_known": True}}, id="inf"),
        pytest.param({"cores": {"value": 1.0, "quiet_since": None, "is_known": 1}}, id="no flag"),
    ],
)
def test_what_cannot_be_understood_is_unknown(tmp_path, change):
    write_activity_report(tmp_path, sampled())
    path = tmp_path / "activity.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert read_activity_report(tmp_path) is None
