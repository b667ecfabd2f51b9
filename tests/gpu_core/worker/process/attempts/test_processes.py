"""Which process is an attempt's, for a worker that did not start it."""

import os
import subprocess
import sys

import psutil
import pytest

from gpu_core.decisions.requests.runs.run_context import ATTEMPT_ID_VARIABLE
from gpu_core.testing.builders.attempts import make_attempt
from gpu_core.worker.process.attempts.processes import LocalProcesses


@pytest.fixture
def launcher():
    """A process that an earlier worker started for the attempt `mine`."""
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"],
        env={**os.environ, ATTEMPT_ID_VARIABLE: "mine"},
        stdout=subprocess.PIPE,
    )
    # Linux shows the environment of a new program a moment after the program has started.
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.parametrize(
    ("attempt_id", "want"),
    [
        pytest.param("mine", True, id="the clock was set since it started: alive"),
        pytest.param("other", False, id="the number went to another attempt's process: gone"),
    ],
)
def test_a_process_is_known_by_its_mark_whatever_the_clock_says(launcher, attempt_id, want):
    """A start time that is off by a day neither hides a living process nor makes up one."""
    attempt = make_attempt(attempt_id=attempt_id, pid=launcher.pid, pid_created_at=86_400.0)

    assert LocalProcesses().lives(attempt) is want


class BecomingAnother:
    """A process that shows no environment for so many looks."""

    def __init__(self, looks):
        self.looks = looks

    def status(self):
        return psutil.STATUS_RUNNING

    def environ(self):
        self.looks -= 1
        return {ATTEMPT_ID_VARIABLE: "mine"} if self.looks < 0 else {}


@pytest.mark.parametrize(
    ("looks", "want"),
    [
        pytest.param(0, True, id="as it is"),
        pytest.param(1, True, id="in the midst of exec"),
        pytest.param(1_000_000, False, id="a kernel thread never shows one"),
    ],
)
def test_a_process_that_is_becoming_another_program_is_found(monkeypatch, looks, want):
    """Its GPUs would go to another run while it uses them."""
    process = BecomingAnother(looks)
    monkeypatch.setattr(psutil, "process_iter", lambda: iter([process]))
    assert LocalProcesses().marked() == ({"mine": [process]} if want else {})


@pytest.mark.parametrize(
    ("output", "want"),
    [
        pytest.param(None, (), id="no folder any more"),
        pytest.param(b"", (), id="nothing"),
        pytest.param(b"loading\nno such file\n", ("loading", "no such file"), id="two lines"),
        pytest.param(b"\xff\n", ("\N{REPLACEMENT CHARACTER}",), id="no text"),
        pytest.param(b"x" * 100_000 + b"\nend", ("x" * 65_532, "end"), id="the end of much"),
    ],
)
def test_the_last_lines_of_an_attempt_are_the_end_of_its_output(tmp_path, output, want):
    if output is not None:
        (tmp_path / "output.log").write_bytes(output)
    assert LocalProcesses().last_lines(tmp_path) == want
