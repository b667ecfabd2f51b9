"""The line as people see it."""

from datetime import timedelta
from io import StringIO

import pytest
from rich.console import Console

from gpu_core.cli.queue.table import queue_table
from gpu_core.decisions.scheduling.queue_table import QueueTableEntry
from gpu_core.testing.builders import NOW, ago


def shown(**changes):
    values = {
        "position": 1,
        "run": "train",
        "run_id": "id",
        "queue": "medium",
        "team": "vision",
        "gpus": 2,
        "priority": 1_000,
        "waiting_since": ago(300),
        "reason": "WaitingForGpus",
        "summary": "Waiting for 2 GPUs.",
        "resolution": "It starts when they are free.",
        "expected_start_at": None,
        "expected_start_from": None,
        "expected_start_until": None,
    }
    output = StringIO()
    table = queue_table("gpu", [QueueTableEntry(**(values | changes))], NOW)
    Console(file=output, width=200).print(table)
    return output.getvalue()


def test_a_row_says_who_waits_how_long_and_why():
    """And what would help."""
    text = shown()
    for part in ("train", "medium", "vision", "5m 00s", "WaitingForGpus: Waiting for 2 GPUs."):
        assert part in text
    assert "It starts when they are free." in text


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        pytest.param((None, None, None), "unknown", id="nobody knows"),
        pytest.param((30, None, None), "30m 00s", id="the planner knows"),
        pytest.param((30, 10, 90), "30m 00s (10m 00s to 1h 30m)", id="with its interval"),
        pytest.param((-5, -9, 20), "0s (0s to 20m 00s)", id="at any moment"),
    ],
)
def test_the_expected_start_is_counted_from_now(minutes, expected):
    """With the interval that it falls into four times in five."""
    at, low, high = (None if m is None else NOW + timedelta(minutes=m) for m in minutes)
    text = shown(expected_start_at=at, expected_start_from=low, expected_start_until=high)
    assert expected in text


def test_a_held_run_has_no_position():
    """It is not in the line."""
    assert "│ – │" in shown(position=0)


def test_names_are_shown_as_they_are():
    """Brackets in a name are no markup."""
    assert "[red]train" in shown(run="[red]train")
