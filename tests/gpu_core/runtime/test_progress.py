"""What a run reports of its steps."""

import os
import signal
import sys
from pathlib import Path

import pytest

from gpu_core.adapters.files.progress_report import read_progress_reports, read_stacks
from gpu_core.runtime import Ranks, checkpointing, reporting_progress
from gpu_core.runtime.progress import Progress
from gpu_core.testing.clock import Clock


def report_of(run):
    (report,) = read_progress_reports(Path(run.run_dir), run.attempt_id)
    return report


def test_steps_are_counted_and_their_times_learned(start_attempt):
    run, clock = start_attempt(1), Clock()
    with Progress(run, Ranks(), clock) as progress:
        for seconds in (1, 2, 2, 90, 2):
            clock.advance(seconds)
            progress.step()
        assert (report_of(run).steps, report_of(run).phase) == (5, None)
        assert (report_of(run).median_step_s, report_of(run).longest_step_s) == (2.0, 90.0)
    assert report_of(run).phase == "ended"


def test_phases_are_said_and_are_no_steps(start_attempt):
    run, clock = start_attempt(1), Clock()
    with Progress(run, Ranks(), clock) as progress:
        for _ in range(5):
            clock.advance(1)
            progress.step()
        with progress.phase("saving"):
            clock.advance(500)
            assert report_of(run).phase == "saving"
        assert report_of(run).phase is None
        progress.evaluated()
        clock.advance(900)
        progress.evaluated()
        assert report_of(run).phase == "evaluating"
        progress.step()
        assert (report_of(run).phase, report_of(run).longest_step_s) == (None, 1.0)


def test_checkpointing_reports_steps_and_saves(start_attempt):
    run = start_attempt(1)
    with checkpointing(interval_s=0) as ckpt:
        for step in range(3):
            if ckpt.due():
                ckpt.save(step)
        assert report_of(run).steps == 3
        ckpt.progress.used()
    assert report_of(run).used_at is not None


def test_outside_a_run_nothing_is_reported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with reporting_progress() as progress:
        progress.step()
        progress.evaluated()
        progress.used()
        with progress.phase("saving"):
            pass
    assert not [*tmp_path.iterdir()]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGUSR2")
def test_a_signal_writes_the_stacks(start_attempt):
    run = start_attempt(1)
    with Progress(run, Ranks()):
        assert report_of(run).dumps_stacks
        os.kill(os.getpid(), signal.SIGUSR2)
        assert "in test_a_signal_writes_the_stacks" in read_stacks(Path(run.run_dir), 0)
    os.kill(os.getpid(), signal.SIGUSR2)  # one that comes late ends nothing


def test_a_signal_that_the_run_uses_itself_is_left_alone(start_attempt):
    run, seen = start_attempt(1), []
    before = signal.signal(signal.SIGUSR2, lambda number, _frame: seen.append(number))
    try:
        with Progress(run, Ranks()):
            assert not report_of(run).dumps_stacks
            os.kill(os.getpid(), signal.SIGUSR2)
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert seen == [signal.SIGUSR2]
