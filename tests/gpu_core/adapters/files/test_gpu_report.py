"""The report of the sampler: what is read back, and what others may have put in its place."""

import json
import os

import pytest

from gpu_core.adapters.files.gpu_report import (
    GPUS_FILE,
    read_gpu_report,
    read_host_report,
    write_gpu_report,
)
from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.decisions.model.host_summary import HostSummary

FOUND = GpuSummary(gpu_id="GPU-a", samples=3, utilization_mean_ratio=0.5, energy_j=12.5)


def test_what_was_written_is_read(tmp_path):
    write_gpu_report(tmp_path, [GpuSummary(gpu_id="GPU-old", samples=1)])
    write_gpu_report(tmp_path, [FOUND])
    assert read_gpu_report(tmp_path) == (FOUND,)
    assert [path.name for path in tmp_path.iterdir()] == [GPUS_FILE]


def test_a_run_without_a_report_was_not_sampled(tmp_path, caplog):
    assert read_gpu_report(tmp_path) == ()
    assert caplog.text == ""


def test_a_folder_that_is_gone_stops_nothing(tmp_path):
    write_gpu_report(tmp_path / "gone", [FOUND])
    assert not (tmp_path / "gone").exists()


def test_a_newer_versions_values_are_left_out(tmp_path):
    row = {"gpu_id": "GPU-a", "samples": 3, "shininess": "high"}
    (tmp_path / GPUS_FILE).write_text(json.dumps({"gpus": [row], "error": None, "more": 1}))
    assert read_gpu_report(tmp_path) == (GpuSummary(gpu_id="GPU-a", samples=3),)


def gpus(**row):
    return json.dumps({"gpus": [{"gpu_id": "GPU-a", "samples": 3, **row}], "error": None})


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("", id="empty"),
        pytest.param("{", id="cut off"),
        pytest.param("[]", id="a list"),
        pytest.param('{"gpus": 3, "error": null}', id="no list of GPUs"),
        pytest.param('{"gpus": [3], "error": null}', id="no GPU"),
        pytest.param('{"gpus": []}', id="no error"),
        pytest.param('{"gpus": [{"gpu_id": "GPU-a"}], "error": null}', id="no number of samples"),
        pytest.param(gpus(samples="many"), id="text for a number"),
        pytest.param(gpus(samples=-1), id="a negative number"),
        pytest.param(gpus(gpu_id=7), id="a number for an id"),
        pytest.param(gpus(is_simulated="no"), id="text for yes or no"),
        pytest.param(gpus(energy_j=float("nan")), id="not a number"),
        pytest.param(gpus(energy_j=10**400), id="more than a database takes"),
        pytest.param(gpus(busy_ratio=True), id="yes for a number"),
        pytest.param("[" * 100_000, id="nested without end"),
        pytest.param(" " * 300_000, id="too large"),
    ],
)
def test_what_cannot_be_understood_is_ignored_and_logged(tmp_path, content, caplog):
    (tmp_path / GPUS_FILE).write_text(content)
    assert read_gpu_report(tmp_path) == ()
    assert caplog.text.count("because it could not be parsed") == 1


def test_a_pipe_in_its_place_blocks_no_reader(tmp_path):
    os.mkfifo(tmp_path / GPUS_FILE)
    assert read_gpu_report(tmp_path) == ()


def test_what_the_run_took_of_its_machine_is_read_too(tmp_path):
    host = HostSummary(samples=3, cores_mean=1.5, cores_max=2.0, memory_max_bytes=2**30)
    write_gpu_report(tmp_path, [FOUND], None, host)
    assert (read_gpu_report(tmp_path), read_host_report(tmp_path)) == ((FOUND,), host)


@pytest.mark.parametrize(
    ("host", "is_said"),
    [
        pytest.param("null", False, id="not sampled"),
        pytest.param("7", True, id="a number"),
        pytest.param('{"samples": "many"}', True, id="no number"),
        pytest.param('{"samples": 1, "memory_max_bytes": -1}', True, id="negative"),
        pytest.param('{"samples": 1, "cores_mean": true}', True, id="a truth"),
        pytest.param("{}", True, id="nothing"),
    ],
)
def test_a_host_that_cannot_be_understood_is_unknown(tmp_path, caplog, host, is_said):
    (tmp_path / GPUS_FILE).write_text(f'{{"gpus": [], "error": null, "host": {host}}}')
    assert read_host_report(tmp_path) is None
    assert bool(caplog.text) is is_said


def test_a_report_of_an_older_sampler_has_no_host(tmp_path, caplog):
    (tmp_path / GPUS_FILE).write_text('{"gpus": [], "error": null}')
    assert read_host_report(tmp_path) is None
    assert read_host_report(tmp_path / "gone") is None
    assert caplog.text == ""
