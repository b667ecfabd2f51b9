"""Checkpoints as a flow sees them: restored, due, saved, and reported to the worker."""

import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gpu_core.adapters.checkpoints.open_store import open_store
from gpu_core.adapters.checkpoints.run_checkpoints import RunCheckpoints, StaleAttempt
from gpu_core.adapters.files.run_files import (
    CheckpointReport,
    Notice,
    read_checkpoint_report,
    write_notice,
)
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.requests.runs.run_context import NOTICE_FILE, RunContext
from gpu_core.runtime import checkpointing
from gpu_core.testing.clock import Clock

StartAttempt = Callable[..., RunContext]
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOTICE = Notice(
    reason="Preempted",
    message="'train-critical' needs 4 GPUs",
    requested_at=NOON,
    deadline_at=NOON + timedelta(seconds=30),
)


class Unreadable:
    """A state whose class cannot be found again, as after a change of the code."""

    def __reduce__(self) -> tuple[object, ...]:
        return (_fail, ())


def _fail() -> None:
    raise AttributeError("the class is gone")


def report_of(run: RunContext) -> CheckpointReport | None:
    assert run.run_dir is not None
    return read_checkpoint_report(run.run_dir)


def test_a_run_continues_where_its_last_attempt_saved(start_attempt: StartAttempt) -> None:
    """The loop of the public contract, cut off in the middle and continued."""

    def train(steps: int, stop_at: int | None = None) -> tuple[int, list[int]]:
        done = []
        with checkpointing(interval_s=0) as ckpt:
            state = ckpt.restore({"step": 0, "sum": 0})
            for step in range(state["step"], steps):
                if step == stop_at:
                    break
                done.append(step)
                state = {"step": step + 1, "sum": state["sum"] + step}
                if ckpt.due():
                    ckpt.save(state)
        return state["sum"], done

    start_attempt(1)
    assert train(10, stop_at=6) == (15, [0, 1, 2, 3, 4, 5])
    start_attempt(2)
    assert train(10) == (45, [6, 7, 8, 9])


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(b"\x80\x05raw", id="bytes are kept as they are"),
        pytest.param(bytearray(b"x"), id="a bytearray stays one"),
        pytest.param(None, id="None is a state too"),
        pytest.param({"step": 7, "weights": [0.1] * 1000}, id="a dictionary"),
        pytest.param(replace(NOTICE, message="x" * 10_000), id="an object"),
    ],
)
def test_any_state_comes_back_as_it_was(start_attempt: StartAttempt, state: object) -> None:
    """Value and type are those that were saved."""
    start_attempt(1)
    with checkpointing() as ckpt:
        saved = ckpt.save(state)
    assert saved is not None
    assert saved.key == "3f0c/000001-00000001"
    start_attempt(2)
    with checkpointing() as ckpt:
        restored = ckpt.restore("the default")
    assert (type(restored), restored) == (type(state), state)


def test_bytes_are_stored_without_a_wrapping(start_attempt: StartAttempt, tmp_path: Path) -> None:
    """What a framework has serialized can be read from the store without this library."""
    start_attempt(1)
    with checkpointing() as ckpt:
        ckpt.save(b"as torch.save wrote it")
    assert (tmp_path / "store/3f0c/000001-00000001.bin").read_bytes() == b"as torch.save wrote it"


def test_a_checkpoint_of_version_0_1_is_restored(
    start_attempt: StartAttempt, tmp_path: Path
) -> None:
    """Byte for byte as it was written then; and what fits one part is still written like that."""
    manifest = (
        b'{"attempt":2,"format":"pickle",'
        b'"manifest_sha256":"5385f8b823d44671d9f91572b544f296108262d734ff49cbacc3227d22205f94",'
        b'"saved_at":"2026-03-01T12:30:00+00:00","sequence":7,'
        b'"sha256":"88c41c8c31a3c25f1e6a855615be67a4b88c8c5af92b6a53abbdd8b18edb9e55","size_bytes":5}'
    )
    folder = tmp_path / "store/3f0c"
    folder.mkdir(parents=True)
    (folder / "000002-00000007.bin").write_bytes(b"\x80\x05K\x07.")
    (folder / "000002-00000007.json").write_bytes(manifest)
    start_attempt(3)
    with checkpointing() as ckpt:
        assert ckpt.restore(None) == 7
        ckpt.save(8)
    written = json.loads((folder / "000003-00000008.json").read_bytes())
    assert written.keys() == json.loads(manifest).keys()


def test_a_state_that_cannot_be_read_any_more_is_left_out(
    start_attempt: StartAttempt, caplog: pytest.LogCaptureFixture
) -> None:
    """The one before it is restored, and the log says why."""
    start_attempt(1)
    with checkpointing() as ckpt:
        ckpt.save({"step": 1})
        ckpt.save(Unreadable())
    start_attempt(2)
    with checkpointing() as ckpt:
        assert ckpt.restore(None) == {"step": 1}
    assert "000001-00000002: it cannot be read" in caplog.text
    assert "the class is gone" in caplog.text


def test_a_format_of_a_later_version_is_left_out(
    start_attempt: StartAttempt, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """What this version cannot read is not guessed at."""
    later = RunCheckpoints(
        open_store(str(tmp_path / "store")), flow_run_id="3f0c", attempt=1, keep=2
    )
    later.save(b"?", payload_format="zstd", saved_at=NOON)
    start_attempt(2)
    with checkpointing() as ckpt:
        assert ckpt.restore("default") == "default"
    assert "'zstd' is unknown to this version" in caplog.text


@pytest.mark.parametrize(
    ("passed_s", "want_due"),
    [(0.0, False), (599.9, False), (600.0, True), (10_000.0, True)],
)
def test_a_save_is_due_when_the_interval_has_passed(
    start_attempt: StartAttempt, passed_s: float, want_due: bool
) -> None:
    """The interval counts from the start, and again from every save."""
    start_attempt(1, checkpoint_interval_s=600)
    clock = Clock()
    with checkpointing(clock=clock) as ckpt:
        for _ in range(2):
            clock.advance(passed_s)
            assert ckpt.due() == want_due
            ckpt.save({})
            assert not ckpt.due()


def test_a_notice_makes_a_save_due_at_once_and_once(start_attempt: StartAttempt) -> None:
    """A run that is asked to end saves again, and then goes on until it is ended."""
    run = start_attempt(1)
    with checkpointing() as ckpt:
        ckpt.save({"step": 1})
        assert (ckpt.due(), ckpt.notice) == (False, None)
        assert not report_of(run).answers_notice

        write_notice(run.run_dir, NOTICE)
        assert (ckpt.due(), ckpt.notice) == (True, NOTICE)
        ckpt.save({"step": 2})
        assert (ckpt.due(), ckpt.notice) == (False, NOTICE)
        assert report_of(run).answers_notice


def test_a_second_notice_asks_for_a_second_save(start_attempt: StartAttempt) -> None:
    """A notice that replaces one is a new one; one that is taken back asks for nothing."""
    run = start_attempt(1)
    with checkpointing() as ckpt:
        write_notice(run.run_dir, NOTICE)
        ckpt.save({})
        write_notice(run.run_dir, replace(NOTICE, reason="TimedOut"))
        assert ckpt.due()
        Path(run.run_dir, NOTICE_FILE).unlink()
        assert (ckpt.due(), ckpt.notice) == (False, None)


def test_a_notice_that_comes_during_a_save_asks_for_another(start_attempt: StartAttempt) -> None:
    """The state was taken before the notice: what has been done since would be lost."""
    run = start_attempt(1)

    class Slow:
        def __reduce__(self) -> tuple[object, ...]:
            write_notice(run.run_dir, NOTICE)
            return (dict, ())

    with checkpointing() as ckpt:
        ckpt.save(Slow())
        assert not report_of(run).answers_notice
        assert ckpt.due()


def test_what_the_worker_gets(start_attempt: StartAttempt) -> None:
    """It learns at once that the run can save, then what it started with, then what is safe."""
    run = start_attempt(1)
    assert report_of(run) is None
    with checkpointing() as ckpt:
        assert report_of(run) == CheckpointReport(attempt_id="3f0c-1")
        ckpt.restore(None)
        clock_before = datetime.now(UTC)
        saved = ckpt.save({"step": 1})
        reported = report_of(run)
    assert reported == CheckpointReport(
        attempt_id="3f0c-1",
        checkpoint="3f0c/000001-00000001",
        sequence=1,
        saved_at=reported.saved_at,
        size_bytes=saved.size_bytes,
        duration_s=saved.duration_s,
        first_step_at=reported.first_step_at,
        saves=1,
    )
    assert clock_before <= reported.first_step_at <= reported.saved_at <= datetime.now(UTC)

    run = start_attempt(2)
    with checkpointing() as ckpt:
        ckpt.restore(None)
        assert report_of(run) == CheckpointReport(
            attempt_id="3f0c-2", restored_from="3f0c/000001-00000001"
        )


def test_the_worker_learns_when_the_first_new_step_was_done(start_attempt: StartAttempt) -> None:
    """The first question whether to save says so, and no later one changes it."""
    run = start_attempt(1)
    with checkpointing() as ckpt:
        ckpt.restore(None)
        assert report_of(run).first_step_at is None
        clock_before = datetime.now(UTC)
        ckpt.due()
        first = report_of(run).first_step_at
        assert clock_before <= first <= datetime.now(UTC)
        ckpt.due()
        ckpt.save(1)
        assert report_of(run).first_step_at == first


@pytest.mark.parametrize("adapts", [False, True])
def test_the_worker_learns_what_an_interruption_loses(
    start_attempt: StartAttempt, *, adapts: bool
) -> None:
    """Once a save was measured: half of the ten minutes between two saves, and a save."""
    run = start_attempt(1, checkpoint_interval_s=600, checkpoint_interval_adapts=adapts)
    with checkpointing() as ckpt:
        ckpt.save(1)
        assert report_of(run).expected_loss_s is None
        ckpt.save(2)
        assert 300 < report_of(run).expected_loss_s < 400


def test_the_worker_learns_how_often_an_attempt_saves_and_what_a_save_costs(
    start_attempt: StartAttempt,
) -> None:
    run = start_attempt(1)
    with checkpointing() as ckpt:
        assert report_of(run).saves is None
        ckpt.save(1)
        assert (report_of(run).saves, report_of(run).save_stall_s) == (1, None)
    with checkpointing() as ckpt:
        ckpt.save(2)
        ckpt.save(3)
        assert report_of(run).saves == 3
        assert 0 < report_of(run).save_stall_s < 60
    run = start_attempt(2)
    with checkpointing() as ckpt:
        ckpt.save(4)
        assert report_of(run).saves == 1


def test_a_second_block_of_the_same_attempt_hides_nothing(start_attempt: StartAttempt) -> None:
    """A flow may save in two phases; the worker keeps knowing what the first has saved."""
    run = start_attempt(1)
    with checkpointing() as ckpt:
        ckpt.save("phase 1")
        first = report_of(run)
    with checkpointing() as ckpt:
        assert report_of(run) == first
        assert ckpt.restore(None) == "phase 1"
        assert report_of(run).restored_from is None
        assert ckpt.save("phase 2").key == "3f0c/000001-00000002"


def test_the_clock_measures_the_whole_stand_still(start_attempt: StartAttempt) -> None:
    """Taking the state is part of what a checkpoint costs."""
    start_attempt(1)
    clock = Clock()

    class Slow:
        def __reduce__(self) -> tuple[object, ...]:
            clock.advance(4.5)
            return (dict, ())

    with checkpointing(clock=clock) as ckpt:
        assert ckpt.save(Slow()).duration_s == 4.5


def test_a_zombie_is_stopped(start_attempt: StartAttempt) -> None:
    """After the next attempt has started, the earlier one can neither save nor begin again."""
    start_attempt(1)
    with checkpointing() as zombie:
        start_attempt(2)
        with checkpointing() as ckpt:
            with pytest.raises(StaleAttempt, match="should be stopped"):
                zombie.save("from the grave")
            assert ckpt.restore("nothing") == "nothing"
    start_attempt(1)
    with pytest.raises(StaleAttempt), checkpointing():
        pytest.fail("the block must not begin")


@pytest.mark.parametrize("where", ["outside any run", "in a run without a store"])
def test_a_flow_runs_where_nothing_can_be_saved(
    start_attempt: StartAttempt, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    """It begins from the start, never has to save, and is warned once if it wants to."""
    run = None if where == "outside any run" else start_attempt(1, checkpoint_uri=None)
    with checkpointing(interval_s=0) as ckpt:
        assert ckpt.restore("default") == "default"
        assert not ckpt.due()
        assert [ckpt.save(1), ckpt.save(2)] == [None, None]
    warnings = [r for r in caplog.records if r.levelno == logging.WARNING]
    (warning,) = warnings
    assert warning.getMessage().startswith("Checkpoints are disabled because")
    # A run that cannot save must not promise the worker that it will.
    assert run is None or report_of(run) is None


def test_a_run_without_a_store_still_hears_a_notice(start_attempt: StartAttempt) -> None:
    """It may want to end in good order."""
    run = start_attempt(1, checkpoint_uri=None)
    write_notice(run.run_dir, NOTICE)
    with checkpointing() as ckpt:
        assert (ckpt.notice, ckpt.due()) == (NOTICE, False)


def test_a_lost_run_folder_costs_no_checkpoint(
    start_attempt: StartAttempt, caplog: pytest.LogCaptureFixture
) -> None:
    """The checkpoint is safe even where the worker cannot be informed."""
    run = start_attempt(1)
    with checkpointing() as ckpt:
        shutil.rmtree(run.run_dir)
        ckpt.save("safe")
        assert ckpt.restore(None) == "safe"
    assert "Failed to report the checkpoint" in caplog.text


def test_keep_and_store_can_be_given(start_attempt: StartAttempt, tmp_path: Path) -> None:
    """What a flow says goes before what the worker says."""
    start_attempt(1, checkpoint_uri=None)
    with checkpointing(store=str(tmp_path / "mine"), keep=1) as ckpt:
        for state in range(3):
            ckpt.save(state)
    assert sorted(path.name for path in (tmp_path / "mine" / "3f0c").iterdir()) == [
        "000001-00000003.bin",
        "000001-00000003.json",
        "000001.claim",
    ]


@pytest.mark.parametrize(
    ("arguments", "want_error"),
    [
        pytest.param({"interval_s": -1}, r"interval_s is out of range \(got -1\)", id="negative"),
        pytest.param({"interval_s": float("nan")}, "interval_s is out of range", id="not a number"),
        pytest.param({"keep": 0}, r"keep is out of range \(got 0\). Allowed: 1", id="keep nothing"),
        pytest.param({"store": "gs://b"}, "checkpoint_uri has an unknown scheme", id="no store"),
    ],
)
def test_wrong_arguments_are_refused(
    start_attempt: StartAttempt, arguments: dict[str, object], want_error: str
) -> None:
    """The error names the argument, what came and what is allowed."""
    start_attempt(1)
    with pytest.raises(InvalidInput, match=want_error):
        checkpointing(**arguments)


def test_importing_the_runtime_loads_nothing_heavy() -> None:
    """A flow that never saves to S3 and never tracks does not pay for it."""
    loaded = subprocess.run(
        [sys.executable, "-c", "import gpu_core.runtime, sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ).stdout.split()
    assert "gpu_core.runtime.checkpoints" in loaded
    heavy = {"boto3", "mlflow", "pandas", "prefect", "pydantic", "sqlalchemy", "asyncio"}
    assert not heavy & set(loaded)
