"""A mock of the NVIDIA driver's library, compiled for the tests of one session."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tools import require

_SOURCE = Path(__file__).parent / "nvml_mock" / "nvml_mock.c"


def build_driver(folder: Path, *flags: str) -> Path:
    """The folder, with a `libnvidia-ml.so.1` whose GPUs come from the file in NVML_MOCK_FILE.

    Args:
        flags: For the compiler: `-DOLD_DRIVER` leaves out newer functions.
    """
    if sys.platform != "linux":
        pytest.skip("the NVML library is for Linux")
    compiler = require(shutil.which("cc"), "a C compiler")
    library = folder / "libnvidia-ml.so.1"
    command = [compiler, "-shared", "-fPIC", "-Wall", "-Werror", *flags, "-o", library, _SOURCE]
    subprocess.run(command, check=True)
    return folder


def driver_environment(driver: Path, machine: Path) -> dict[str, str]:
    """This process's environment with the mock driver and this machine's file."""
    environment = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"}
    return environment | {
        "LD_LIBRARY_PATH": str(driver),
        "NVML_MOCK_FILE": str(machine),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }


def gpu_lines(gpu_id: str, *, mig: str = "0", **fields: object) -> list[str]:
    """The lines of an H100 with these fields."""
    return [
        f"gpu {gpu_id} 85899345920 {mig} NVIDIA H100 80GB HBM3",
        *(f"set {gpu_id} {name} {value}" for name, value in fields.items()),
    ]
