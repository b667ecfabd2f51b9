"""Scrapes of other exporters become samples under our metric names, for each generation.

The files in `scrapes/` have the names, types, help texts and labels of each release, and values of
an H100 that works and of one that does not.
"""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gpu_core.adapters.prometheus.exposition import exposition
from gpu_core.decisions.telemetry.metrics import gpu_metrics
from gpu_core.decisions.telemetry.samples import GpuSample, RemappedRows
from gpu_core.decisions.telemetry.series import Series, readings_of

SCRAPES = Path(__file__).with_name("scrapes")
NOW = datetime(2026, 11, 25, tzinfo=UTC)
MIB = 2**20

BUSY_ID = "GPU-8b2281de-6d3c-22ed-0ec8-d3b864870b8b"
IDLE_ID = "GPU-15338f3e-5fd9-962d-921a-979b820520f0"


def read(name):
    return readings_of(series_of((SCRAPES / name).read_text()))


def series_of(text):
    return tuple(
        Series(name=sample.name, labels=sample.labels, value=float(sample.value), at=NOW)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    )


# Whether a row could not be replaced is in their lists of metrics by default; the last release's
# scrape has none of the rows.
NO_FAILURE = RemappedRows(has_failed=False)


def want_busy(**known):
    return GpuSample(
        gpu_id=BUSY_ID,
        at=NOW,
        utilization_ratio=0.93,
        memory_busy_ratio=0.4,
        memory_used_bytes=40960 * MIB,
        memory_total_bytes=81920 * MIB,
        temperature_c=66.0,
        power_w=512.5,
        pcie_sent_bytes_per_s=5e6,
        pcie_received_bytes_per_s=7e6,
        sm_clock_hz=1.98e9,
        memory_clock_hz=2.619e9,
        **known,
    )


def rounded(sample):
    """Without the last digits of floating point numbers."""
    values = {name: getattr(sample, name) for name in GpuSample.__dataclass_fields__}
    return {k: round(v, 6) if isinstance(v, float) else v for k, v in values.items()}


@pytest.mark.parametrize(
    ("name", "known"),
    [
        pytest.param(
            "dcgm-exporter-4.5.0.txt",
            {"energy_j": 123456.789, "remapped_rows": NO_FAILURE},
            id="Hostname",
        ),
        pytest.param(
            "dcgm-exporter-4.8.3.txt",
            {"energy_j": 123456.789, "sm_active_ratio": 0.62, "remapped_rows": NO_FAILURE},
            id="hostname, and the activity of the multiprocessors switched on",
        ),
        pytest.param(
            "dcgm-exporter-4.9.0.txt",
            {"energy_j": 123456.0, "sm_active_ratio": 0.62},
            id="renamed, in base units",
        ),
    ],
)
def test_every_generation_of_dcgm_exporter_says_the_same(name, known):
    idle, busy = read(name)
    assert rounded(busy.sample) == rounded(want_busy(**known))
    assert (busy.node, busy.namespace, busy.pod, busy.container) == (
        *("gpu-node-1", "vision"),
        *("gpu-train-x7k2p", "main"),
    )
    assert idle.sample.gpu_id == IDLE_ID
    assert idle.sample.utilization_ratio == 0.0, "0 is a measurement"
    assert idle.sample.energy_j is None, "a blank of DCGM is none"
    assert (idle.node, idle.namespace, idle.pod) == ("gpu-node-1", None, None)


def test_mig_instances_have_their_own_memory_and_activity_and_the_gpus_temperature():
    gpu, third, fourth = read("dcgm-exporter-mig.txt")
    assert (gpu.sample.temperature_c, gpu.sample.power_w) == (35.0, 30.1)
    assert gpu.sample.memory_used_bytes is None
    assert (gpu.node, gpu.pod) == ("mig-node", None), "its pod is on one instance only"
    assert third.sample.gpu_id == f"{gpu.sample.gpu_id}/3"
    assert third.sample.parent_gpu_id == fourth.sample.parent_gpu_id == gpu.sample.gpu_id
    assert (third.sample.utilization_ratio, fourth.sample.utilization_ratio) == (0.75, 0.0)
    assert third.sample.memory_total_bytes == (1234 + 4700) * MIB
    assert third.sample.temperature_c is None
    assert (third.pod, fourth.pod) == ("asr-0", None)


def test_the_older_exporter_on_nvidia_smi_is_read_too():
    (found,) = read("nvidia_gpu_exporter.txt")
    assert found.sample == GpuSample(
        gpu_id="GPU-df6e7a7c-7314-46f8-abc4-b88b36dcf3aa",
        at=NOW,
        utilization_ratio=0.5,
        memory_used_bytes=706740224,
        memory_total_bytes=8589934592,
        temperature_c=34.0,
        power_w=28.07,
        sm_clock_hz=6e6,
    )


def test_what_we_export_is_read_back():
    sample = want_busy(energy_j=123456.789, sm_active_ratio=0.62, ecc_uncorrected=2)
    text = exposition(gpu_metrics([sample], {}, frozenset())).decode()
    (found,) = readings_of(series_of(text))
    assert found.sample == sample


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("node_load1 0.5\n", id="another exporter"),
        pytest.param('DCGM_FI_DEV_GPU_UTIL{gpu="0"} 93\n', id="no UUID"),
        pytest.param('prefect_gpu_device_utilization_ratio{gpu=""} 0.5\n', id="an empty id"),
    ],
)
def test_what_names_no_gpu_is_ignored(text):
    assert readings_of(series_of(text)) == ()
