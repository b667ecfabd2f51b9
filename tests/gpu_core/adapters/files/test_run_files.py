"""What one side writes the other reads, and what cannot be understood is ignored."""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from gpu_core.adapters.files.run_files import (
    CheckpointReport,
    ExitReport,
    Notice,
    read_checkpoint_report,
    read_exit_report,
    read_notice_file,
    write_checkpoint_report,
    write_notice,
)
from gpu_core.decisions.requests.runs.run_context import CHECKPOINT_FILE, EXIT_FILE, NOTICE_FILE

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOTICE = Notice(
    reason="Preempted",
    message="'train-critical' needs 4 GPUs",
    requested_at=NOON,
    deadline_at=NOON + timedelta(seconds=30),
)
SAVED = CheckpointReport(
    attempt_id="a2",
    restored_from="run/000001-00000003",
    checkpoint="run/000002-00000004",
    sequence=4,
    saved_at=NOON,
    size_bytes=123,
    duration_s=0.25,
    answers_notice=True,
    first_step_at=NOON,
    expected_loss_s=300.5,
    saves=2,
    save_stall_s=1.5,
)
EXITED = ExitReport(exit_code=-9, ended_at=NOON)


def read_notice(folder: Path) -> Notice | None:
    return read_notice_file(folder / NOTICE_FILE)


def write_exit_report(folder: Path, report: ExitReport) -> None:
    """As the launcher writes it."""
    values = {"exit_code": report.exit_code, "ended_at": report.ended_at.isoformat()}
    (folder / EXIT_FILE).write_text(json.dumps(values))


@pytest.mark.parametrize(
    ("write", "read", "record"),
    [
        pytest.param(write_notice, read_notice, NOTICE, id="a notice"),
        pytest.param(write_checkpoint_report, read_checkpoint_report, SAVED, id="a checkpoint"),
        pytest.param(
            write_checkpoint_report,
            read_checkpoint_report,
            CheckpointReport(attempt_id="a1"),
            id="a run that can save and has not yet",
        ),
        pytest.param(write_exit_report, read_exit_report, EXITED, id="an exit"),
    ],
)
def test_what_is_written_is_read_back(
    tmp_path: Path, write: Callable, read: Callable, record: object
) -> None:
    """Before there is nothing, afterwards the same value, and no temporary file."""
    assert read(tmp_path) is None
    write(tmp_path, record)
    assert read(tmp_path) == record
    assert len(list(tmp_path.iterdir())) == 1


def test_a_second_notice_replaces_the_first(tmp_path: Path) -> None:
    """The newest notice counts."""
    write_notice(tmp_path, NOTICE)
    later = Notice(
        reason="TimedOut", message="over", requested_at=NOON, deadline_at=NOON + timedelta(hours=1)
    )
    write_notice(tmp_path, later)
    assert read_notice(tmp_path) == later


def test_times_are_given_in_utc(tmp_path: Path) -> None:
    """A moment that was written with another offset is the same moment in UTC."""
    elsewhere = NOON.astimezone(timezone(timedelta(hours=9)))
    write_exit_report(tmp_path, ExitReport(exit_code=0, ended_at=elsewhere))
    found = read_exit_report(tmp_path)
    assert found is not None
    assert (found.ended_at, found.ended_at.utcoffset()) == (NOON, timedelta(0))


@pytest.mark.parametrize(
    ("change", "want_read"),
    [
        pytest.param({"from_the_future": 1}, True, id="an unknown key is ignored"),
        pytest.param({"error": None}, True, id="an optional key may be null"),
        pytest.param({"exit_code": None}, False, id="a required key is missing"),
        pytest.param({"exit_code": "0"}, False, id="text instead of a number"),
        pytest.param({"exit_code": True}, False, id="a boolean is not a number"),
        pytest.param({"ended_at": "yesterday"}, False, id="not a time"),
        pytest.param({"ended_at": "2026-03-01T12:00:00"}, False, id="a time without a zone"),
    ],
)
def test_a_reader_is_tolerant_and_never_guesses(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, change: dict[str, object], want_read: bool
) -> None:
    """Unknown keys are fine; a value of a wrong type makes the file unreadable, which is logged."""
    values = {"exit_code": 0, "ended_at": NOON.isoformat()} | change
    (tmp_path / "exit.json").write_text(json.dumps(values))
    assert (read_exit_report(tmp_path) is not None) == want_read
    assert ("exit.json because it could not be" in caplog.text) == (not want_read)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"7", b"\xff"])
def test_damaged_files_are_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    """A file that is no JSON object is as good as none, and the log names it."""
    (tmp_path / "notice.json").write_bytes(content)
    assert read_notice(tmp_path) is None
    assert "notice.json because it could not be" in caplog.text


def test_a_missing_folder_is_an_error_for_the_writer(tmp_path: Path) -> None:
    """A notice that cannot be left is not silently lost."""
    with pytest.raises(FileNotFoundError):
        write_notice(tmp_path / "gone", NOTICE)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda path: path.mkdir(), id="a folder"),
        pytest.param(lambda path: os.mkfifo(path), id="a pipe without a writer"),
        pytest.param(lambda path: path.symlink_to("/dev/zero"), id="a device without an end"),
        pytest.param(lambda path: path.symlink_to(path), id="a link to itself"),
        pytest.param(lambda path: path.write_text(" " * 100_000), id="a large file"),
        pytest.param(lambda path: path.write_text("[" * 10_000), id="deep lists"),
        pytest.param(
            lambda path: path.write_text('{"attempt_id": "a", "duration_s": NaN}'), id="no number"
        ),
        pytest.param(
            lambda path: path.write_text('{"attempt_id": "a", "duration_s": 1e999}'), id="infinite"
        ),
        pytest.param(
            lambda path: path.write_text('{"attempt_id": "a", "sequence": 1' + "0" * 400 + "}"),
            id="a number of 400 digits",
        ),
        pytest.param(
            lambda path: path.write_text(
                '{"attempt_id": "a", "saved_at": "9999-12-31T23:59:59-14:00"}'
            ),
            id="after the last moment of all",
        ),
    ],
)
def test_whatever_a_run_puts_in_place_of_its_report_is_ignored(
    tmp_path: Path, make: Callable
) -> None:
    """The worker that reads it schedules all the others."""
    make(tmp_path / CHECKPOINT_FILE)
    assert read_checkpoint_report(tmp_path) is None
