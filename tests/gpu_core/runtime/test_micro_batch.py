"""How many samples an attempt puts on its GPU at once."""

import sys
from pathlib import Path

import pytest

from gpu_core.adapters.files.micro_batch_report import has_asked_for_micro_batch
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.requests.runs.run_context import MICRO_BATCH_LABEL
from gpu_core.runtime import micro_batch

# Its package has the function of that name.
MODULE = sys.modules["gpu_core.runtime.micro_batch"]


@pytest.mark.parametrize(
    ("size", "divisor", "want"),
    [
        pytest.param(64, 1, (64, 1), id="enough memory"),
        pytest.param(64, 4, (16, 4), id="a quarter in four steps"),
        pytest.param(10, 4, (2, 5), id="no sample is lost"),
        pytest.param(3, 8, (1, 3), id="never under one"),
    ],
)
def test_a_run_that_ran_out_of_memory_gets_less(start_attempt, size, divisor, want):
    start_attempt(2, micro_batch_divisor=divisor)
    assert micro_batch(size) == want


def test_outside_a_run_it_is_what_was_asked_for():
    assert micro_batch(64) == (64, 1)


def test_a_batch_of_nothing_is_refused():
    with pytest.raises(InvalidInput, match="size"):
        micro_batch(0)


def test_the_worker_learns_that_an_attempt_asks(start_attempt, monkeypatch):
    run = start_attempt(2)
    folder, own = Path(run.run_dir), run.attempt_id
    assert not has_asked_for_micro_batch(folder, own)
    monkeypatch.setenv("RANK", "1")
    micro_batch(64)
    assert not has_asked_for_micro_batch(folder, own), "the first rank speaks for all"
    monkeypatch.setenv("RANK", "0")
    micro_batch(64)
    assert has_asked_for_micro_batch(folder, own)
    assert not has_asked_for_micro_batch(folder, "another")


def test_without_a_folder_it_is_a_label_of_the_flow_run(start_attempt, monkeypatch):
    run, sent = start_attempt(2, reports_to_prefect=True), []
    monkeypatch.setattr(MODULE, "send_labels", lambda *of: sent.append(of))
    assert micro_batch(64) == (64, 1)
    assert sent == [(run.flow_run_id, {MICRO_BATCH_LABEL: run.attempt_id})]
    monkeypatch.setattr(MODULE, "send_labels", lambda *of: 1 / 0)
    assert micro_batch(64) == (64, 1), "a server that fails stops no training"
