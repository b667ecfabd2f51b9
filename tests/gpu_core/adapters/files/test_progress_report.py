"""What ranks report, as a worker reads it."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gpu_core.adapters.files.progress_report import (
    ProgressReport,
    read_progress_reports,
    read_stacks,
    write_progress_report,
)

REPORT = ProgressReport(
    attempt_id="a1",
    ranks=2,
    pid=17,
    steps=145,
    progressed_at=datetime(2026, 11, 25, tzinfo=UTC),
    median_step_s=1.5,
    phase="saving",
    dumps_stacks=True,
)


def test_each_rank_is_read_as_it_was_written(tmp_path):
    reports = (REPORT, replace(REPORT, rank=1, steps=144, phase=None))
    for report in reports:
        write_progress_report(tmp_path, report)
    assert read_progress_reports(tmp_path, "a1") == reports
    assert read_progress_reports(tmp_path, "a2") == ()


def test_a_rank_without_a_report_is_left_out(tmp_path):
    write_progress_report(tmp_path, REPORT)
    assert read_progress_reports(tmp_path, "a1") == (REPORT,)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("", id="empty"),
        pytest.param("[]", id="no object"),
        pytest.param('{"attempt_id": "a1"}', id="half of it"),
        pytest.param('{"attempt_id": "a1", "rank": 0, "ranks": 1, "pid": true}', id="a wrong type"),
        pytest.param(
            '{"attempt_id": "a1", "rank": 2, "ranks": 2, "pid": 7, "steps": 1, '
            '"progressed_at": "2026-11-25T00:00:00+00:00"}',
            id="a rank that is none of them",
        ),
    ],
)
def test_what_cannot_be_understood_is_no_report(tmp_path, content):
    (tmp_path / "progress-0.json").write_text(content)
    assert read_progress_reports(tmp_path, "a1") == ()


def test_a_lost_folder_costs_nothing(tmp_path):
    write_progress_report(tmp_path / "gone", REPORT)
    assert read_stacks(tmp_path / "gone", 0) == ""
