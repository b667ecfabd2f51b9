"""Every way by which a run learns that it will end."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gpu_core.adapters.files.run_files import Notice
from gpu_core.decisions.requests.runs.run_context import RunContext
from gpu_core.runtime import checkpointing
from gpu_core.runtime.notice import NoticeFile, Notices, PolledNotice, TerminationSignal
from tests.support.instance_metadata import FakeMetadata, metadata_server

StartAttempt = Callable[..., RunContext]
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def reported(reason: str, at: datetime = NOON) -> Notice:
    return Notice(
        reason=reason, message="", requested_at=at, deadline_at=at + timedelta(seconds=30)
    )


@pytest.fixture
def metadata() -> Iterator[FakeMetadata]:
    with metadata_server() as fake:
        yield fake


def test_an_annotation_that_kubernetes_mounts_is_a_notice(
    start_attempt: StartAttempt, tmp_path: Path
) -> None:
    """The file is there from the beginning, empty, and is replaced through a link."""
    folders = [tmp_path / "..1", tmp_path / "..2"]
    for folder in folders:
        folder.mkdir()
    (folders[0] / "notice.json").write_bytes(b"")
    (tmp_path / "..data").symlink_to(folders[0])
    path = tmp_path / "notice.json"
    path.symlink_to("..data/notice.json")
    start_attempt(1, notice_file=str(path))
    with checkpointing() as ckpt:
        assert (ckpt.notice, ckpt.due()) == (None, False)
        fields = {"reason": "Preempted", "message": "m", "requested_at": NOON.isoformat()}
        (folders[1] / "notice.json").write_text(
            json.dumps(fields | {"deadline_at": (NOON + timedelta(seconds=30)).isoformat()})
        )
        (tmp_path / "..new").symlink_to(folders[1])
        (tmp_path / "..new").replace(tmp_path / "..data")
        assert ckpt.due()
        assert ckpt.notice.reason == "Preempted"


def test_an_interruption_of_the_instance_is_a_notice(
    start_attempt: StartAttempt, metadata: FakeMetadata
) -> None:
    """The metadata service is asked by a thread that ends with the block."""
    metadata.interruption = {"action": "terminate", "time": "2026-03-01T12:02:00Z"}
    start_attempt(1, instance_metadata_url=metadata.address)
    with checkpointing() as ckpt:
        assert metadata.was_asked.wait(240)
        polling = [t for t in threading.enumerate() if t.name == "notice-poll"]
        assert len(polling) == 1
    assert not polling[0].is_alive()
    assert ckpt.notice.reason == "Interrupted"


def test_the_last_notice_counts(tmp_path: Path) -> None:
    """A recommendation of the provider, and then its interruption."""
    sources = [PolledNotice(lambda: None), PolledNotice(lambda: None)]
    sources[0]._notice = reported("Interrupted", NOON + timedelta(minutes=5))
    sources[1]._notice = reported("RebalanceRecommended")
    assert Notices([NoticeFile(tmp_path / "none"), *sources]).current().reason == "Interrupted"
    assert Notices(sources[1:]).current().reason == "RebalanceRecommended"
    assert Notices(()).current() is None


def test_a_machine_without_the_service_is_asked_three_times(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Then it is given up, with one line."""
    asked = []

    def ask() -> None:
        asked.append(1)
        raise OSError("no route to host")

    source = PolledNotice(ask, every_s=0)
    source.start()
    source._thread.join(240)
    assert len(asked) == 3
    assert "Unable to receive interruption notices: no route to host" in caplog.text
    source.close()


def test_an_outage_of_the_service_is_no_reason_to_give_up() -> None:
    """What answered once will answer again."""
    seen = threading.Event()
    answers = iter([None, *[OSError("busy")] * 10, reported("Interrupted")])

    def ask() -> Notice | None:
        answer = next(answers, reported("Interrupted"))
        if isinstance(answer, OSError):
            raise answer
        if answer is not None:
            seen.set()
        return answer

    source = PolledNotice(ask, every_s=0)
    source.start()
    assert seen.wait(240)
    source.close()
    assert source.current().reason == "Interrupted"


WORK = """
import os, signal, sys
from gpu_core.runtime import checkpointing
mode = sys.argv[1]
with checkpointing(interval_s=10_000) as ckpt:
    step = ckpt.restore(0)
    print("restored", step, flush=True)
    while mode != "leave":
        step += 1
        if ckpt.due():
            ckpt.save(step)
        if step == 5:
            os.kill(os.getpid(), signal.SIGTERM)
        if mode == "twice" and step == 5:
            os.kill(os.getpid(), signal.SIGTERM)
        assert step < 7
    os.kill(os.getpid(), signal.SIGTERM)
    print("left", flush=True)
print("not reached", flush=True)
"""


@pytest.mark.parametrize(
    ("mode", "want_output", "want_restored"),
    [
        pytest.param("once", "restored 0\n", "restored 6\n", id="save, then end"),
        pytest.param("twice", "restored 0\n", "restored 0\n", id="twice: end at once"),
        pytest.param("leave", "restored 0\nleft\n", "restored 0\n", id="end with the block"),
    ],
)
def test_a_signal_without_a_handler(
    tmp_path: Path, mode: str, want_output: str, want_restored: str
) -> None:
    """A real process: it saves before it ends by the signal, as its parent sees."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PREFECT__FLOW_RUN_ID": "3f0c",
        "PREFECT_GPU_ATTEMPT": "1",
        "PREFECT_GPU_ATTEMPT_ID": "3f0c-1",
        "PREFECT_GPU_CHECKPOINT_URI": str(tmp_path),
    }
    command = [sys.executable, "-c", WORK, mode]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (-signal.SIGTERM, want_output)
    command = [sys.executable, "-c", WORK, "leave"]
    again = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert again.stdout.startswith(want_restored)


def test_a_signal_with_a_handler_is_left_alone() -> None:
    """Inside a flow Prefect handles it."""

    def handler(_number: int, _frame: object) -> None:
        """Prefect's."""

    before = signal.signal(signal.SIGTERM, handler)
    try:
        source = TerminationSignal(30)
        source.start()
        assert signal.getsignal(signal.SIGTERM) is handler
        source.close()
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_run_that_cannot_save_ends_by_the_signal_at_once(start_attempt: StartAttempt) -> None:
    """There is nothing to wait for."""
    start_attempt(1, checkpoint_uri=None)
    before = signal.getsignal(signal.SIGTERM)
    with checkpointing():
        assert signal.getsignal(signal.SIGTERM) is before
