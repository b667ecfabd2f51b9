"""Does one GPU of this machine compute rightly? Asked in a process of its own."""

import json
import os
import subprocess
import sys

from gpu_core.decisions.telemetry.preflight import Computation

# Memory of 192 GB is written and compared within seconds; libraries load for up to a minute.
_LONGEST_S = 300.0
_SHOWN = 300


def compute_on(gpu_id: str) -> Computation:
    """The result of a small computation on this GPU.

    Args:
        gpu_id: Its UUID.
    """
    command = [sys.executable, "-m", "gpu_core.adapters.compute.probe"]
    try:
        done = subprocess.run(
            command,
            env=os.environ | {"CUDA_VISIBLE_DEVICES": gpu_id},
            capture_output=True,
            text=True,
            timeout=_LONGEST_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Computation(fault=f"the computation timed out after {_LONGEST_S:.0f} seconds")
    try:
        found = json.loads(done.stdout.splitlines()[-1])
        return Computation(
            library=found["library"], compared_bytes=int(found["bytes"]), fault=found["fault"]
        )
    except (IndexError, ValueError, KeyError, TypeError):
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return Computation(fault=f"the computation failed: {lines[-1][:_SHOWN]}")
