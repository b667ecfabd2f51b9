"""Processes that submit a flow that is bound to a pool."""

import subprocess
import sys
from pathlib import Path

from tests.support.prefect_stack import Pool


def start(
    how: str, pool: Pool, folder: Path, worker_type: str = "gpu-process"
) -> subprocess.Popen[str]:
    """A person's process that submits the flow."""
    folder.mkdir(exist_ok=True)
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "tests.end_to_end.submit_bound"),
            *(how, pool.name, worker_type, str(folder)),
        ],
        env=dict(pool.environment),
        stdout=subprocess.PIPE,
        text=True,
    )


def submitted(how: str, pool: Pool, folder: Path, worker_type: str = "gpu-process") -> str:
    """Submit the flow; the id of its run."""
    with start(how, pool, folder, worker_type) as process:
        said, _ = process.communicate()
    assert process.returncode == 0
    return said.strip()
