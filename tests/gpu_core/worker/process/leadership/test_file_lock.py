"""One acting worker for each pool: the lock that says which."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from gpu_core.worker.process.leadership.file_lock import FileLock
from tests.support.light_worker import LIGHT_WORKER

HOLDER = f"""{LIGHT_WORKER}
import time
from pathlib import Path
from gpu_core.worker.process.leadership.file_lock import FileLock
print(FileLock(Path(sys.argv[1])).acquire(), flush=True)
time.sleep(60)
"""


def test_only_one_acts_and_another_takes_over_when_it_lets_go(tmp_path: Path) -> None:
    """Acquiring never blocks, and asking again costs nothing."""
    first, second = FileLock(tmp_path / "pool.lock"), FileLock(tmp_path / "pool.lock")

    assert first.acquire()
    assert first.acquire()
    assert not second.acquire()
    first.release()
    assert second.acquire()
    second.release()


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    """The operating system gives the lock back, however its holder died."""
    path = tmp_path / "pool.lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        waiting = FileLock(path)
        assert not waiting.acquire()

        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()

        assert waiting.acquire()
        waiting.release()


def test_a_holder_whose_file_was_deleted_takes_the_new_one(tmp_path: Path) -> None:
    """Two processes that hold two files of the same name would both act."""
    path = tmp_path / "state" / "pool.lock"
    holder, second = FileLock(path), FileLock(path)
    assert holder.acquire()
    shutil.rmtree(path.parent)

    assert holder.acquire()
    assert not second.acquire()
    holder.release()


def test_a_holder_whose_file_was_deleted_loses_to_the_faster_one(tmp_path: Path) -> None:
    """It learns so when it asks again, and gets the lock back when the other lets go."""
    path = tmp_path / "pool.lock"
    holder, second = FileLock(path), FileLock(path)
    assert holder.acquire()
    path.unlink()
    assert second.acquire()

    assert not holder.acquire()
    assert not holder.is_held
    second.release()
    assert holder.acquire()
    holder.release()
