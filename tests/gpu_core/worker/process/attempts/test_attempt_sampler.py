"""The sampler of a run: real programs, and the mock driver where there are GPUs."""

import os
import subprocess
import sys

import pytest

from gpu_core.adapters.files.gpu_report import read_gpu_report, read_host_report
from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.worker.process.attempts import attempt_sampler, launcher
from tests.support.nvml_driver import build_driver, driver_environment, gpu_lines

# Ends when the sampler has written so many samples.
UNTIL_SAMPLED = """
import json, pathlib, sys, time
report, wanted = pathlib.Path(sys.argv[1], "gpus.json"), int(sys.argv[2])
while True:
    try:
        found = json.loads(report.read_text())
    except FileNotFoundError:
        found = {"gpus": [], "error": None}
    if found["error"] or min((gpu["samples"] for gpu in found["gpus"]), default=0) >= wanted:
        break
    time.sleep(0.01)
"""


def sampled(folder, gpu_ids, samples, environment=None):
    """Run a program that waits for the samples, and the sampler."""
    sampler = [sys.executable, "-P", attempt_sampler.__file__, str(folder), "0.01", *gpu_ids]
    command = [sys.executable, "-c", UNTIL_SAMPLED, str(folder), str(samples)]
    ran = subprocess.run(
        [sys.executable, "-I", "-S", launcher.__file__, str(folder), *sampler, "--", *command],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    return read_gpu_report(folder)


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    return build_driver(tmp_path_factory.mktemp("nvml"))


def test_the_gpus_of_a_run_are_summed_up(driver, tmp_path):
    machine = tmp_path / "machine.txt"
    lines = [
        *gpu_lines("GPU-a", utilization=80, temperature=70, memory_used=5, power=500_000),
        *gpu_lines("GPU-b", utilization=10, sm_util=30),
        *gpu_lines("GPU-of-another-run", utilization=99),
    ]
    machine.write_text("".join(f"{line}\n" for line in lines))
    environment = driver_environment(driver, machine)
    first, second = sampled(tmp_path, ["GPU-a", "GPU-b"], 3, environment)
    assert first == GpuSummary(
        gpu_id="GPU-a",
        samples=first.samples,
        utilization_mean_ratio=pytest.approx(0.8),
        utilization_p95_ratio=0.8,
        busy_ratio=1.0,
        memory_used_max_bytes=5,
        temperature_max_c=70.0,
        energy_j=first.energy_j,
    )
    assert first.samples >= 3
    assert first.energy_j > 0
    assert second.sm_active_mean_ratio == pytest.approx(0.3)


def test_virtual_gpus_are_simulated_and_say_so(tmp_path):
    (found,) = sampled(tmp_path, ["virtual-0"], 3)
    assert found.is_simulated
    assert found.energy_j > 0
    assert 0 <= found.utilization_mean_ratio <= 1
    host = read_host_report(tmp_path)
    assert host.samples >= 1
    assert 5 * 2**20 < host.memory_max_bytes < 2**30, "of an interpreter, without the sampler"


def test_a_driver_that_fails_leaves_the_run_alone(driver, tmp_path, caplog):
    machine = tmp_path / "machine.txt"
    machine.write_text("init 18\n")
    assert sampled(tmp_path, ["GPU-a"], 1, driver_environment(driver, machine)) == ()
    assert "the NVIDIA driver is installed but not responding" in caplog.text


def test_it_ends_where_its_launcher_was_killed_while_it_was_loaded(tmp_path):
    gone = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True
    )
    environment = os.environ | {launcher.LAUNCHER_PID_VARIABLE: gone.stdout.decode().strip()}
    command = [sys.executable, "-P", attempt_sampler.__file__, str(tmp_path), "0.01", "virtual-0"]
    assert subprocess.run(command, env=environment).returncode == 0
    assert not list(tmp_path.iterdir()), "it took no sample"


def test_it_loads_little():
    """A second of start-up for each run would be felt, and a hundred megabytes too."""
    program = (
        f"import runpy, sys; runpy.run_path({attempt_sampler.__file__!r}); print(*sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    loaded = subprocess.run(
        [sys.executable, "-P", "-c", program], env=environment, capture_output=True, text=True
    ).stdout.split()
    assert "pynvml" in loaded
    assert not {"prefect", "mlflow", "sqlalchemy", "numpy", "pydantic"} & set(loaded)
