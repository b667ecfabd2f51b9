"""A held GPU is freed by checks that it passes: nvidia-ml-py over a mock driver library.

Neither PyTorch nor CuPy is there: NumPy stands in for CuPy, whose functions it has.
"""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from gpu_core.cli.main import main
from gpu_core.decisions.model.gpu_health import HealthVerdict
from gpu_core.decisions.telemetry.health import HealthFinding
from gpu_core.worker.process.gpus.held import HeldGpus
from tests.support.light_worker import LIGHT_WORKER
from tests.support.nvml_driver import build_driver, driver_environment, gpu_lines

# The library is loaded once for a whole process, so that each case gets a process of its own: the
# child of one that has imported everything, which takes ten times as long as the checks.
PROGRAM = """
import json, os, sys
from gpu_core.cli.gpus.preflight import run_preflight
for line in sys.stdin:
    case = json.loads(line)
    child = os.fork()
    if not child:
        os.environ.update(case["environment"])
        with open(case["output"], "w") as sys.stdout:
            code = run_preflight("GPU-a", pause_s=0.0, as_json=case["as_json"])
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
CUPY = """
from types import SimpleNamespace
from numpy import arange, float32, ones, uint8
from numpy import full{renamed}
cuda = SimpleNamespace(runtime=SimpleNamespace(memGetInfo=lambda: (2**27, 2**27)))
"""
FLIPS = """
def full(shape, value, dtype):
    made = right(shape, value, dtype=dtype)
    made[-1] += 1
    return made
"""
RIGHT = CUPY.format(renamed="")
WRONG = CUPY.format(renamed=" as right") + FLIPS
ENDS = "import os; os.abort()"

ROWS = {"temperature": 40, "remapped_corrected": 1, "remapped_uncorrected": 0}
ROWS |= {"remapped_pending": 1, "remapped_failure": 0}

ILL = HealthFinding(
    verdict=HealthVerdict.RESET,
    reason="XID 79",
    remedy="restart the machine",
    found_at=datetime(2026, 11, 25, tzinfo=UTC),
)


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    """A process that checks a GPU for each line that it is given."""
    folder = tmp_path_factory.mktemp("driver")
    environment = driver_environment(build_driver(folder), folder / "no-machine.txt")
    with subprocess.Popen(
        [sys.executable, "-c", LIGHT_WORKER + PROGRAM],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as started:
        yield started


@pytest.fixture
def checked(process, tmp_path):
    """The exit status of a check, and what it printed."""

    def check(cupy, facts, *, as_json=False):
        machine, modules = tmp_path / "machine.txt", tmp_path / "modules"
        modules.mkdir()
        if cupy is not None:
            (modules / "cupy.py").write_text(cupy)
        lines = gpu_lines("GPU-other") if facts is None else gpu_lines("GPU-a", **facts)
        machine.write_text("".join(f"{line}\n" for line in lines))
        output = tmp_path / "output.txt"
        environment = {
            "NVML_MOCK_FILE": str(machine),
            "PREFECT_INTEGRATIONS_GPU_STATE_DIR": str(tmp_path),
            "PYTHONPATH": os.pathsep.join([str(modules), *sys.path]),
        }
        case = {"environment": environment, "output": str(output), "as_json": as_json}
        process.stdin.write(f"{json.dumps(case)}\n")
        process.stdin.flush()
        return int(process.stdout.readline()), output.read_text()

    return check


@pytest.mark.parametrize(
    ("cupy", "facts", "want_code", "want"),
    [
        pytest.param(
            *(RIGHT, {"temperature": 40}, 0),
            ("Computation: 0.1 GiB of memory and a matrix multiplication were verified (CuPy)."),
            id="it passes",
        ),
        pytest.param(
            *(None, {"temperature": 40}, 1),
            "Computation check skipped: neither PyTorch nor CuPy is installed.",
            id="what is not checked has not passed",
        ),
        pytest.param(
            *(WRONG, {"temperature": 40}, 1),
            "Computation: memory block 1 of 1 failed verification.",
            id="its memory is wrong",
        ),
        pytest.param(
            *(ENDS, {"temperature": 40}, 1),
            "Computation: the computation failed: exit code -6.",
            id="it ends the process",
        ),
        pytest.param(
            *(RIGHT, {"temperature": 91}, 1),
            "Driver: 91 °C, from 85 °C on it is too hot. Check its cooling.",
            id="it is too hot",
        ),
        pytest.param(
            *(RIGHT, ROWS, 1),
            "Driver: memory rows are pending replacement by a reset. Reset it with "
            "`nvidia-smi --gpu-reset`.",
            id="its memory waits for a reset",
        ),
        pytest.param(
            *(RIGHT, None, 1),
            "Driver: the GPU is not responding. Restart the machine.",
            id="the driver does not find it",
        ),
    ],
)
def test_a_held_gpu_is_freed_by_checks_that_it_passes(
    checked, tmp_path, cupy, facts, want_code, want
):
    held = HeldGpus(tmp_path)
    held.hold("GPU-a", ILL)
    code, printed = checked(cupy, facts)
    assert (code, want in printed.splitlines()) == (want_code, True), printed
    assert list(held.read()) == ([] if want_code == 0 else ["GPU-a"])


def test_json_has_what_was_checked(checked, tmp_path):
    held = HeldGpus(tmp_path)
    held.hold("GPU-a", ILL)
    code, printed = checked(RIGHT, {"temperature": 91}, as_json=True)
    document = json.loads(printed)
    assert code == 1
    assert document["driver_finding"] == "91 °C, from 85 °C on it is too hot"
    assert (document["has_passed"], document["computed_with"]) == (False, "CuPy")
    assert document["compared_bytes"] > 0
    assert document["computation_fault"] is None
    assert list(held.read()) == ["GPU-a"]


def test_without_a_driver_it_stays_held(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PREFECT_INTEGRATIONS_GPU_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    held = HeldGpus(tmp_path)
    held.hold("GPU-a", ILL)
    assert main(["gpus", "preflight", "GPU-a"]) == 1
    assert "GPU-a is still held" in capsys.readouterr().err
    assert list(held.read()) == ["GPU-a"]


def test_a_gpu_that_is_not_held_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PREFECT_INTEGRATIONS_GPU_STATE_DIR", str(tmp_path))
    assert main(["gpus", "preflight", "GPU-a"]) == 2
    assert "is not a held GPU of this machine" in capsys.readouterr().err
