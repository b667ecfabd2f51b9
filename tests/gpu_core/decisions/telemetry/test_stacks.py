"""Stacks as faulthandler writes them, of which the main thread counts."""

import pytest

from gpu_core.decisions.telemetry.stacks import innermost_frames, main_thread_first

LOADER = """Thread 0x2 (most recent call first):
  File "queue.py", line 180 in get"""
MAIN = """Current thread 0x1 (most recent call first):
  File "distributed_c10d.py", line 9 in all_reduce
  File "train.py", line 3 in step"""


def test_the_main_thread_is_the_first():
    assert main_thread_first(f"{LOADER}\n\n{MAIN}\n") == f"{MAIN}\n\n{LOADER}"
    assert main_thread_first(MAIN) == MAIN


@pytest.mark.parametrize(
    ("stacks", "want"),
    [
        pytest.param(
            f"{MAIN}\n\n{LOADER}", 'File "distributed_c10d.py", line 9 in all_reduce', id="two"
        ),
        pytest.param(LOADER, 'File "queue.py", line 180 in get', id="one"),
        pytest.param('File "a.py", line 1 in f', 'File "a.py", line 1 in f', id="no header"),
        pytest.param("Current thread 0x1 (most recent call first):", "", id="no frame"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_its_innermost_frames_are_found(stacks, want):
    assert innermost_frames(stacks, 1) == want
