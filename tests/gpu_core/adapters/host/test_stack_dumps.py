"""Stacks of a process that hangs, and of no other one."""

from datetime import UTC, datetime

import pytest

from gpu_core.adapters.files.progress_report import ProgressReport
from gpu_core.adapters.host.stack_dumps import dump_stacks
from tests.support.hanging_process import FUNCTION, hanging_process


@pytest.fixture
def hanging(tmp_path):
    """A process of attempt `a1` that hangs."""
    with hanging_process("a1", tmp_path / "stacks-0.txt") as process:
        yield process


def report(pid, **changes):
    values = {"rank": 0, "dumps_stacks": True, "progressed_at": datetime.now(UTC)}
    return ProgressReport(attempt_id="a1", pid=pid, **values | changes)


def test_the_stack_of_a_process_that_hangs_is_read(tmp_path, hanging):
    (stack,) = dump_stacks(tmp_path, "a1", [report(hanging.pid)]).values()
    assert f"in {FUNCTION}" in stack


@pytest.mark.parametrize(
    ("attempt_id", "changes"),
    [
        pytest.param("a2", {}, id="another attempt's process"),
        pytest.param("a1", {"dumps_stacks": False}, id="one that the signal would end"),
    ],
)
def test_no_other_process_gets_the_signal(tmp_path, hanging, attempt_id, changes):
    assert dump_stacks(tmp_path, attempt_id, [report(hanging.pid, **changes)]) == {}
