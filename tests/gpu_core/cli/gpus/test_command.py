import json
from datetime import UTC, datetime, timedelta

import pytest

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.nvml.driver import DriverReplacedError
from gpu_core.cli.gpus.node_exporter import NodeExporter
from gpu_core.cli.main import main
from gpu_core.decisions.model.gpu_health import HealthVerdict
from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.decisions.telemetry.health import HealthFinding
from gpu_core.decisions.telemetry.history import GpuWindow
from gpu_core.worker.process.gpus.held import HeldGpus

HOT = HealthFinding(
    verdict=HealthVerdict.DRAIN,
    reason="90 °C, from 85 °C on it is too hot",
    remedy="check its cooling",
    found_at=datetime(2026, 11, 25, 12, 30, tzinfo=UTC),
)


@pytest.fixture
def held(tmp_path, monkeypatch):
    monkeypatch.setenv("PREFECT_INTEGRATIONS_GPU_STATE_DIR", str(tmp_path))
    return HeldGpus(tmp_path)


def test_held_gpus_are_shown_with_why_and_what_helps(held, capsys):
    held.hold("GPU-aaaa", HOT)
    assert main(["gpus", "held"]) == 0
    assert capsys.readouterr().out == (
        "GPU-aaaa  drain since 2026-11-25 12:30 UTC: 90 °C, from 85 °C on it is too hot. "
        "Check its cooling.\n"
    )
    assert main(["gpus", "held", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {
            "gpu_id": "GPU-aaaa",
            "verdict": "drain",
            "reason": HOT.reason,
            "remedy": HOT.remedy,
            "found_at": "2026-11-25T12:30:00+00:00",
        }
    ]


def test_without_held_gpus_it_says_so(held, capsys):
    assert main(["gpus", "held"]) == 0
    assert capsys.readouterr().out == "No held GPUs found on this machine.\n"


def test_a_freed_gpu_is_held_no_longer(held, capsys):
    held.hold("GPU-aaaa", HOT)
    assert main(["gpus", "free", "GPU-aaaa"]) == 0
    assert held.read() == {}


@pytest.mark.parametrize("command", [["held"], ["free", "GPU-aaaa"]])
def test_a_setting_that_cannot_be_used_is_named(held, capsys, monkeypatch, command):
    monkeypatch.setenv("PREFECT_INTEGRATIONS_GPU_SAMPLE_INTERVAL_S", "often")
    assert main(["gpus", *command]) == 2
    assert "PREFECT_INTEGRATIONS_GPU_SAMPLE_INTERVAL_S" in capsys.readouterr().err


@pytest.mark.parametrize("typed", ["GPU-aaab", "../GPU-aaaa", "", ".", "GPU-aaaa/"])
def test_what_is_not_held_is_refused_and_nothing_is_freed(held, capsys, typed):
    held.hold("GPU-aaaa", HOT)
    assert main(["gpus", "free", typed]) == 2
    assert "is not a held GPU of this machine" in capsys.readouterr().err
    assert list(held.read()) == ["GPU-aaaa"]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        pytest.param("--port", "70000", id="no port"),
        pytest.param("--port", "-1", id="a negative port"),
        pytest.param("--interval", "0.01", id="too often"),
        pytest.param("--interval", "61", id="too seldom"),
        pytest.param("--interval", "nan", id="not a number"),
    ],
)
def test_an_exporter_refuses_what_it_cannot_do(option, value, capsys):
    assert main(["gpus", "export", option, value]) == 2
    assert option in capsys.readouterr().err


class ReplacedDriver:
    """A driver that was replaced while the exporter ran."""

    def sample(self, now):
        raise DriverReplacedError("the NVIDIA driver was replaced: mismatch")

    def close(self):
        pass


def test_an_exporter_ends_when_only_a_new_process_loads_the_library_of_the_driver(caplog):
    exporter = NodeExporter(1.0, sampler=ReplacedDriver(), discover=lambda: ())
    seen = []
    while not exporter.is_outdated:
        seen.append(exporter.look(datetime.now(UTC)))
    assert seen == [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0]
    assert caplog.text.count("The GPUs of this node are unknown: the NVIDIA driver was repl") == 1


def test_the_last_minutes_of_gpus_are_shown(tmp_path, capsys):
    url = f"sqlite:///{tmp_path}/ledger.db"
    minute = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=2)
    summary = GpuSummary(
        gpu_id="GPU-aaaa",
        samples=60,
        utilization_mean_ratio=0.5,
        utilization_p95_ratio=0.93,
        memory_used_max_bytes=40 * 2**30,
        energy_j=36_000.0,
    )
    with Ledger.open(url) as ledger:
        ledger.add_gpu_windows([GpuWindow(minute=minute, summary=summary)], minute)
    assert main(["gpus", "history", "--ledger", url]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.split("  ")[0] == "Minute (UTC)"
    assert row.split() == [
        *(f"{minute:%Y-%m-%d}", f"{minute:%H:%M}", "50%", "93%", "–"),
        *("40.0", "GiB", "–", "10.0", "Wh", "GPU-aaaa"),
    ]
    assert main(["gpus", "history", "GPU-aaaa", "--json", "--ledger", url]) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert (shown["gpu_id"], shown["minute"]) == ("GPU-aaaa", minute.isoformat())
    assert main(["gpus", "history", "GPU-b", "--last", "1m", "--ledger", url]) == 0
    assert "telemetry.history_days" in capsys.readouterr().out
