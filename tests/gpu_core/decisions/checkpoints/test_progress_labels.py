"""What a run in a pod reports of its steps, from one side to the other."""

from dataclasses import asdict, replace
from datetime import timedelta

import pytest

from gpu_core.adapters.files.progress_report import ProgressReport, progress_report_of
from gpu_core.decisions.checkpoints.progress_labels import LATE, progress_labels, progress_values
from gpu_core.testing.builders.workloads import NOW, ago

REPORT = ProgressReport(
    attempt_id="a", pid=7, steps=12, progressed_at=ago(90), median_step_s=2.5, phase="saving"
)


def arrived(labels, now=NOW, attempt_id="a"):
    values = progress_values(labels, attempt_id, now)
    return None if values is None else progress_report_of(values)


def test_a_report_arrives_as_it_was_sent():
    assert arrived(progress_labels(asdict(REPORT), NOW)) == REPORT


def test_what_is_unknown_now_replaces_what_was_known_before():
    before = progress_labels(asdict(REPORT), ago(60))
    later = replace(REPORT, phase=None, median_step_s=None)
    assert arrived(before | progress_labels(asdict(later), NOW)) == later


@pytest.mark.parametrize("ahead_s", [-100, 100], ids=["behind", "ahead"])
def test_a_clock_that_is_wrong_makes_no_run_hang(ahead_s):
    wrong = timedelta(seconds=ahead_s)
    report = replace(REPORT, progressed_at=REPORT.progressed_at + wrong)
    assert arrived(progress_labels(asdict(report), NOW + wrong)).progressed_at == ago(90)


@pytest.mark.parametrize(
    ("labels", "attempt_id"),
    [
        pytest.param(progress_labels(asdict(REPORT), NOW - 2 * LATE), "a", id="late"),
        pytest.param(progress_labels(asdict(REPORT), NOW), "b", id="of another attempt"),
        pytest.param({}, "a", id="none"),
        pytest.param(
            progress_labels(asdict(REPORT), NOW) | {"prefect-gpu.progress.reported_at": "noon"},
            *("a",),
            id="no moment",
        ),
        pytest.param(
            progress_labels(asdict(REPORT), NOW) | {"prefect-gpu.progress.progressed_at": 3},
            *("a",),
            id="a number for a moment",
        ),
        pytest.param(
            progress_labels(asdict(REPORT), NOW)
            | {"prefect-gpu.progress.progressed_at": "2026-09-01T12:00:00"},
            *("a",),
            id="a moment without a zone",
        ),
        pytest.param(
            progress_labels(asdict(REPORT), NOW) | {"prefect-gpu.progress.steps": "many"},
            *("a",),
            id="steps that are no number",
        ),
    ],
)
def test_what_is_late_or_cannot_be_understood_is_unknown(labels, attempt_id):
    assert arrived(labels, attempt_id=attempt_id) is None
