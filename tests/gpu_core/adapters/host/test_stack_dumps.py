"""Stacks of a process that hangs, and of no other one."""

import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from gpu_core.adapters.files.progress_report import ProgressReport
from gpu_core.adapters.host.stack_dumps import dump_stacks

HANGS = """
import faulthandler, signal, sys, threading
def hangs_here():
    print("ready", flush=True)
    threading.Event().wait()
faulthandler.register(signal.SIGUSR2, file=open(sys.argv[1], "w"), all_threads=True)
hangs_here()
"""


@pytest.fixture
def hanging(tmp_path):
    """A process of attempt `a1` that hangs."""
    process = subprocess.Popen(
        [sys.executable, "-c", HANGS, str(tmp_path / "stacks-0.txt")],
        env=os.environ | {"PREFECT_GPU_ATTEMPT_ID": "a1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        process.stdout.readline()
        yield process
        assert process.poll() is None  # the signal has not ended it
        process.kill()


def report(pid, **changes):
    values = {"rank": 0, "dumps_stacks": True, "progressed_at": datetime.now(UTC)}
    return ProgressReport(attempt_id="a1", pid=pid, **values | changes)


def test_the_stack_of_a_process_that_hangs_is_read(tmp_path, hanging):
    (stack,) = dump_stacks(tmp_path, "a1", [report(hanging.pid)]).values()
    assert "in hangs_here" in stack


@pytest.mark.parametrize(
    ("attempt_id", "changes"),
    [
        pytest.param("a2", {}, id="another attempt's process"),
        pytest.param("a1", {"dumps_stacks": False}, id="one that the signal would end"),
    ],
)
def test_no_other_process_gets_the_signal(tmp_path, hanging, attempt_id, changes):
    assert dump_stacks(tmp_path, attempt_id, [report(hanging.pid, **changes)]) == {}
