"""A real process is killed in the middle of a save: the checkpoint before it is safe."""

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpu_core.adapters.checkpoints.run_checkpoints import RunCheckpoints
from gpu_core.adapters.checkpoints.store import LocalStore

# The writer stops inside the n-th fsync of its second save, which is a point of the write that
# the test knows: what was written before is there, half of it where the file itself is synced.
WRITER = """
import os, signal, stat, sys
from datetime import UTC, datetime
from pathlib import Path
from gpu_core.adapters.checkpoints.store import LocalStore
from gpu_core.adapters.checkpoints.run_checkpoints import RunCheckpoints

root, stop_at = Path(sys.argv[1]), int(sys.argv[2])
checkpoints = RunCheckpoints(LocalStore(root), flow_run_id="run", attempt=1, keep=2)
checkpoints.claim()
checkpoints.save(b"safe" * 1000, payload_format="bytes", saved_at=datetime.now(UTC))
real_fsync, calls = os.fsync, 0

def stopping_fsync(descriptor):
    global calls
    calls += 1
    if calls < stop_at:
        return real_fsync(descriptor)
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode):
        os.ftruncate(descriptor, status.st_size // 2)
    print("stopped", flush=True)
    while True:
        signal.pause()

os.fsync = stopping_fsync
checkpoints.save(b"lost" * 1000, payload_format="bytes", saved_at=datetime.now(UTC))
print("saved", flush=True)
"""


def kill_during_save(root: Path, stop_at: int) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(root), str(stop_at)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert writer.stdout is not None
    with writer.stdout:
        reported = writer.stdout.readline()
        writer.kill()
        assert writer.wait() == -signal.SIGKILL
    assert reported == "stopped\n"


@pytest.mark.parametrize(
    ("stop_at", "want_left_over", "want_restored"),
    [
        pytest.param(1, ".bin.*.tmp", b"safe", id="during the payload"),
        pytest.param(2, ".bin", b"safe", id="between payload and manifest"),
        pytest.param(3, ".json.*.tmp", b"safe", id="during the manifest"),
        pytest.param(4, ".json", b"lost", id="after the commit, before the answer"),
    ],
)
def test_kill_in_the_middle_of_a_save(
    tmp_path: Path, stop_at: int, want_left_over: str, want_restored: bytes
) -> None:
    """The next attempt restores the newest commit, saves, and clears away what was left over."""
    kill_during_save(tmp_path, stop_at)
    assert len(list(tmp_path.glob(f"run/000001-00000002{want_left_over}"))) == 1

    following = RunCheckpoints(LocalStore(tmp_path), flow_run_id="run", attempt=2, keep=1)
    following.claim()
    assert next(following.newest_first()).payload == want_restored * 1000

    following.save(b"next", payload_format="bytes", saved_at=datetime.now(UTC))
    following.prune()
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "000002-00000003.bin",
        "000002-00000003.json",
        "000002.claim",
    ]
