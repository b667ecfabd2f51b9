"""What runs print and write is for the worker's user alone, also where an earlier version was."""

import os
import stat
from pathlib import Path

import pytest

from gpu_core.worker.startup.state_folder import open_state_folder


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def _usual_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def earlier(path: Path, *names: str) -> Path:
    """The state folder of an earlier version."""
    for name in ("runs/run-1/attempt-1", *names):
        (path / name).mkdir(parents=True)
    (path / "gpu.lock").touch()
    (path / "ledger.db-wal").touch()
    return path


def test_a_new_one_is_private(tmp_path):
    open_state_folder(tmp_path / "prefect" / "gpu")
    assert mode(tmp_path / "prefect" / "gpu") == 0o700
    assert mode(tmp_path / "prefect" / "gpu" / "runs") == 0o700


def test_that_of_an_earlier_version_is_closed(tmp_path):
    path = earlier(tmp_path / "gpu", "checkpoints")
    assert mode(path) == 0o755
    open_state_folder(path)
    assert (mode(path), mode(path / "runs")) == (0o700, 0o700)
    open_state_folder(path)
    assert (path / "runs/run-1/attempt-1").is_dir()


def test_a_folder_with_other_things_in_it_stays_and_the_runs_are_closed(tmp_path):
    path = earlier(tmp_path / "srv", "data-sets")
    open_state_folder(path)
    assert (mode(path), mode(path / "runs")) == (0o755, 0o700)


def test_a_folder_for_all_stays(tmp_path):
    path = earlier(tmp_path / "tmp")
    path.chmod(0o1777)
    open_state_folder(path)
    assert (mode(path), mode(path / "runs")) == (0o1777, 0o700)


def test_without_room_for_it_the_worker_gets_an_error_and_continues(tmp_path, caplog):
    (tmp_path / "gpu").touch()
    open_state_folder(tmp_path / "gpu")
    assert "Failed to create state directory" in caplog.text
    assert (tmp_path / "gpu").is_file()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give folders away")
def test_another_users_folder_stays(tmp_path):
    path = earlier(tmp_path / "gpu")
    os.chown(path, 65534, 65534)
    open_state_folder(path)
    assert (mode(path), mode(path / "runs")) == (0o755, 0o700)
