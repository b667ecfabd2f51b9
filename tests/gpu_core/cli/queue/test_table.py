"""A pool as people see it in terminals of every width."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gpu_core.cli.queue.table import holder_lines, waiting_lines
from gpu_core.decisions.costs.reports.holders_table import HoldersTableEntry
from gpu_core.decisions.scheduling.queue.queue_table import QueueTableEntry
from gpu_core.testing.builders.workloads import NOW, ago

WIDTHS = [pytest.param(width, id=f"{width} columns") for width in (40, 80, 120)]
HOSTILE = [
    pytest.param("[red]train[/red]", id="markup"),
    pytest.param("🚀 train 🚀", id="emoji"),
    pytest.param("אימון", id="right to left"),
    pytest.param("train-" * 40, id="long"),
    pytest.param("| a | *b* `c`", id="Markdown"),
]


def waiting(width=None, **changes):
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
    return list(waiting_lines("gpu", [QueueTableEntry(**(values | changes))], NOW, width))


def holding(width=None, **changes):
    values = {
        "run": "train",
        "run_id": "id",
        "queue": "medium",
        "team": "vision",
        "attempt": 1,
        "gpus": 4,
        "gpu_type": "a100-80gb",
        "nodes": "node-1",
        "held_since": ago(600),
        "may_run_until": NOW + timedelta(hours=1),
        "ending": None,
        "must_stop_by": None,
        "accrued_micro_usd": 2_000_000,
        "accrued_at": ago(300),
        "micro_usd_per_hour": 12_000_000,
    }
    return list(holder_lines("gpu", [HoldersTableEntry(**(values | changes))], NOW, width))


def test_who_holds_gpus_since_when_at_what_cost_and_until_when():
    """With what has accrued since the worker published it."""
    assert holding(120) == [
        "1 run of pool 'gpu' holds GPUs: $3.00 so far.",
        "Run    Team    GPUs           Nodes   Held since              Cost so far  May run until",
        "train  vision  4 × a100-80gb  node-1  11:50:00 UTC (10m 00s)  $3.00        13:00:00 UTC",
    ]


def test_a_narrow_terminal_has_a_paragraph_for_each_run():
    """No column is cut, and a fact that fits a line is on one."""
    assert holding(40) == [
        "1 run of pool 'gpu' holds GPUs: $3.00 so",
        "far.",
        "train",
        "    Team vision, GPUs 4 × a100-80gb,",
        "    Nodes node-1,",
        "    Held since 11:50:00 UTC (10m 00s),",
        "    Cost so far $3.00,",
        "    May run until 13:00:00 UTC",
    ]


def test_a_run_that_must_stop_says_why_and_by_when():
    stop_by = NOW + timedelta(seconds=20)
    assert holding(ending="Preempted", must_stop_by=stop_by)[-1] == (
        "    Preempted; must stop by 12:00:20 UTC."
    )


def test_an_unpriced_run_is_not_free():
    text = "\n".join(holding(accrued_micro_usd=None))
    assert "$0 so far, excluding resources without a price" in text.replace("$0.00", "$0")
    assert "unpriced" in text


def test_who_waits_why_how_long_and_what_would_help():
    assert waiting(80) == [
        "1 run of pool 'gpu' waits.",
        "#  Run    Team    GPUs  Waited  Starts in",
        "1  train  vision  2     5m 00s  unknown",
        "    WaitingForGpus: Waiting for 2 GPUs.",
        "    It starts when they are free.",
    ]


@pytest.mark.parametrize(
    ("minutes", "want"),
    [
        pytest.param((None, None, None), "unknown", id="no estimate"),
        pytest.param((30, None, None), "30m 00s", id="the planner knows"),
        pytest.param((30, 10, 90), "30m 00s (80%: 10m 00s to 1h 30m)", id="with its interval"),
        pytest.param((-5, -9, 20), "0s (80%: 0s to 20m 00s)", id="at any moment"),
    ],
)
def test_the_expected_start_is_counted_from_now(minutes, want):
    at, low, high = (None if m is None else NOW + timedelta(minutes=m) for m in minutes)
    changes = {"expected_start_at": at, "expected_start_from": low, "expected_start_until": high}
    assert waiting(**changes)[2].endswith(f"  {want}")


def test_a_held_run_has_no_position():
    assert waiting(position=0)[2].startswith("–  train")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_breaks_the_screen(name, width):
    """Each line fits, and the name is all there."""
    for shown in (holding(width, run=name, team=name), waiting(width, run=name, team=name)):
        assert max(map(cell_len, shown)) <= width
        assert "".join(name.split()) in "".join("".join(shown).split())


@given(st.integers(20, 200), st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=300))
def test_every_line_fits(width, text):
    for shown in (
        holding(width, run=text, nodes=text),
        waiting(width, run=text, summary=text, resolution=text),
    ):
        assert max(map(cell_len, shown)) <= width


def test_a_pipe_gets_one_line_for_each_run_and_sentence():
    """Nothing is wrapped where a program reads it."""
    shown = waiting(None, summary="word " * 100)
    assert len(shown) == 5
    assert holding(None, run="train-" * 40)[2].startswith("train-" * 40)
