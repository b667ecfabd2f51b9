"""The whole quickstart as one test, and what is left of it when it is interrupted."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.prefect_stack import wait_for

pytestmark = [pytest.mark.quickstart, pytest.mark.timeout(600)]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where a quickstart keeps everything; nothing of it may live afterwards."""
    yield tmp_path / "quickstart"
    left = list(processes_in(tmp_path / "quickstart"))
    for process in left:
        process.kill()
    assert not left, f"left running: {left}"


def start(folder: Path, output: Path, **environment: str) -> subprocess.Popen[bytes]:
    """Start the quickstart in this clone."""
    with output.open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "gpu_core.cli", "quickstart", "--folder", str(folder)],
            env={**os.environ, **environment},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def processes_in(folder: Path) -> Iterator[psutil.Process]:
    """Living processes that belong to the quickstart in this folder."""
    for process in psutil.process_iter():
        try:
            home = process.environ().get("PREFECT_HOME", "")
            if home.startswith(str(folder)) and process.status() != psutil.STATUS_ZOMBIE:
                yield process
        except (psutil.Error, OSError):
            continue


def test_the_whole_story(folder: Path, tmp_path: Path) -> None:
    """Everything runs, the resumed training is exact, the report finds its anomaly, all stops."""
    output = tmp_path / "output"
    # Settings of the user's own world must not leak in.
    story = start(folder, output, PREFECT_API_URL="http://127.0.0.1:9/api", KEEP="0")

    code = story.wait(timeout=540)

    text = output.read_text()
    assert code == 0, text
    assert "yes the training was preempted once" in text
    assert "yes its second attempt began with a checkpoint" in text
    assert "yes weights: " in text
    assert "  NO  " not in text
    assert "WaitingForVictims: " in text
    assert "Generated history." in text
    assert "generated-forgotten-sweep" in text
    assert "/#/compare-runs?runs=" in text


def test_an_interrupted_quickstart_stops_all_that_it_started(folder: Path, tmp_path: Path) -> None:
    """Ctrl-C in the middle of the work: servers, worker and runs are gone."""
    output = tmp_path / "output"
    story = start(folder, output)
    wait_for(lambda: b"submitted to" in output.read_bytes(), "work was submitted", timeout_s=180)
    assert any(processes_in(folder))

    os.kill(story.pid, signal.SIGINT)

    assert story.wait(timeout=60) == 1


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    """A mistyped --folder deletes nothing."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("five years")
    story = start(mine, tmp_path / "output")

    assert story.wait(timeout=60) == 2

    assert "--folder holds something that no quickstart made" in (tmp_path / "output").read_text()
    assert (mine / "thesis.txt").read_text() == "five years"
